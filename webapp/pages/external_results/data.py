"""What the page of other people's figures reads from the warehouse, and writes by importing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pandas as pd
import streamlit as st

from jobs.presets import load_preset
from lab.published.replication import Beside
from warehouse.importers.files import ForeignFile
from warehouse.importers.store import Import, import_read
from warehouse.published import book
from warehouse.queries import published as published_questions
from warehouse.queries.connect import open_warehouse
from webapp.shared import published_data

_MOST_KEPT = 64
#: What a reader looks for stands where no table is cut off: the figure, and whose it is.
_FIRST = ("metric", "printed", "unit", "method", "num_speculative_tokens", "hardware", "dataset", "load")
_HIDDEN = ("number", "source", "run_id", "doubts", "value")


@dataclass(frozen=True)
class Published:
    """A source's figures as they were printed, the presets that repeat them, and what does not fit together."""

    figures: pd.DataFrame  # without the columns of which nothing is known
    presets: tuple[str, ...]
    doubts: tuple[str, ...]


@dataclass(frozen=True)
class Repeated:
    """The newest job of a study that repeats a source's figures: they and its own, and what else differs."""

    study_name: str
    job_id: str
    beside: pd.DataFrame
    differences: tuple[str, ...]


def import_files(files: Sequence[tuple[str, bytes]], labels: Mapping[str, str]) -> Import:
    """Import uploaded files, each (name, content): all of them, or with UserError nothing."""
    return import_read(
        published_data.settings(), [ForeignFile(name, content) for name, content in files], labels=labels
    )


published_sources = published_data.published_query(1)(published_questions.sources)


def published(source: str) -> Published:
    return _published(published_data.publication(), source)


@st.cache_resource(show_spinner=False, max_entries=_MOST_KEPT)
def _published(publication: published_data.Publication, source: str) -> Published:
    del publication
    with closing(open_warehouse(published_data.settings().warehouse_file)) as connection:
        figures, doubts = published_questions.figures(connection, source), published_questions.doubts(connection)
    presets = dict.fromkeys(book.preset_of(source, study) for study in dict.fromkeys(figures["study"]))
    known = figures.drop(columns=list(_HIDDEN)).dropna(axis="columns", how="all")
    first = [name for name in _FIRST if name in known]
    ordered = known[[*first, *known.columns.difference(first, sort=False)]]
    return Published(ordered, tuple(presets), tuple(doubts[doubts["source"] == source]["sentence"]))


def repeated(source: str, preset: str) -> list[Repeated]:
    """By the preset and by its small version, where they have run."""
    return _repeated(published_data.publication(), source, preset)


@st.cache_resource(show_spinner=False, max_entries=_MOST_KEPT)
def _repeated(publication: published_data.Publication, source: str, preset: str) -> list[Repeated]:
    del publication
    names = [load_preset(preset, reference=reference).name for reference in (False, True)]
    with closing(open_warehouse(published_data.settings().warehouse_file)) as connection:
        jobs = [(name, published_questions.repeating_job(connection, name)) for name in names]
        return [
            _beside(name, job_id, published_questions.beside(connection, source, preset, job_id))
            for name, job_id in jobs
            if job_id is not None
        ]


def _beside(study_name: str, job_id: str, found: Sequence[Beside]) -> Repeated:
    rows = pd.DataFrame([_row(each) for each in found if each.ours is not None])
    differences = dict.fromkeys(difference for each in found for difference in each.differences)
    return Repeated(study_name, job_id, rows, tuple(differences))


def _row(each: Beside) -> dict[str, Any]:
    figure = each.figure
    return {
        "method": figure.method,
        "num_speculative_tokens": figure.num_speculative_tokens,
        "dataset": figure.dataset,
        "load": figure.load,
        "metric": figure.metric,
        "unit": figure.unit if figure.scale == "absolute" else f"{figure.unit} ({figure.scale})",
        "published": figure.value,
        "here": each.ours,
        "here / there": each.ratio,
    }
