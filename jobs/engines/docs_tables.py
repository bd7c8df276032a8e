"""Writes the tables of docs/engines.md that follow from the code: `python -m jobs.engines.docs_tables`."""

from __future__ import annotations

from pathlib import Path

from jobs.engines import relied_on
from jobs.engines.kinds import KINDS
from lab.study.methods import METHODS

DOCUMENT = Path(__file__).parents[2] / "docs" / "engines.md"


def updated(document: str) -> str:
    """Return the document with tables that follow from the code. Raises ValueError if their marks are missing."""
    return _with_table(_with_table(document, "methods", methods_table()), "relied on", relied_on.table())


def methods_table() -> str:
    """Return the methods of speculation, and what each kind of engine calls them, as a table of Markdown."""
    kinds = [name for name, kind in KINDS.items() if kind.methods]
    rows = [
        f"| `method` | what it is called | draft model | {' | '.join(f'`{kind}`' for kind in kinds)} |",
        "|" + "---|" * (3 + len(kinds)),
    ]
    for method in METHODS.values():
        names = " | ".join(f"`{method.engines[kind]}`" if kind in method.engines else "-" for kind in kinds)
        rows.append(f"| `{method.name}` | {method.label} | {method.draft_model} | {names} |")
    return "\n".join(rows)


def _with_table(document: str, name: str, table: str) -> str:
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, _, rest = document.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise ValueError(f"docs/engines.md has no {begin} and {end}")
    return f"{before}{begin}\n\n{table}\n\n{end}{after}"


if __name__ == "__main__":
    DOCUMENT.write_text(updated(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
