"""What `drafthouse compare --table` prints: a table of ratios for each candidate arm, and its sweep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from cli.output import print_json, print_table
from lab.comparison.compare import Comparison
from lab.comparison.effect import Interval
from lab.comparison.tables import Cell, RatioTable
from warehouse.queries.comparisons import StudyComparison
from warehouse.queries.ratio_tables import ArmTable

_MARKS = {"faster": "+", "slower": "-", "no difference": "=", "not enough data": "?"}


def show_tables(found: StudyComparison, tables: Sequence[ArmTable], sides: tuple[str, str]) -> None:
    rows, columns = sides
    print(f"{found.metric}, ratio to {found.baseline!r} ({', '.join(found.jobs)})")
    print(f"{', '.join(f'{mark} {word}' for word, mark in _MARKS.items())}; in brackets 95 % intervals")
    for each in tables:
        table = each.table
        print(f"\n{each.arm}: {rows} by {columns}")
        lines = [_line(row, table, each.sweeps_by_row[row]) for row in table.rows]
        print_table((rows, *table.columns, "geometric mean"), [*lines, _last_line(table)])
        print(_sweep_sentence(each))


def print_tables_json(found: StudyComparison, tables: Sequence[ArmTable], sides: tuple[str, str]) -> None:
    about = {"jobs": found.jobs, "metric": found.metric, "baseline": found.baseline}
    print_json(about | {"rows": sides[0], "columns": sides[1], "tables": [_as_dict(each) for each in tables]})


def _line(row: str, table: RatioTable, sweep: Comparison) -> list[str]:
    cells = [table.cells.get((row, column)) for column in table.columns]
    mean = table.gmeans_by_row[row]
    return [row, *(_cell(cell) for cell in cells), "" if mean is None else f"{mean:.3f}{_bounds(sweep.ratio)}"]


def _last_line(table: RatioTable) -> list[str]:
    means = [*(table.gmeans_by_column[column] for column in table.columns), table.gmean]
    return ["geometric mean", *("" if mean is None else f"{mean:.3f}" for mean in means)]


def _cell(cell: Cell | None) -> str:
    if cell is None or cell.comparison.ratio is None:
        return ""
    return f"{cell.comparison.ratio.value:.3f} {_MARKS[cell.verdict.word]}{_bounds(cell.comparison.ratio)}"


def _bounds(ratio: Interval | None) -> str:
    return "" if ratio is None or ratio.low is None or ratio.high is None else f" ({ratio.low:.3f} to {ratio.high:.3f})"


def _sweep_sentence(each: ArmTable) -> str:
    found = each.sweep.comparison
    if found.ratio is None:
        return "whole sweep: no repeat has every cell of both arms"
    return f"whole sweep: {found.ratio.value:.3f}{_bounds(found.ratio)}, {each.sweep.verdict.word}, from {found.basis}"


def _as_dict(each: ArmTable) -> dict[str, object]:
    table = each.table
    return {
        "arm": each.arm,
        "cells": [{"row": row, "column": column} | _cell_dict(cell) for (row, column), cell in table.cells.items()],
        "gmeans_by_row": table.gmeans_by_row,
        "gmeans_by_column": table.gmeans_by_column,
        "gmean": table.gmean,
        "sweep": _cell_dict(each.sweep),
        "sweeps_by_row": {row: _comparison_dict(found) for row, found in each.sweeps_by_row.items()},
    }


def _cell_dict(cell: Cell) -> dict[str, object]:
    return _comparison_dict(cell.comparison) | {"verdict": asdict(cell.verdict)}


def _comparison_dict(found: Comparison) -> dict[str, object]:
    ratio = None if found.ratio is None else asdict(found.ratio)
    return {"ratio": ratio, "basis": found.basis, "blocks": found.blocks}
