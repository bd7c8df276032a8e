"""The data of a study's advice: each speculating arm of a study beside the baseline, and the advice on it."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb

from lab.advice.advise import Advice, Failed, Measured, advise
from lab.advice.prediction import Prediction, SpeculatedRun, predictions
from warehouse.queries.advice_inputs import failed_arms, measured_arms, speculated_runs
from warehouse.queries.comparing.by_group import several_contexts
from warehouse.queries.comparing.comparisons import StudyComparison
from webapp.shared import published_data
from webapp.shared.published_data import published_query
from webapp.shared.verdicts.answers import THROUGHPUT

#: Candidates measured at several contexts: where each pays, by concurrency and context.
by_context = published_query()(several_contexts)


@dataclass(frozen=True, eq=False)
class StudyAdvice:
    """The advice on each cell, the measurements it rests on, and each run with its prediction."""

    measured: tuple[Measured, ...]
    advice: tuple[Advice, ...]
    runs: tuple[Prediction, ...]


def study_advice(job_id: str, draft_cost: float | None) -> StudyAdvice:
    """`draft_cost` replaces the measured one in the predictions. Raises QueryError without a valid baseline run."""
    measured, failed, runs = _inputs(published_data.compared(job_id, THROUGHPUT))
    return StudyAdvice(tuple(measured), tuple(advise(measured, failed)), tuple(predictions(runs, draft_cost)))


@published_query()
def _inputs(
    connection: duckdb.DuckDBPyConnection, compared: StudyComparison
) -> tuple[list[Measured], list[Failed], list[SpeculatedRun]]:
    measured, failed = measured_arms(connection, compared), failed_arms(connection, compared)
    return measured, failed, speculated_runs(connection, compared)
