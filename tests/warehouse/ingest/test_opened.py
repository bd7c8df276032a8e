"""A bundle that ends the ingester is set aside at a later start, and the others are ingested."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from host.settings import Settings
from tests.warehouse.asking import ask
from tests.warehouse.exports import many_times
from tests.warehouse.ingest.processes import ingester, until
from tests.warehouse.runs import write_run
from warehouse.bundles.run_bundle import REQUESTS_FILE
from warehouse.ingest.opened import OPENED_FILE, Opened
from warehouse.ingest.rebuild import rebuild


def run_ids(settings: Settings) -> list[str]:
    return [run_id for (run_id,) in ask(settings, "select run_id from runs order by 1")]


@pytest.mark.engine
@pytest.mark.timeout(1800)
def test_a_bundle_that_ends_the_ingester_is_set_aside_alone(settings: Settings) -> None:
    bomb = write_run(settings.bundles, run_id="bomb", job_id="a")
    many_times(2000, "x" * 2**20)(bomb / REQUESTS_FILE)  # 2 GiB
    write_run(settings.bundles, run_id="good", job_id="b")
    for _ in range(2):
        with ingester(settings, DRAFTHOUSE_INGESTER_MEMORY_MIB="700") as process:
            until(lambda: process.poll() is not None)
    with ingester(settings, DRAFTHOUSE_INGESTER_MEMORY_MIB="700") as process:
        until(lambda: run_ids(settings) == ["good"])
        until(lambda: bool(ask(settings, "select * from rejected_bundles")))
        write_run(settings.bundles, run_id="later", job_id="b")
        until(lambda: run_ids(settings) == ["good", "later"])
        assert process.poll() is None
    [(path, reason)] = ask(settings, "select path, error from rejected_bundles")
    assert path == "a/bomb"
    assert reason.startswith("the process that reads bundles ended 2 times while it read this")
    assert f"delete {settings.home / OPENED_FILE}" in reason
    rebuild(settings)
    assert run_ids(settings) == ["good", "later"]
    assert ask(settings, "select path from rejected_bundles") == [("a/bomb",)]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[contextlib.ExitStack]:
    """A home with two bundles; what is entered on the stack ends after the test, as if the process had died before."""
    for name in ("job/one", "job/two"):
        (tmp_path / "bundles" / name).mkdir(parents=True)
    with contextlib.ExitStack() as stack:
        yield stack


def restarted(home: Path) -> Opened:
    return Opened(home, home / "bundles")


def test_an_innocent_bundle_of_a_power_cut_is_tried_again_alone(tmp_path: Path, opened: contextlib.ExitStack) -> None:
    opened.enter_context(restarted(tmp_path).reading(["job/one", "job/two"]))
    after = restarted(tmp_path)
    assert (after.is_suspect("job/one"), after.left_out()) == (True, {})
    with after.reading(["job/one"]):
        pass
    opened.enter_context(after.reading(["job/two"]))
    last = restarted(tmp_path)
    assert (last.is_suspect("job/one"), list(last.left_out())) == (False, ["job/two"])


def test_an_error_is_no_death_and_a_removed_bundle_is_forgotten(tmp_path: Path, opened: contextlib.ExitStack) -> None:
    with contextlib.suppress(ValueError), restarted(tmp_path).reading(["job/one"]):
        raise ValueError
    assert not (tmp_path / OPENED_FILE).exists()
    opened.enter_context(restarted(tmp_path).reading(["job/one"]))
    (tmp_path / "bundles" / "job" / "one").rmdir()
    assert not restarted(tmp_path).is_suspect("job/one")
