"""A measuring client that is kept from its work, really: its own figures tell on it."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator

from lab.metrics import measure
from lab.study import Load
from lab.validity import judge
from tests.warehouse.runs import run_record
from tests.workers.homes import REPOSITORY
from tests.workers.load.builders import ask, prompts
from workers.load.client import Endpoint, open_session
from workers.load.driver import drive

LOAD = Load(max_concurrency=8, num_prompts=36, request_rate_rps=8.0, arrivals="constant")


@contextlib.contextmanager
def serving() -> Iterator[str]:
    """The server of the client's own tests, as a process of its own; gives its address."""
    command = (sys.executable, "-m", "tests.workers.load.mortal_server")
    process = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


async def hold_up_the_loop() -> None:
    """What a callback does that computes, or a disk that is slow."""
    while True:
        await asyncio.sleep(0.02)
        time.sleep(0.15)  # noqa: ASYNC251 - that is the point


async def test_a_client_whose_loop_is_held_up_makes_its_run_invalid() -> None:
    with serving() as url:
        async with open_session() as session:
            holding = asyncio.create_task(hold_up_the_loop())
            done = await drive(
                session, Endpoint(url, "normal"), prompts(LOAD.num_prompts), load=LOAD, ask=ask(), seed=0
            )
            holding.cancel()
    run = run_record(load=LOAD, client=done.client, duration_s=done.duration_s)
    verdict = judge(run, done.requests, done.telemetry, measure(run, done.requests, done.telemetry))
    found = {finding.check: finding for finding in verdict.findings}
    assert found["client_lag"].severity == "invalid"
    assert "The client's event loop was up to" in found["client_lag"].sentence
    assert found["late_sends"].severity in ("warning", "invalid")
    assert not verdict.valid
