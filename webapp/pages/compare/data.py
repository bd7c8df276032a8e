"""What the Compare page reads from the warehouse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import duckdb
import pandas as pd

from lab.comparison.acceptance import Acceptance, MatrixCell
from lab.comparison.agreement import Agreement
from lab.comparison.surface import Surface
from lab.metrics import catalogue
from warehouse.queries import cell_queries
from warehouse.queries import matrix as matrix_queries
from warehouse.queries.comparing import by_group, comparisons, quality, ratio_tables
from warehouse.queries.comparing.by_group import Group, Metric
from warehouse.queries.comparing.comparisons import Pair, StudyComparison
from warehouse.queries.comparing.quality import ArmQuality
from warehouse.queries.comparing.ratio_tables import ArmTable
from webapp.shared.published_data import published_query

#: The latencies whose distribution is drawn, with their labels.
LATENCIES = {name: catalogue.LATENCIES[name].label for name in ("ttft", "tpot", "e2e")}
#: Arms and the ids of their runs.
Runs = tuple[tuple[str, tuple[str, ...]], ...]


def tables(job_id: str, comparison: StudyComparison, rows: str) -> list[ArmTable]:
    """A table of each candidate: `rows` by load."""
    return _tables((job_id, comparison.metric, comparison.baseline, comparison.strict), rows, comparison)


def runs_at(pairs: Sequence[Pair]) -> Runs:
    """The runs of the baseline and the candidates of pairs in one cell."""
    arms = {pair.baseline.arm: pair.baseline for pair in pairs} | {pair.candidate.arm: pair.candidate for pair in pairs}
    return tuple((name, tuple(run.run_id for run in arm.runs)) for name, arm in arms.items())


def agreement(comparison: StudyComparison, pair: Pair) -> Agreement:
    """Whether the outputs of one pair are the same, however many outputs the study has."""
    return _agreement(runs_at([pair]), replace(comparison, pairs=(pair,)))


def texts(pair: Pair, prompt_ids: Sequence[str]) -> pd.DataFrame:
    """Prompt and both outputs of each of `prompt_ids`."""
    return _texts(runs_at([pair]), tuple(prompt_ids))


def qualities(job_id: str, comparison: StudyComparison) -> list[ArmQuality]:
    """Of each candidate under each workload whose answers can be judged."""
    return _qualities((job_id, comparison.baseline), comparison)


@published_query()
def histograms(connection: duckdb.DuckDBPyConnection, runs: Runs) -> pd.DataFrame:
    return cell_queries.histograms(connection, dict(runs), tuple(LATENCIES))


@published_query()
def groups(
    connection: duckdb.DuckDBPyConnection, job_id: str, grain: Literal["turn", "context"], metric: Metric, baseline: str
) -> list[Group]:
    """Every arm by turn or by context."""
    return by_group.by_group(connection, job_id, grain, metric, baseline=baseline)


@published_query()
def surfaces(connection: duckdb.DuckDBPyConnection, job_id: str, baseline: str) -> dict[str, Surface]:
    return by_group.surfaces(connection, job_id, baseline=baseline)


@published_query()
def matrix(connection: duckdb.DuckDBPyConnection, job_id: str) -> list[MatrixCell]:
    return matrix_queries.acceptance_matrix(connection, job_id)


@published_query()
def acceptances(connection: duckdb.DuckDBPyConnection, runs: Runs) -> Mapping[str, Mapping[int, Acceptance]]:
    return cell_queries.acceptances(connection, dict(runs))


@published_query()
def _tables(
    connection: duckdb.DuckDBPyConnection, key: tuple[str, str, str, bool], rows: str, _compared: StudyComparison
) -> list[ArmTable]:
    del key  # by which the answer is cached
    return ratio_tables.arm_tables(connection, _compared, rows, "load")


@published_query()
def _qualities(
    connection: duckdb.DuckDBPyConnection, key: tuple[str, str], _compared: StudyComparison
) -> list[ArmQuality]:
    del key  # by which the answer is cached
    return quality.qualities(connection, _compared)


@published_query()
def _agreement(connection: duckdb.DuckDBPyConnection, runs: Runs, _compared: StudyComparison) -> Agreement:
    del runs  # the key
    return comparisons.agreements(connection, _compared)[0][1]


@published_query()
def _texts(connection: duckdb.DuckDBPyConnection, runs: Runs, prompt_ids: tuple[str, ...]) -> pd.DataFrame:
    (_, baseline), (_, candidate) = runs
    return cell_queries.texts(connection, baseline, candidate, prompt_ids)
