"""The known traps of benchmarking, and the checks against them: for people (docs/checks.md) and for programs (JSON)."""

from __future__ import annotations

from dataclasses import dataclass, fields

from pydantic import JsonValue

from lab.validity.check import Declaration
from lab.validity.verdict import ALL, CHECKS, STUDY_CHECKS


@dataclass(frozen=True)
class Trap:
    """One trap. `otherwise`: what Drafthouse does against it besides checks."""

    number: int
    what: str
    otherwise: str = ""


_NAMED = (
    Trap(1, "Random-token prompts distort acceptance in either direction."),
    Trap(
        2,
        "Acceptance differs by kind of text.",
        "A category is stored with each prompt, and results can be sliced by it.",
    ),
    Trap(3, "A model that is forced to write past its end repeats itself, which inflates acceptance."),
    Trap(
        4,
        "Sampling parameters that are not sent take the model's own values.",
        "temperature, top_p and seed are sent with every request and stored with every run; vLLM is started so that "
        "it does not read the model's generation_config.",
    ),
    Trap(
        5,
        "Completions or chat endpoint, chat template and reasoning mode change acceptance.",
        "Each run stores its endpoint. A study has a single one.",
    ),
    Trap(
        6,
        "A streamed chunk is not a token.",
        "TPOT comes from usage. The gap between chunks has its own name, inter-chunk latency (ICL).",
    ),
    Trap(7, "Peak tokens per second counted by chunks is too low.", "No peak rate is computed, and none is imported."),
    Trap(8, "Another tokenizer counts other tokens.", "All counts come from the server's usage."),
    Trap(
        9,
        "Engines count acceptance differently.",
        "Lengths are computed here from rounds and accepted tokens, with the bonus token; an engine's own mean is not "
        "used. Rates are fractions everywhere, and positions are unconditional.",
    ),
    Trap(10, "An engine's counters are global and cumulative.", "The difference over the measured window is taken."),
    Trap(
        11,
        "Failed requests count as fast ones.",
        "Only requests without an error count in any figure; what never happened is null, not 0.",
    ),
    Trap(
        12,
        "First requests pay compilation.",
        "Every run warms up at its own concurrency with prompts of its kind, and the warm-up is not measured.",
    ),
    Trap(
        13,
        "The same prompts sent twice to a warm server are served from its prefix cache.",
        "The cache is reset before each window if the engine can, and warm-up prompts share no beginning with it.",
    ),
    Trap(14, "Captured graphs must cover max_num_seqs x (1 + k) tokens."),
    Trap(15, "Speculation changes other settings too.", "The effective configuration that the engine logs is stored."),
    Trap(
        16,
        "A limit on concurrency hides the wait in the client.",
        "ttft_from_intended_ms counts from the intended moment of sending.",
    ),
    Trap(17, "The measuring client saturates.", "Its lag, its latest send and its processor time are stored."),
    Trap(18, "Total tokens over total time includes the tail."),
    Trap(19, "The output is shorter than requested, or the prompt was truncated."),
    Trap(
        20,
        "Heat and clocks change over the hours.",
        "Arms are measured A B B A unless set otherwise, and clocks, power and throttle reasons are stored.",
    ),
    Trap(21, "A single point is not a result.", "Comparisons have intervals, and say so when they are inconclusive."),
    Trap(
        22,
        "A baseline measured in another environment is not a baseline.",
        "Runs are compared with the baseline of the same repeat.",
    ),
    Trap(
        23,
        "Greedy output under speculation may still differ from the target's own.",
        "The share of equal outputs is shown beside each speed-up, with its interval.",
    ),
    Trap(24, "Acceptance forced by a setting of the engine is not real."),
    Trap(
        25,
        "Cost without its tokens, price and date means nothing.",
        "Prices in the book have a date and a source, and each cost says which tokens it covers, with and without "
        "start-up.",
    ),
    Trap(26, "Identical figures of two machines, or ratios that do not follow from their parts, are suspect."),
    Trap(
        27,
        "The lab's own work disturbs its measurements.",
        "Runs are ingested and published between windows, and each run records what ran beside it all the same.",
    ),
    Trap(28, "A server decides when it writes what it has made, and for whom it works."),
    Trap(
        29,
        "Other programs use the machine, or a quota holds it back.",
        "What they take is recorded each second.",
    ),
)
#: By number.
TRAPS: dict[int, Trap] = {trap.number: trap for trap in _NAMED}


_HEAD = """\
# Checks

Each run gets a verdict from the checks below, and so do the runs of a study together. A finding is `invalid` (the run
stays in the warehouse and is left out of charts and comparisons), a `warning` (shown beside the figures) or a `note`
(it explains them); a run is valid if no finding is invalid. A check that needs something unknown is skipped and listed
as such: that is not the same as passing. A check that does not apply, on a machine without a GPU for example, says
nothing. Files of other tools record less than a measurement, so checks of an imported run that need more are skipped.

Each check has a test that provokes its trap for real: small servers and clients that fall into it, and edited files of
other tools (`tests/validity_for_real`). Checks of the GPU, of a container's quota, of engine starts and of rounds are
tested with records alone, because no test can provoke them. Every check is also tested to be silent on a healthy run.
Those of streams, repeats and arms fired in 0 of 400 simulated honest runs and 0 of 160 studies whose times scatter by 5
to 50 % (1 to 16 streams, steps of 4 to 20 ms): in fewer than 1 and 2 of 100, with 95 % confidence.

Some lies no check can see: a first token that is early by less than half a step, or behind a network whose round trip
is longer; speculation that a server pretends in counters and in events alike; and a single refused prompt, until it is
compared with the baseline's.

Below, each check says when it fires and how bad that is, why, and what to do. This page is generated from
`lab/validity/`; `drafthouse checks --json` has the same, and what each check looks at.

## The known traps
Each with the checks that look for it.

"""


def declarations() -> list[dict[str, JsonValue]]:
    """Return every check as plain values, in the order of `ALL`; `scope` is "run" or "study"."""
    return [
        {"name": check.name, "scope": "run" if check in CHECKS else "study"}
        | {
            field.name: list(value) if isinstance(value := getattr(check, field.name), tuple) else value
            for field in fields(Declaration)
        }
        for check in ALL
    ]


def page() -> str:
    """Return the text of docs/checks.md."""
    rows = []
    for number, trap in TRAPS.items():
        checks = ", ".join(f"`{check.name}`" for check in ALL if number in check.traps)
        rows.append(f"{number}. {trap.what} {checks}. {trap.otherwise}".rstrip())
    of_runs, of_studies = ("".join(map(_section, checks)) for checks in (CHECKS, STUDY_CHECKS))
    return f"{_HEAD}{chr(10).join(rows)}\n\n## Of a run\n{of_runs}\n## Of a study\n{of_studies}"


def _section(check: Declaration) -> str:
    worst = "" if check.severity in check.threshold else f"At worst {check.severity}: "
    fires = f"{worst}{check.threshold}"
    return f"""
### {check.name}
{fires[0].upper()}{fires[1:]}.

{check.why}

**Advice:** {check.advice}
"""


if __name__ == "__main__":
    print(page(), end="")
