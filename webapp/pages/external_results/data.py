"""The data of the External results page; and imported jobs, removed and restored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pandas as pd

from access.web import visitor
from jobs import curation
from jobs.presets import load_preset
from lab.published import book
from lab.published.replication import PairedFigure
from warehouse.queries import published as queries
from webapp.shared import published_data
from webapp.shared.published_data import published_query

#: The most important columns come first, so that a narrow table cuts off the others.
_FIRST = ("metric", "printed", "unit", "method", "num_speculative_tokens", "hardware", "dataset", "load")
_HIDDEN = ("number", "source", "run_id", "doubts", "value")


@dataclass(frozen=True)
class Published:
    """The figures of a source as printed, the presets that repeat them, and contradictions among the figures."""

    figures: pd.DataFrame  # without columns that are empty throughout
    presets: tuple[str, ...]
    contradictions: tuple[str, ...]


@dataclass(frozen=True)
class Replication:
    """The newest job of a study that repeats a source's figures: both side by side, and what else differs."""

    study_name: str
    job_id: str
    figures: pd.DataFrame
    differences: tuple[str, ...]


def remove(job_id: str) -> None:
    curation.delete(published_data.settings(), published_data.engine(), job_id, actor=visitor.actor())


def restore(job_id: str) -> None:
    curation.restore(published_data.settings(), published_data.engine(), job_id, actor=visitor.actor())


imported_jobs = published_query(1)(queries.imported_jobs)
published_sources = published_query(1)(queries.sources)


@published_query()
def published(connection: duckdb.DuckDBPyConnection, source: str) -> Published:
    figures, doubts = queries.figures(connection, source), queries.doubts(connection)
    presets = dict.fromkeys(book.preset_of(source, study) for study in dict.fromkeys(figures["study"]))
    filled = figures.drop(columns=list(_HIDDEN)).dropna(axis="columns", how="all")
    first = [name for name in _FIRST if name in filled]
    ordered = filled[[*first, *filled.columns.difference(first, sort=False)]]
    return Published(ordered, tuple(presets), tuple(doubts[doubts["source"] == source]["sentence"]))


@published_query()
def replications(connection: duckdb.DuckDBPyConnection, source: str, preset: str) -> list[Replication]:
    """Return the newest job of the preset and of its reference-pair version, if they have run."""
    names = [load_preset(preset, reference=reference).name for reference in (False, True)]
    jobs = [(name, queries.repeating_job(connection, name)) for name in names]
    return [
        _replication(name, job_id, queries.paired_figures(connection, source, preset, job_id))
        for name, job_id in jobs
        if job_id is not None
    ]


def _replication(study_name: str, job_id: str, figures: Sequence[PairedFigure]) -> Replication:
    rows = pd.DataFrame([_row(figure) for figure in figures if figure.ours is not None])
    differences = dict.fromkeys(difference for figure in figures for difference in figure.differences)
    return Replication(study_name, job_id, rows, tuple(differences))


def _row(beside: PairedFigure) -> dict[str, Any]:
    figure = beside.figure
    return {
        "method": figure.method,
        "num_speculative_tokens": figure.num_speculative_tokens,
        "dataset": figure.dataset,
        "load": figure.load,
        "metric": figure.metric,
        "unit": figure.unit if figure.scale == "absolute" else f"{figure.unit} ({figure.scale})",
        "published": figure.value,
        "here": beside.ours,
        "ratio": beside.ratio,
    }
