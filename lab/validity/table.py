"""The known traps of benchmarking, and the checks against them: for people (docs/checks.md) and for programs (JSON)."""

from __future__ import annotations

from dataclasses import fields

from pydantic import JsonValue

from lab.validity.check import Declaration
from lab.validity.verdict import ALL, CHECKS, STUDY_CHECKS

#: The traps by number.
TRAPS = {
    1: "Random-token prompts distort acceptance.",
    2: "Acceptance differs by kind of text.",
    3: "A model forced past its end repeats itself, which inflates acceptance.",
    4: "Sampling parameters that are not sent take the model's values.",
    5: "Endpoint, chat template and reasoning mode change acceptance.",
    6: "A streamed chunk is not a token.",
    7: "Peak tokens per second counted by chunks is too low.",
    8: "Another tokenizer counts other tokens.",
    9: "Engines count acceptance differently.",
    10: "An engine's counters are global and cumulative.",
    11: "Failed requests count as fast ones.",
    12: "First requests pay compilation.",
    13: "A warm server serves the same prompts from its prefix cache.",
    14: "Captured graphs must cover max_num_seqs x (1 + k) tokens.",
    15: "Speculation changes other settings too.",
    16: "A limit on concurrency hides the wait in the client.",
    17: "The measuring client saturates.",
    18: "Total tokens over total time includes the tail.",
    19: "Outputs are shorter than requested, or prompts truncated.",
    20: "Heat and clocks change over hours.",
    21: "A single point is not a result.",
    22: "A baseline measured in another environment is not a baseline.",
    23: "Greedy output under speculation may differ from the target's own.",
    24: "Acceptance forced by a setting of the engine is not real.",
    25: "Cost without its tokens, price and date means nothing.",
    26: "Identical figures of two machines, and ratios that contradict their parts, are suspect.",
    27: "The lab's own work disturbs its measurements.",
    28: "A server decides when it writes, and for whom it works.",
    29: "Other programs use the machine, or a quota holds it back.",
}

_HEAD = """\
# Checks

To see when a check fires and why, search this page. The finding says what to do, as `drafthouse checks` does.
An `invalid` run stays in the warehouse, but charts and comparisons leave it out; a `warning` is shown beside the
figures; a `note` explains them. A check that needs something unknown (often in files of other tools) is skipped and
listed as such, which is not passing.

Tests provoke the traps with real servers and edited files (`tests/validity_for_real`). On honest data the checks of
streams, repeats and arms fired in 0 of 400 simulated runs and 0 of 160 studies.

No check can see a first token that is early by less than half a step or behind a slow network, speculation faked in
counters and events alike, or one refused prompt before it is compared with the baseline's.

`drafthouse checks --json` also says what each check reads.

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
        rows.append(f"{number}. {trap} {checks}.")
    of_runs, of_studies = ("".join(map(_section, checks)) for checks in (CHECKS, STUDY_CHECKS))
    return f"{_HEAD}{chr(10).join(rows)}\n\n## Of a run\n{of_runs}\n## Of a study\n{of_studies}"


def _section(check: Declaration) -> str:
    worst = "" if check.severity in check.threshold else f"{check.severity}: "
    fires = f"{worst}{check.threshold}"
    return f"""
### {check.name}
{fires[0].upper()}{fires[1:]}.

{check.why}
"""


if __name__ == "__main__":
    print(page(), end="")
