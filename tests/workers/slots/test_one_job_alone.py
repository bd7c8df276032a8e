"""What goes wrong with one job is that job's own matter: the worker goes on with the others."""

from __future__ import annotations

import platform
from typing import Any

import pytest

from jobs.fleet.blocks import finish_block
from jobs.fleet.leases import claim, release
from tests.workers.homes import Home
from workers.run_recorder import announced_as
from workers.shared_blocks import SharedBlocks
from workers.worker import Worker

#: Another worker of this host, of which nobody here can say that it is dead.
OTHER = f"{platform.node()}/1/elsewhere/0.00"
SMALL = {"arms": [{"name": "plain", "baseline": True}, {"name": "other", "flags": {"token_s": 0.002}}], "alone": False}


def test_a_block_whose_bundles_do_not_come_is_measured_again(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    shared_id = home.submit(**SMALL, repeats=2, spread=True)
    shared = claim(home.database, OTHER, lease_s=600.0)
    assert shared is not None
    its: dict[str, Any] = {"is_dead": lambda _worker: False, "is_own": True}
    blocks = SharedBlocks(home.settings, home.database, shared, OTHER, **its)
    block = blocks.claim(blocks.view())
    assert block is not None
    finish_block(home.database, shared, block.number, OTHER)
    assert (blocks.view().done, [each.is_done for each in blocks.view().blocks]) == (frozenset(), [True])
    monkeypatch.setattr("workers.shared_blocks._AWAITED_FOR_S", -1.0)
    release(home.database, shared_id, OTHER)
    Worker(home.settings).work()
    assert home.job(shared_id).state == "done"
    assert len(home.runs()) == 8


def test_what_is_raised_around_a_job_fails_that_job_alone(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = home.submit(**SMALL), home.submit(**SMALL)

    def broken_once(*given: object) -> str:
        monkeypatch.setattr("workers.worker.announced_as", announced_as)
        raise ZeroDivisionError("nobody thought of this")

    monkeypatch.setattr("workers.worker.announced_as", broken_once)
    Worker(home.settings).work()
    assert (home.job(first).state, home.job(second).state) == ("failed", "done")
    assert "ZeroDivisionError: nobody thought of this" in (home.job(first).error or "")


def test_what_the_host_lacks_around_a_job_puts_it_back(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = home.submit(**SMALL)

    def full(*given: object) -> str:
        monkeypatch.setattr("workers.worker.announced_as", announced_as)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("workers.worker.announced_as", full)
    Worker(home.settings).work()
    assert (home.job(job_id).state, home.job(job_id).error) == ("queued", None)
    Worker(home.settings).work()
    assert home.job(job_id).state == "done"
