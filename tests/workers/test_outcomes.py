"""What a schedule sees of a measured run is what the warehouse has of it."""

from __future__ import annotations

import duckdb
import numpy as np
import pytest

from lab.schedule import Outcome
from lab.study.plan import PlannedRun, plan
from tests.warehouse.runs import write_run
from tests.workers.homes import NGRAM, Home
from warehouse.bundles.run_bundle import RUN_FILE, find_bundles, read_run
from warehouse.ingest.service import ingest_all
from warehouse.queries.connect import open_warehouse
from warehouse.schema import request_columns
from workers.outcomes import Outcomes
from workers.worker import Worker


def outcomes_of(home: Home, **study: object) -> list[Outcome]:
    """Measure a study and read the outcomes of its runs, in the order of the plan."""
    job_id = home.submit(**study)
    Worker(home.settings).work()
    folders = {read_run(folder).cell_key: folder for folder in find_bundles(home.settings.bundles)}
    outcomes = Outcomes(lambda run: folders.get(run.key(job_id)))
    for launch in plan(home.job(job_id).study):
        outcomes.add(launch.runs, launch.index)
    return outcomes[:]


def test_an_outcome_has_the_metrics_latencies_and_the_verdict_of_the_warehouse(home: Home) -> None:
    outcomes = outcomes_of(home)
    ingest_all(home.settings)
    with open_warehouse(home.settings.warehouse_file) as connection:
        for outcome in outcomes:
            run_id, metric, valid, start_s = of_run(connection, outcome.run)
            assert (outcome.metrics["output_tok_per_s"], outcome.is_valid) == (metric, valid)
            assert outcome.engine_start_s == start_s
            published = request_columns.read_prompt_latencies(connection, [run_id], "e2e_ms")[run_id]
            assert outcome.latencies["e2e_ms"].prompts == published.prompts
            np.testing.assert_array_equal(outcome.latencies["e2e_ms"].numbers, published.numbers)
    assert [outcome.launch_index for outcome in outcomes] == [0, 0, 1, 1]
    assert all(outcome.error is None and outcome.took_s and outcome.took_s > 0 for outcome in outcomes)


def of_run(connection: duckdb.DuckDBPyConnection, run: PlannedRun) -> tuple[str, float, bool, float]:
    row = connection.execute(
        """
        SELECT run_id, output_tok_per_s, run_id IN (SELECT run_id FROM run_validity WHERE is_valid), engine_start_s
        FROM runs JOIN run_metrics USING (run_id) WHERE arm = ? AND concurrency = ?
        """,
        [run.arm.name, run.load.max_concurrency],
    ).fetchone()
    assert row is not None
    return row[0], row[1], row[2], row[3]


def test_a_run_that_failed_has_its_error_and_no_metrics(home: Home) -> None:
    arms = [
        {"name": "plain", "baseline": True},
        {"name": "odd", "speculation": NGRAM, "flags": {"fail_to_start": True}},
    ]
    *fine, first, second = outcomes_of(home, arms=arms)
    assert all(outcome.error is None for outcome in fine)
    for outcome in (first, second):
        assert "ended with exit status 1" in (outcome.error or "")
        assert (outcome.is_valid, outcome.metrics, outcome.latencies, outcome.took_s) == (False, {}, {}, None)


def test_a_damaged_bundle_is_a_failed_run(home: Home) -> None:
    folder = write_run(home.settings.bundles)
    (folder / RUN_FILE).write_text("{")
    outcomes = Outcomes(lambda _run: folder)
    outcomes.add(plan(home.study())[0].runs, 0)
    assert not outcomes[0].is_valid
    assert "cannot be read" in (outcomes[0].error or "")


def test_a_run_without_a_bundle_is_an_error_and_no_outcome(home: Home) -> None:
    outcomes = Outcomes(lambda _run: None)
    outcomes.add(plan(home.study())[0].runs, 0)
    assert len(outcomes) == 2
    with pytest.raises(LookupError, match="no bundle"):
        outcomes[0]
