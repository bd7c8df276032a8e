"""What the page of other people's figures reads from the warehouse, and writes by importing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing

import pandas as pd
import streamlit as st

from lab.replication import Beside
from warehouse import published_questions
from warehouse.database import open_warehouse
from warehouse.importers.reading import ForeignFile
from warehouse.importing import Import, import_read
from warehouse.published import book
from webapp import data
from webapp.kept_frames import kept_frame

_MOST_KEPT = 64


def import_files(files: Sequence[tuple[str, bytes]], labels: Mapping[str, str]) -> Import:
    """Import uploaded files, each (name, content): all of them, or with UserError nothing."""
    return import_read(data.settings(), [ForeignFile(name, content) for name, content in files], labels=labels)


def published_sources() -> pd.DataFrame:
    return _published_sources(data.publication())


@kept_frame(1)
def _published_sources(publication: data.Publication) -> pd.DataFrame:
    del publication
    with closing(open_warehouse(data.settings())) as connection:
        return published_questions.sources(connection)


def published_figures(source: str) -> pd.DataFrame:
    """Its figures as they were printed, with the preset that repeats each."""
    return _published_figures(data.publication(), source)


@kept_frame(_MOST_KEPT)
def _published_figures(publication: data.Publication, source: str) -> pd.DataFrame:
    del publication
    with closing(open_warehouse(data.settings())) as connection:
        found = published_questions.figures(connection, source)
    presets = {study: book.preset_of(source, study) for study in dict.fromkeys(found["study"])}
    return found.drop(columns=["number", "source", "run_id", "doubts", "value"]).assign(
        preset=found["study"].map(presets)
    )


def published_doubts(source: str) -> list[str]:
    with closing(open_warehouse(data.settings())) as connection:
        found = published_questions.doubts(connection)
    return list(found[found["source"] == source]["sentence"])


def published_beside(source: str, preset: str, study_name: str) -> tuple[str | None, list[Beside]]:
    """The newest job of this study, and the source's figures beside it; None and nothing where it has not run."""
    return _published_beside(data.publication(), source, preset, study_name)


@st.cache_resource(show_spinner=False, max_entries=_MOST_KEPT)
def _published_beside(
    publication: data.Publication, source: str, preset: str, study_name: str
) -> tuple[str | None, list[Beside]]:
    del publication
    with closing(open_warehouse(data.settings())) as connection:
        job_id = published_questions.repeating_job(connection, study_name)
        return job_id, [] if job_id is None else published_questions.beside(connection, source, preset, job_id)
