"""`drafthouse published`: figures that others published, and the doubts about them."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from cli.arguments import AsJson
from cli.lab import the_lab
from cli.output import print_json, print_table, print_text
from lab.comparison.acceptance import MatrixCell
from lab.errors import UserError
from lab.published.golden import read_golden
from warehouse.queries import matrix
from warehouse.queries import published as queries
from warehouse.queries.connect import open_warehouse

SourceName = Annotated[str | None, typer.Argument(help="Show this source's figures.")]


GoldenFile = Annotated[
    Path | None, typer.Option("--golden", help="Show this file's golden acceptance lengths (InferenceX's YAML).")
]
OurStudy = Annotated[str | None, typer.Option("--study", help="With --golden: next to this study's own lengths.")]


def published(
    source: SourceName = None, *, golden: GoldenFile = None, study: OurStudy = None, as_json: AsJson = False
) -> None:
    """List published figures by source, with the doubts about them."""
    if study is not None and golden is None:
        raise UserError("--study puts a study's lengths beside those of --golden: give both")
    if golden is not None:
        if source is not None:
            raise UserError(
                f"--golden shows the lengths of a file, and none of the source {source!r}: give one of them"
            )
        _show_golden(golden, study, as_json=as_json)
        return
    with open_warehouse(the_lab().warehouse_file) as con:
        sources, figures = queries.sources(con), queries.figures(con, source)
        doubts = queries.doubts(con)
    if source is not None:
        sources, doubts = (table[table["source"] == source] for table in (sources, doubts))
    if as_json:
        tables = {"sources": sources, "figures": figures, "doubts": doubts}
        print_json({name: _records(table) for name, table in tables.items()})
        return
    if source is None:
        columns = ["source", "date", "title", "figures", "runs", "doubts", "preset"]
        print_table(columns, [[row[name] for name in columns] for row in _records(sources)])
    else:
        print_text(f"{_records(sources)[0]['method']}\n")
        print_table(("number", "setting", "metric", "as printed", "doubtful"), map(_row, _records(figures)))
    for doubt in _records(doubts):
        print_text(f"doubt about {doubt['source']}: {doubt['sentence']}")


def _show_golden(file: Path, study: str | None, *, as_json: bool) -> None:
    try:
        lengths = read_golden(file.read_text(encoding="utf-8"), str(file))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file} cannot be read: {error}") from None
    ours: list[MatrixCell] = []
    if study is not None:
        with open_warehouse(the_lab().warehouse_file) as con:
            ours = matrix.acceptance_of_arms(con, study)
    rows = matrix.beside_golden(lengths, ours)
    if as_json:
        print_json([asdict(row) | {"word": row.word} for row in rows])
        return
    columns = ("model", "mode", "k", "golden", "ours", "95 % from", "to", "arm", "target", "ours against it")
    print_table(columns, map(_golden_row, rows))
    if any(row.ours is not None and not row.same_model for row in rows):
        print_text("Where model and target differ, the two lengths are of different models: compare them with care.")


def _golden_row(row: matrix.BesideGolden) -> tuple[Any, ...]:
    golden, ours = row.golden, row.ours
    first = (golden.model, golden.mode, golden.num_speculative_tokens, f"{golden.length:.2f}")
    if ours is None:
        return (*first, "", "", "", "", "", "")
    bounds = ("" if bound is None else f"{bound:.2f}" for bound in (ours.length.low, ours.length.high))
    return (*first, f"{ours.length.value:.2f}", *bounds, ours.arm, ours.target, row.word)


def _row(figure: dict[str, Any]) -> tuple[Any, ...]:
    drafted = figure["num_speculative_tokens"]
    arm = [figure["engine"], figure["engine_version"], figure["method"], figure["draft_model"]]
    arm += [None if drafted is None else f"k = {drafted}", figure["dataset"], figure["access_pattern"], figure["load"]]
    setting = ", ".join(str(part) for part in [figure["hardware"], *arm] if part is not None)
    scale = "" if figure["scale"] == "absolute" else f" ({figure['scale']})"
    shown = f"{figure['printed']} {figure['unit']}{scale}"
    return (figure["number"], setting, figure["metric"], shown, "yes" if len(figure["doubts"]) else "")


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return rows as plain Python values; None for a missing value."""
    return [{str(name): _plain(value) for name, value in row.items()} for row in table.to_dict("records")]


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, float) and math.isnan(value):
        return None
    return int(value) if isinstance(value, float) and value.is_integer() else value
