"""What the Advice page reads: a study's speculating arms beside the baseline, and each of their runs."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

import streamlit as st

from lab.advice import Advice, Failed, Measured, advise
from lab.advice.prediction import Prediction, SpeculatedRun, predictions
from lab.study import Study
from lab.study.follow_up import next_study
from warehouse.queries.advice_inputs import failed_arms, measured_arms, speculated_runs
from warehouse.queries.comparisons import StudyComparison
from warehouse.queries.connect import open_warehouse
from webapp.shared import published_data

THROUGHPUT = "output_tok_per_s"
_MOST_KEPT = 64


@dataclass(frozen=True, eq=False)
class Found:
    """`advice` of each place; `runs` each beside its own prediction at the page's cost of drafting."""

    measured: tuple[Measured, ...]
    advice: tuple[Advice, ...]
    runs: tuple[Prediction, ...]


def found(job_id: str, draft_cost: float | None) -> Found:
    """Raises QueryError where no valid run of the baseline is there."""
    measured, failed, runs = _read(published_data.publication(), job_id, published_data.compared(job_id, THROUGHPUT))
    return Found(tuple(measured), tuple(advise(measured, failed)), tuple(predictions(runs, draft_cost)))


def next_study_of(study: Study, job_id: str) -> Study | None:
    """What would decide the verdicts that the job of this study left open; None where none is, or none can be told."""
    told = found(job_id, None)
    return next_study(study, told.advice, told.measured)


@st.cache_resource(show_spinner=False, max_entries=_MOST_KEPT)
def _read(
    publication: published_data.Publication, job_id: str, _compared: StudyComparison
) -> tuple[list[Measured], list[Failed], list[SpeculatedRun]]:
    del publication, job_id
    with closing(open_warehouse(published_data.settings().warehouse_file)) as connection:
        measured, failed = measured_arms(connection, _compared), failed_arms(connection, _compared)
        return measured, failed, speculated_runs(connection, _compared)
