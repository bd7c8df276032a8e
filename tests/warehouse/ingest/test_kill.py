"""kill -9 of the ingester at any point loses and duplicates nothing, and the published file always opens."""

from __future__ import annotations

import os
import random
import time

import duckdb
import pytest

from host.settings import Settings
from tests import processes
from tests.warehouse.asking import ask
from tests.warehouse.ingest.processes import ingester, log, until
from tests.warehouse.runs import failed_request, request, write_run
from warehouse.ingest.opened import OPENED_FILE
from warehouse.ingest.service import ingest_all

pytestmark = pytest.mark.engine

ROUNDS, RUNS_A_ROUND = 3, 4


def assert_each_run_once(settings: Settings, runs: int, requests: int) -> None:
    counts = "select count(*), count(distinct run_id) from {}"
    for table in ("runs", "run_metrics", "results where origin = 'measured'"):
        assert ask(settings, counts.format(table)) == [(runs, runs)], table
    assert ask(settings, counts.format("requests")) == [(requests, runs)]
    assert ask(settings, "select run_id, metric, bucket from histograms group by all having count(*) > 1") == []
    assert ask(settings, "select * from rejected_bundles") == []


@pytest.mark.timeout(1800)
def test_killed_at_many_moments_while_bundles_arrive(settings: Settings) -> None:
    moments = random.Random(7)  # noqa: S311 - the same moments in every run
    for number in range(ROUNDS):
        written = log(settings).stat().st_size if number else 0
        for run in range(RUNS_A_ROUND):
            write_run(settings.bundles, (request(), failed_request(index=1)), run_id=f"run-{number}-{run}")
        with ingester(settings) as process:
            until(lambda size=written: b"ingesting" in log(settings).read_bytes()[size:])  # type: ignore[misc]  # mypy
            time.sleep(moments.uniform(0, 0.4))  # the moment of death, nothing waits for it
            process.kill()
        with duckdb.connect(settings.warehouse_file, read_only=True) as connection:
            assert connection.execute(
                "select count(*) <= ? from results where origin = 'measured'", [ROUNDS * RUNS_A_ROUND]
            ).fetchone()
    everything = ROUNDS * RUNS_A_ROUND
    (settings.home / OPENED_FILE).unlink(missing_ok=True)  # one may have been open at two deaths, and so be set aside
    ingest_all(settings)
    assert_each_run_once(settings, runs=everything, requests=2 * everything)
    assert not list(settings.home.glob("*.publishing"))


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("mode", "times", "least_killed"), [("lines", 6, 6), ("turns", 8, 8), ("moments", 6, 3)])
def test_killed_at_lines_and_moments_spread_over_an_ingestion(
    settings: Settings, mode: str, times: int, least_killed: int
) -> None:
    printed, module = settings.home / "killed", "tests.warehouse.ingest.killed_children"
    arguments = (str(settings.home), mode, str(times))
    environment = os.environ | {"PYTHONFAULTHANDLER": "1"}  # the forking program once died of signal 11, unexplained
    ingesting = processes.start(module, *arguments, environment=environment, folder=settings.home, output=printed)
    assert ingesting.wait(1700) == 0, printed.read_text()
    assert int(printed.read_text().split()[-1]) >= least_killed
    assert_each_run_once(settings, runs=times + 3, requests=2 * times + 3)
    assert not list(settings.home.glob("*.publishing"))
