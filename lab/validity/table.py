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
        "Results can be sliced by category.",
    ),
    Trap(3, "A model forced past its end repeats itself, which inflates acceptance."),
    Trap(
        4,
        "Sampling parameters that are not sent take the model's values.",
        "temperature, top_p and seed are always sent; vLLM does not read the model's generation_config.",
    ),
    Trap(
        5,
        "Completions or chat endpoint, chat template and reasoning mode change acceptance.",
        "A study has one endpoint.",
    ),
    Trap(
        6,
        "A streamed chunk is not a token.",
        "TPOT comes from usage; the gap between chunks is ICL.",
    ),
    Trap(7, "Peak tokens per second counted by chunks is too low.", "No peak rate is computed or imported."),
    Trap(8, "Another tokenizer counts other tokens.", "All counts come from the server's usage."),
    Trap(
        9,
        "Engines count acceptance differently.",
        "Lengths follow from rounds and accepted tokens, bonus token included; positions are unconditional.",
    ),
    Trap(10, "An engine's counters are global and cumulative.", "The window's difference is taken."),
    Trap(
        11,
        "Failed requests count as fast ones.",
        "Only requests without an error count.",
    ),
    Trap(
        12,
        "First requests pay compilation.",
        "Every run warms up at its own concurrency, unmeasured.",
    ),
    Trap(
        13,
        "The same prompts sent twice to a warm server are served from its prefix cache.",
        "The cache is reset before each window where possible; warm-up prompts share no beginning with it.",
    ),
    Trap(14, "Captured graphs must cover max_num_seqs x (1 + k) tokens."),
    Trap(15, "Speculation changes other settings too.", "The engine's effective configuration is stored."),
    Trap(
        16,
        "A limit on concurrency hides the wait in the client.",
        "ttft_from_intended_ms counts from the intended moment of sending.",
    ),
    Trap(17, "The measuring client saturates."),
    Trap(18, "Total tokens over total time includes the tail."),
    Trap(19, "The output is shorter than requested, or the prompt was truncated."),
    Trap(
        20,
        "Heat and clocks change over the hours.",
        "Arms are measured A B B A by default; clocks, power and throttle reasons are stored.",
    ),
    Trap(21, "A single point is not a result.", "Comparisons have intervals."),
    Trap(
        22,
        "A baseline measured in another environment is not a baseline.",
        "Runs are paired by repeat.",
    ),
    Trap(
        23,
        "Greedy output under speculation may still differ from the target's own.",
        "The share of equal outputs stands beside each speed-up.",
    ),
    Trap(24, "Acceptance forced by a setting of the engine is not real."),
    Trap(
        25,
        "Cost without its tokens, price and date means nothing.",
        "Prices have a date and a source; each cost says which tokens it covers.",
    ),
    Trap(26, "Identical figures of two machines, and ratios that do not follow from their parts, are suspect."),
    Trap(
        27,
        "The lab's own work disturbs its measurements.",
        "Runs are ingested and published between windows.",
    ),
    Trap(28, "A server decides when it writes what it has made, and for whom it works."),
    Trap(
        29,
        "Other programs use the machine, or a quota holds it back.",
    ),
)
#: By number.
TRAPS: dict[int, Trap] = {trap.number: trap for trap in _NAMED}


_HEAD = """\
# Checks

To see what a finding means, look its check up here. `invalid`: the run stays in the warehouse, but charts and
comparisons leave it out; `warning`: shown beside the figures; `note`: explains them. A check that needs something
unknown is skipped and listed as such, which is not passing; one that does not apply says nothing. Files of other tools
record less than a measurement, so more is skipped there.

Tests provoke each trap with real servers, clients and edited files (`tests/validity_for_real`), except those of GPUs,
container quotas, engine starts and rounds, which are tested with records. On honest data the checks of streams, repeats
and arms fired in 0 of 400 simulated runs and 0 of 160 studies.

No check can see a first token that is early by less than half a step or behind a slow network, speculation faked in
counters and events alike, or one refused prompt before it is compared with the baseline's.

This page is generated from `lab/validity/`; `drafthouse checks --json` has the same, and what each check reads.

## The known traps

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
    worst = "" if check.severity in check.threshold else f"{check.severity}: "
    fires = f"{worst}{check.threshold}"
    return f"""
### {check.name}
{fires[0].upper()}{fires[1:]}.

{check.why}

**Advice:** {check.advice}
"""


if __name__ == "__main__":
    print(page(), end="")
