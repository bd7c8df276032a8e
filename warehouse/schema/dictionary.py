"""The data dictionary: the warehouse's own comments as a page. `python -m warehouse.schema.dictionary` writes it."""

from __future__ import annotations

import itertools
import re
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import duckdb

from host.settings import Settings
from warehouse.ingest.publication import migrate_master
from warehouse.queries.connect import open_warehouse

PAGE = Path(__file__).resolve().parents[2] / "docs" / "data_dictionary.md"
_HEAD = """# Data dictionary

To find a column, search this page, or browse the tables on the SQL page. Start with the views `results` (one row per
run), `valid_latest_runs` (the last valid run of each cell) and `requests` (one row per request).

Times are UTC, units are in the names, null means unknown, never zero. Types are given for lists; `DESCRIBE results`
shows the others. ↑: higher is better, ↓: lower is better. Columns with one meaning share a line, and a column of
several relations is described in the first of them (`a` to `d`: all columns there from `a` to `d`).
"""
#: A latency has one column for each statistic, next to each other: they share a row.
_STATISTIC = re.compile(r"\b(mean|\d+th percentile \(linear\)) of\b")
#: Tables that SQL can read, too, but whose rows the views and other tables have.
_BEHIND_VIEWS = (
    *("alembic_version", "archived_runs", "judged_arms", "judged_metrics", "judgements", "recent_requests"),
    *("prompt_latencies", "prompt_lists", "run_metrics", "run_validity", "study_validity"),
)
_UNIT = re.compile(r" \[([^];]+)(?:; (higher|lower) is better)?\]$")
_RELATIONS = """
    SELECT view_name AS name, comment, 'view' AS kind FROM duckdb_views() WHERE NOT internal
    UNION ALL SELECT table_name, comment, 'table' FROM duckdb_tables() ORDER BY kind DESC, name
"""
_COLUMNS = """
    SELECT column_name, data_type, comment FROM duckdb_columns() WHERE table_name = ? ORDER BY column_index
"""


def relations(connection: duckdb.DuckDBPyConnection) -> list[tuple[str, str, list[tuple[str, str, str]]]]:
    """Return every relation, views first: name, comment, and the name, type and comment of each column."""
    described = connection.execute(_RELATIONS).fetchall()
    return [(name, comment, connection.execute(_COLUMNS, [name]).fetchall()) for name, comment, _ in described]


def page(connection: duckdb.DuckDBPyConnection) -> str:
    """Return the whole page in Markdown. `connection` comes from `open_warehouse`."""
    described: dict[str, dict[str, str]] = {}
    sections = []
    for name, comment, kind in connection.execute(_RELATIONS).fetchall():
        columns = connection.execute(_COLUMNS, [name]).fetchall()
        rows = {
            column: f"{f' {data_type}' * data_type.endswith('[]')}: {_short(column, text)}"
            for column, data_type, text in columns
        }
        if name in _BEHIND_VIEWS:
            continue
        text, described[name] = _section(f"{kind} `{name}`", comment, rows, described)
        sections.append(text)
    behind = ", ".join(f"`{name}`" for name in _BEHIND_VIEWS)
    return "\n".join([_HEAD, *sections, f"The tables behind the views are {behind}."]) + "\n"


def _section(
    title: str, comment: str, rows: Mapping[str, str], described: Mapping[str, Mapping[str, str]]
) -> tuple[str, dict[str, str]]:
    """Describe one relation, and return its rows in the order in which they are printed.

    Columns that it has in common with relations in `described` are only named.
    """
    lines = [f"## {title}\n\n{comment}.\n"]
    printed: dict[str, str] = {}
    own = dict(rows)
    for earlier in sorted(described, key=lambda name: -len(rows.items() & described[name].items())):
        if shared := [column for column, row in own.items() if described[earlier].get(column) == row]:
            other = [f"`{column}`" for column in described[earlier] if column not in shared]
            names = _ranges(shared, list(described[earlier]))
            printed |= {column: own[column] for column in shared}
            if len(other) < len(shared):
                names = f"all columns but {', '.join(other)}" if other else "all columns"
            if shared not in (["run_id"], ["job_id"]):
                lines.append(f"- as in `{earlier}`: {names}")
            own = {column: row for column, row in own.items() if column not in shared}
    alike: dict[str, list[str]] = {}
    for column, row in own.items():
        alike.setdefault(_STATISTIC.sub("mean or percentile of", row), []).append(column)
    for row, columns in alike.items():
        names = ", ".join(f"`{column}`" for column in columns)
        lines.append(f"- {names}{row if len(columns) > 1 else own[columns[0]]}")
        printed |= {column: own[column] for column in columns}
    return "\n".join([*lines, ""]), printed


def _ranges(columns: Collection[str], order: Sequence[str]) -> str:
    """Name the columns in this order; four or more in a row are named by the first and the last."""
    names = []
    for is_named, group in itertools.groupby(order, columns.__contains__):
        members = [f"`{column}`" for column in group]
        if is_named:
            names += [f"{members[0]} to {members[-1]}"] if len(members) > 3 else members
    return ", ".join(names)


def _short(column: str, text: str) -> str:
    """Shorten the unit and direction at the end of a comment; a unit that the name or the meaning has is left out."""
    found = _UNIT.search(text)
    if found is None:
        return text
    unit, better = found.group(1), {"higher": "↑", "lower": "↓"}.get(found.group(2), "")
    meaning = text[: found.start()]
    is_said = f"_{unit.lower().replace('/', '_per_')}" in f"_{column}" or unit in re.split(r"\W+", meaning)
    shown = " ".join(filter(None, ("" if is_said else unit, better)))
    return meaning + (f" [{shown}]" if shown else "")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(home=Path(folder))
        migrate_master(settings.home, settings.master_file, settings.warehouse_file)
        with open_warehouse(settings.warehouse_file) as connection:
            PAGE.write_text(page(connection), encoding="utf-8")


if __name__ == "__main__":
    main()
