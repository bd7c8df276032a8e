"""What the scatter of ratios that were measured says about a study to come."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from host.settings import Settings
from jobs.forecast import forecast_verdicts
from lab.planning.components import Components
from lab.study.parsing import study_from_dict
from tests.warehouse.studies import ROUNDS, RunSpec, write
from warehouse.ingest.service import ingest_all
from warehouse.queries.comparing.past_ratios import past_components
from warehouse.queries.connect import open_warehouse

STARTS, RUNS = 3, 2
#: By how much a start of the candidate's engine is slower than usual, and each run on it.
OF_START, OF_RUN = (1.0, 1.05, 0.95), (1.01, 0.99)


@pytest.fixture(scope="module")
def measured(shared: Settings) -> Settings:
    """Four loads on three engine starts, two runs on each."""
    for load in ("c1", "c2", "c4", "c8"):
        for repeat in range(STARTS * RUNS):
            start, run = divmod(repeat, RUNS)
            pace = OF_START[start] * OF_RUN[run]
            write(shared, RunSpec("plain", repeat, load=load), launch_index=2 * start)
            write(shared, RunSpec("drafted", repeat, pace, ROUNDS, load=load), launch_index=2 * start + 1)
    ingest_all(shared)
    return shared


def components_of(settings: Settings, **changes: Any) -> Components | None:
    about: dict[str, Any] = {"target": "reference", "hardware": "NVIDIA H200", "whole": True, **changes}
    with open_warehouse(settings.warehouse_file) as con:
        return past_components(con, "output_tok_per_s", **about)


def test_starts_and_runs_are_told_apart(measured: Settings) -> None:
    components = components_of(measured)
    assert components is not None
    assert components.run == pytest.approx(np.var(np.log(OF_RUN), ddof=1), rel=0.05)
    assert components.start == pytest.approx(np.var(np.log(OF_START), ddof=1) - components.run / RUNS, rel=0.05)
    assert len(components.gains) == 4
    assert components.num_prompts == pytest.approx(48)
    assert components.request is not None
    assert all(gain > math.log(1.2) for gain in components.gains)


def test_only_the_hardware_and_the_target_that_are_meant_count(measured: Settings) -> None:
    everything = components_of(measured)
    assert components_of(measured, hardware="h200", whole=False) == everything == components_of(measured, target=None)
    assert components_of(measured, hardware="H200") is components_of(measured, target="another") is None


def test_a_study_is_told_how_much_it_will_decide(measured: Settings) -> None:
    arms = [{"name": "plain"}, {"name": "k", "speculation": {"method": "ngram", "num_speculative_tokens": 3}}]
    loads = [{"max_concurrency": streams, "num_prompts": 48} for streams in (1, 2, 4)]
    about = {"name": "next", "arms": arms, "workloads": [{"dataset": "story"}], "loads": loads, "repeats": 3}
    study = study_from_dict(about | {"target": "new", "hardware": "H200"})
    outlook = forecast_verdicts(measured, study)
    assert outlook is not None
    assert outlook.cells == 3
    assert outlook.as_is.decided > 0
    assert outlook.one_more.seconds == pytest.approx(outlook.as_is.seconds * 4 / 3)
    assert "of 3 comparisons to be decided" in outlook.sentence
    assert "4 cells of other targets measured on this hardware before" in outlook.basis
    assert forecast_verdicts(measured, study.model_copy(update={"hardware": "B300"})) is None
