"""A measuring client that is kept from its work, really: its own figures tell on it."""

from __future__ import annotations

import asyncio
import time

import pytest

from lab.metrics.measure import measure
from lab.metrics.request_table import RequestTable
from lab.study import Load
from lab.validity import Severity, Verdict, judge
from lab.validity.checks.client import BUSY_WARNING
from tests.warehouse.runs import run_record
from tests.workers.homes import program
from tests.workers.load.builders import params, prompts
from workers.load.client import Endpoint
from workers.load.connections import Connections
from workers.load.driver import drive

pytestmark = pytest.mark.engine

LOAD = Load(max_concurrency=8, num_prompts=36, request_rate_rps=8.0, arrivals="constant")
#: What is found, how gravely, and in which words.
EXPECTED: tuple[tuple[str, tuple[Severity, ...], str], ...] = (
    ("client_lag", ("invalid",), "The client's event loop was up to"),
    ("late_sends", ("warning", "invalid"), "after its intended moment"),
)
BUSY = "client_busy"
BUSY_S, FREE_S, TRIES = 0.2, 0.01, 2


async def compute() -> None:
    """A callback in the client's own loop that computes."""
    while True:
        await asyncio.sleep(FREE_S)
        until_s = time.thread_time() + BUSY_S
        while time.thread_time() < until_s:
            pass


async def judged() -> tuple[Verdict, float]:
    """With the share of a processor that the client had during the window."""
    with program("tests.workers.load.behaviours") as url:
        async with Connections() as connections:
            computing = asyncio.create_task(compute())
            done = await drive(
                connections, Endpoint(url, "normal"), prompts(LOAD.num_prompts), load=LOAD, params=params(), seed=0
            )
            computing.cancel()
    run = run_record(load=LOAD, client=done.client, duration_s=done.duration_s)
    requests = RequestTable.of(done.requests)
    verdict = judge(run, requests, done.telemetry, measure(run, requests, done.telemetry))
    return verdict, done.client.cpu_s / done.duration_s


@pytest.fixture(scope="module")
def busy() -> tuple[Verdict, float]:
    """Again where the machine gave its processors to others, so that the client did not get to be busy."""
    for _ in range(TRIES):
        verdict, share = asyncio.run(judged())
        print(f"the client had {share:.0%} of a processor")
        if share > BUSY_WARNING:
            break
    return verdict, share


@pytest.mark.parametrize(("check", "severities", "words"), EXPECTED, ids=[expected[0] for expected in EXPECTED])
def test_a_client_that_is_kept_from_its_work_is_told_so(
    busy: tuple[Verdict, float], check: str, severities: tuple[Severity, ...], words: str
) -> None:
    (fired,) = [finding for finding in busy[0].findings if finding.check == check]
    assert words in fired.sentence
    assert fired.severity in severities
    assert not busy[0].valid


def test_a_client_that_uses_up_its_processor_is_told_so(busy: tuple[Verdict, float]) -> None:
    """Beside many others it cannot be so busy, and then nothing of the kind may be said."""
    verdict, share = busy
    sentences = [finding.sentence for finding in verdict.findings if finding.check == BUSY]
    assert ["The client itself was busy for" in sentence for sentence in sentences] == [True] * (share > BUSY_WARNING)
