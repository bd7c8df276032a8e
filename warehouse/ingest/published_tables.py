"""The published figures as rows of the warehouse, replaced whenever the shipped figures differ."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from lab.published import book
from lab.published.figures import PublishedFigure
from lab.study.cell_ids import digest
from warehouse.schema.column import rows
from warehouse.schema.published_columns import DOUBT_COLUMNS, FIGURE_COLUMNS, SOURCE_COLUMNS, PublishedRun, runs
from warehouse.schema.tables import PUBLISHED_COLUMNS

_OF_FIGURE = [column.name for column in FIGURE_COLUMNS if column.name not in {"number", "run_id"}]


@functools.cache
def published_tables() -> dict[str, pa.Table]:
    """Return the rows of each table of published figures, by the table's name."""
    figures, published_runs = book.figures(), runs(book.figures())
    numbers = {id(figure): number for number, figure in enumerate(figures, 1)}
    run_ids = {id(figure): run.run_id for run in published_runs for figure in run.figures}
    return {
        "published_sources": rows(SOURCE_COLUMNS, list(book.sources().values())),
        "published_results": rows(
            FIGURE_COLUMNS,
            [_figure(figure, numbers[id(figure)], run_ids.get(id(figure))) for figure in figures],
        ),
        "published_runs": rows(PUBLISHED_COLUMNS, list(map(_run, published_runs))),
        "published_doubts": rows(
            DOUBT_COLUMNS,
            [
                {
                    "check_name": doubt.check,
                    "source": doubt.source,
                    "sentence": doubt.sentence,
                    "numbers": [numbers[id(figure)] for figure in doubt.figures],
                    "run_ids": sorted({run_ids[id(figure)] for figure in doubt.figures if id(figure) in run_ids}),
                }
                for doubt in book.doubts()
            ],
        ),
    }


def _figure(figure: PublishedFigure, number: int, run_id: str | None) -> Mapping[str, Any]:
    return {name: getattr(figure, name) for name in _OF_FIGURE} | {"number": number, "run_id": run_id}


def _run(run: PublishedRun) -> Mapping[str, Any]:
    first = run.first
    return {
        **{name: getattr(first, name) for name in ("target", "method", "draft_model", "num_speculative_tokens")},
        **{name: getattr(first, name) for name in ("dataset", "hardware", "engine", "engine_version")},
        **run.metrics,
        "run_id": run.run_id,
        "cell_key": run.run_id,
        "job_id": f"published-{first.source}",
        "study_id": digest({"source": first.source, "study": first.study}),
        "study_name": f"{first.source}: {first.study}",
        "arm": _arm(first),
        "workload": first.dataset,
        "pattern": first.access_pattern,
        "concurrency": first.max_concurrency,
        "status": run.status,
        "error": "it did not start" if run.status == "failed" else None,
        "origin": "published",
    }


def _arm(figure: PublishedFigure) -> str:
    """Return a name that distinguishes the arm from the others of its source."""
    parts = [figure.engine, "no draft" if figure.method == "none" else figure.draft_model or figure.method]
    parts += [f"k = {figure.num_speculative_tokens}"] if figure.num_speculative_tokens else []
    return ", ".join(parts)
