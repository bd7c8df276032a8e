"""The data of the Compare page, read from the warehouse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import duckdb
import pandas as pd

from lab.comparison.acceptance import Acceptance
from lab.comparison.agreement import Agreement
from lab.metrics import catalogue
from warehouse.queries import cell_queries
from warehouse.queries import matrix as matrix_queries
from warehouse.queries.comparing import by_group, comparisons, quality, ratio_tables
from warehouse.queries.comparing.comparisons import Pair, StudyComparison
from webapp.shared.published_data import published_query

#: The latencies whose distribution is drawn, with their labels.
LATENCIES = {name: catalogue.LATENCIES[name].label for name in ("ttft", "tpot", "e2e")}
#: Arms and the ids of their runs.
Runs = tuple[tuple[str, tuple[str, ...]], ...]

#: A table for each candidate, its rows by load.
tables = published_query()(ratio_tables.arm_tables)
groups = published_query()(by_group.by_group)
surfaces = published_query()(by_group.surfaces)
matrix = published_query()(matrix_queries.acceptance_matrix)
qualities = published_query()(quality.qualities)


def runs_at(pairs: Sequence[Pair]) -> Runs:
    """Return the runs of the baseline and of the candidates in one cell."""
    arms = {pair.baseline.arm: pair.baseline for pair in pairs} | {pair.candidate.arm: pair.candidate for pair in pairs}
    return tuple((name, tuple(run.run_id for run in arm.runs)) for name, arm in arms.items())


@published_query()
def agreement(connection: duckdb.DuckDBPyConnection, comparison: StudyComparison, pair: Pair) -> Agreement:
    """Return whether the outputs of one pair are the same, however many outputs the study has."""
    return comparisons.agreements(connection, replace(comparison, pairs=(pair,)))[0][1]


@published_query()
def texts(connection: duckdb.DuckDBPyConnection, runs: Runs, prompt_ids: tuple[str, ...]) -> pd.DataFrame:
    """Return each prompt with both outputs; `runs` are those of one pair."""
    (_, baseline), (_, candidate) = runs
    return cell_queries.texts(connection, baseline, candidate, prompt_ids)


@published_query()
def histograms(connection: duckdb.DuckDBPyConnection, runs: Runs) -> pd.DataFrame:
    return cell_queries.histograms(connection, dict(runs), tuple(LATENCIES))


@published_query()
def acceptances(connection: duckdb.DuckDBPyConnection, runs: Runs) -> Mapping[str, Mapping[int, Acceptance]]:
    return cell_queries.acceptances(connection, dict(runs))
