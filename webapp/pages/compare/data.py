"""What the page that compares a study's arms reads from the warehouse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace

import pandas as pd
import streamlit as st

from lab.comparison.acceptance import Acceptance
from lab.comparison.agreement import Agreement
from warehouse.database import open_warehouse
from warehouse.queries import cell_queries, comparisons, ratio_tables
from warehouse.queries.comparisons import Pair, StudyComparison
from warehouse.queries.ratio_tables import ArmTable
from webapp.shared import published_data
from webapp.shared.cached_frames import kept_frame

#: Those of which a histogram is drawn, by what they are called.
LATENCIES = {"ttft": "Time to first token", "tpot": "Time per output token", "e2e": "Request latency"}
#: Arms and their runs: what is asked for and what is cached by.
Runs = tuple[tuple[str, tuple[str, ...]], ...]
_MOST_KEPT = 64


def tables(job_id: str, found: StudyComparison, rows: str) -> list[ArmTable]:
    """Of each candidate, `rows` by load."""
    return _tables(published_data.publication(), job_id, found.metric, found.baseline, rows, found)


def runs_at(pairs: Sequence[Pair]) -> Runs:
    """Of the baseline and the candidates of pairs at one place."""
    arms = {pair.baseline.arm: pair.baseline for pair in pairs} | {pair.candidate.arm: pair.candidate for pair in pairs}
    return tuple((name, tuple(run.run_id for run in arm.runs)) for name, arm in arms.items())


def histograms(runs: Runs) -> pd.DataFrame:
    return _histograms(published_data.publication(), runs)


def acceptances(runs: Runs) -> Mapping[str, Mapping[int, Acceptance]]:
    return _acceptances(published_data.publication(), runs)


def agreement(found: StudyComparison, pair: Pair) -> Agreement:
    """Of one pair, however many outputs the study has."""
    return _agreement(published_data.publication(), runs_at([pair]), replace(found, pairs=(pair,)))


def texts(pair: Pair, prompt_ids: Sequence[str]) -> pd.DataFrame:
    """Prompt and both outputs of each of `prompt_ids`."""
    return _texts(published_data.publication(), runs_at([pair]), tuple(prompt_ids))


@st.cache_resource(show_spinner=False, max_entries=_MOST_KEPT)
def _tables(
    publication: published_data.Publication, job_id: str, metric: str, baseline: str, rows: str, _found: StudyComparison
) -> list[ArmTable]:
    del publication, job_id, metric, baseline
    with closing(open_warehouse(published_data.settings())) as connection:
        return ratio_tables.arm_tables(connection, _found, rows, "load")


@kept_frame(_MOST_KEPT)
def _histograms(publication: published_data.Publication, runs: Runs) -> pd.DataFrame:
    del publication
    with closing(open_warehouse(published_data.settings())) as connection:
        return cell_queries.histograms(connection, dict(runs), tuple(LATENCIES))


@st.cache_resource(show_spinner=False, max_entries=_MOST_KEPT)
def _acceptances(publication: published_data.Publication, runs: Runs) -> dict[str, dict[int, Acceptance]]:
    del publication
    with closing(open_warehouse(published_data.settings())) as connection:
        return cell_queries.acceptances(connection, dict(runs))


@st.cache_resource(show_spinner=False, max_entries=_MOST_KEPT)
def _agreement(publication: published_data.Publication, runs: Runs, _found: StudyComparison) -> Agreement:
    del publication, runs
    with closing(open_warehouse(published_data.settings())) as connection:
        return comparisons.agreements(connection, _found)[0][1]


@kept_frame(_MOST_KEPT)
def _texts(publication: published_data.Publication, runs: Runs, prompt_ids: tuple[str, ...]) -> pd.DataFrame:
    del publication
    (_, baseline), (_, candidate) = runs
    with closing(open_warehouse(published_data.settings())) as connection:
        return cell_queries.texts(connection, baseline, candidate, prompt_ids)
