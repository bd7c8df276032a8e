"""Print the checks for people (docs/checks.md) and programs (plain values for JSON)."""

from __future__ import annotations

from dataclasses import fields

from pydantic import JsonValue

from lab.validity.catalogue import ALL, CHECKS, STUDY_CHECKS
from lab.validity.check import Declaration
from lab.validity.traps import TRAPS

_HEAD = """\
# Checks

Each run gets a verdict from the checks below, and so do the runs of a study together. A finding is `invalid` (the run
stays in the warehouse and is left out of charts and comparisons), a `warning` (shown beside the figures) or a `note`
(it explains them); a run is valid if no finding is invalid. A check that needs something unknown is skipped and listed
as such: that is not the same as passing. A check that does not apply, on a machine without a GPU for example, says
nothing. Files of other tools record less than a measurement, so checks of an imported run that need more are skipped.

Each check has a test that provokes its trap for real: small servers and clients that fall into it, and edited files of
other tools (`tests/validity_for_real`). Only the checks of the GPU are tested with records alone, because a CPU cannot
provoke them. Every check is also tested to be silent on a healthy run.

This page is generated from `lab/validity/`; `drafthouse checks --json` has the same.

## The known traps
| | trap | checks | other measures |
|---|---|---|---|
"""


def declarations() -> list[dict[str, JsonValue]]:
    """Return every check as plain values, in the order of `ALL`; `scope` is "run" or "study"."""
    return [_declared(check) for check in ALL]


def page() -> str:
    """Return the text of docs/checks.md."""
    rows = (
        f"| {trap.number} | {trap.what} | {_checks_of(trap.number)} | {trap.otherwise} |" for trap in TRAPS.values()
    )
    of_runs, of_studies = ("".join(map(_section, checks)) for checks in (CHECKS, STUDY_CHECKS))
    return f"{_HEAD}{chr(10).join(rows)}\n\n## Of a run\n{of_runs}\n## Of a study\n{of_studies}"


def _checks_of(trap: int) -> str:
    return ", ".join(f"`{check.name}`" for check in ALL if trap in check.traps)


def _section(check: Declaration) -> str:
    traps = ", ".join(map(str, check.traps))
    return f"""
### {check.name}
At worst {check.severity}; {"trap" if len(check.traps) == 1 else "traps"} {traps}. Looks at {", ".join(check.looks_at)}.

- **Fires:** {check.threshold}.
- **Why:** {check.why}
- **What to do:** {check.advice}
"""


def _declared(check: Declaration) -> dict[str, JsonValue]:
    declared: dict[str, JsonValue] = {"name": check.name, "scope": "run" if check in CHECKS else "study"}
    for field in fields(Declaration):
        value = getattr(check, field.name)
        declared[field.name] = list(value) if isinstance(value, tuple) else value
    return declared


if __name__ == "__main__":
    print(page(), end="")
