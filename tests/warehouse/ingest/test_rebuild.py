"""The warehouse can be rebuilt from the bundles alone."""

from __future__ import annotations

import pytest

from host.settings import Settings
from lab.errors import UserError
from tests.warehouse.asking import contents
from tests.warehouse.runs import failed_request, request, write_run
from warehouse.ingest.master import only_ingester
from warehouse.ingest.rebuild import rebuild
from warehouse.ingest.service import ingest_all


def test_a_warehouse_rebuilt_from_bundles_alone_is_equal(settings: Settings) -> None:
    for number in range(4):
        write_run(
            settings.bundles, (request(), failed_request(index=1)), run_id=f"run-{number}", job_id=f"job-{number}"
        )
        ingest_all(settings)
    before = contents(settings)
    for file in (settings.master_file, settings.warehouse_file):
        file.unlink()
    rebuild(settings)
    assert contents(settings) == before
    assert len(before["recent_requests"]) == 8
    assert not list(settings.home.glob(".*rebuilding*"))


def test_rebuilding_is_refused_while_an_ingester_runs(settings: Settings) -> None:
    with only_ingester(settings.home), pytest.raises(UserError, match=r"an ingester already runs .* stop it first"):
        rebuild(settings)
