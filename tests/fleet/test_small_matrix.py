"""A few cut links on a fleet of processes behind forwarders, as on any machine; `make test-fleet` has all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet.lab import WORKERS, Cut, Fleet, new_fleet, survive
from tests.fleet.network import Forwarders

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def fleet(migrated: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    lease_s = 20.0  # a worker that a busy machine keeps waiting for as long loses its job, and after three times all do
    with new_fleet(tmp_path_factory.mktemp("fleet"), migrated, lease_s, *WORKERS, "ingester", network=Forwarders) as it:
        yield it


@pytest.mark.parametrize(
    "cut",
    [
        Cut("worker-database", None, "measuring"),
        Cut("worker-store", None, "publishing"),
        Cut("worker-broker", None, "claim"),
        Cut("ingester-database", 2.0, "measuring"),
    ],
    ids=str,
)
def test_a_cut_link_loses_doubles_and_fails_nothing(fleet: Fleet, cut: Cut) -> None:
    survive(fleet, cut)
