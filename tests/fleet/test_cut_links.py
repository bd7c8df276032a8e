"""Every link of a fleet cut for a while or for good, at several moments: nothing is lost, doubled or failed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fleet.lab import HOSTS, Cut, Fleet, new_fleet, survive
from tests.processes import REPOSITORY

pytestmark = [pytest.mark.fleet, pytest.mark.engine]
MOMENTS = ("claim", "start", "measuring", "publishing")
DURATIONS = (5.0, 60.0, None)
CUTS = [
    *(
        Cut(f"worker-{service}", s, moment)
        for service in ("database", "store")
        for s in DURATIONS
        for moment in MOMENTS
    ),
    *(Cut("worker-broker", s, moment) for s in DURATIONS for moment in ("claim", "measuring")),
    *(Cut(f"ingester-{service}", s, "measuring") for service in ("database", "store") for s in DURATIONS),
    *(Cut("page-database", s, "measuring") for s in DURATIONS),
]


@pytest.fixture(scope="module")
def fleet(migrated: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with new_fleet(tmp_path_factory.mktemp("fleet"), migrated, 20.0, *HOSTS) as it:
        yield it


@pytest.mark.parametrize("host", ["w1", "page"])
def test_doctor_finds_nothing_wrong_with_a_healthy_host(fleet: Fleet, host: str) -> None:
    fleet.assert_whole(fleet.submit(name=f"before the doctor of {host}"))
    arguments = ("tests.fleet.named", host, "drafthouse_command", "doctor", "--json")
    with fleet.network.inside(host):
        command = (sys.executable, "-m", *arguments)
        examined = subprocess.run(
            command, cwd=REPOSITORY, env=fleet.environment(host), check=False, capture_output=True
        )
    missing = {each["what"]: each["found"] for each in json.loads(examined.stdout) if not each["ok"]}
    missing.pop("engine absent", None)  # which engines.toml of the tests names
    assert missing == {}


@pytest.mark.parametrize("cut", CUTS, ids=str)
def test_a_cut_link_loses_doubles_and_fails_nothing(
    fleet: Fleet, cut: Cut, record_property: Callable[[str, object], None]
) -> None:
    record_property("fleet", f"{cut}: {survive(fleet, cut)}")
