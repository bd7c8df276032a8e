"""Traps that only longer windows and other loads show, measured as a user's study is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lab.validity import Severity, Verdict
from tests.validity_for_real.conftest import TRIES, measured_once, prepared, serving
from tests.workers.homes import Home, new_home

pytestmark = [pytest.mark.engine, pytest.mark.timeout(5400)]

CLOSED = {"label": "closed", "max_concurrency": 4, "num_prompts": 32}
ARRIVING = {"label": "arriving", "max_concurrency": 2, "num_prompts": 24, "request_rate_rps": 60.0}
STOPPED = {"label": "stopped", "max_concurrency": 2, "num_prompts": 32, "request_rate_rps": 60.0, "duration_s": 0.5}
ARMS = ("none", "slows_down", "one_is_long")
#: The verdict on each arm under each load.
Told = dict[tuple[str, str], Verdict]
EXPECTED: tuple[tuple[str, str, str, Severity, str], ...] = (
    ("slows_down", "closed", "drift_within_run", "warning", "tok/s"),
    ("one_is_long", "closed", "long_tail", "note", "fewer than half of the 4 streams"),
    ("none", "arriving", "waiting_in_client", "warning", "waited"),
    ("none", "stopped", "requests_not_sent", "warning", "never left the client"),
)


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory, migrated: Any) -> Iterator[Told]:
    """Again where this machine held something up: what has its reason in a check comes again."""
    with new_home(tmp_path_factory.mktemp("loaded"), migrated) as home, serving(*ARMS) as port:
        dataset = prepared(home, [{"prompt": f"Prompt {number} of many. " * 9} for number in range(32)])
        made = [_tried(home, dataset, port)]
        while not_as_meant(made[-1]) and len(made) < TRIES:
            made.append(_tried(home, dataset, port))
        print(f"not as meant, try by try: {[not_as_meant(attempt) for attempt in made]}")
        yield made[-1]


def _tried(home: Home, dataset: str, port: int) -> Told:
    judged = measured_once(home, dataset, their_arms(port), [CLOSED, ARRIVING, STOPPED])
    return {
        (judged_run.bundle.run.arm.name, judged_run.bundle.run.load.name): judged_run.verdict for judged_run in judged
    }


def their_arms(port: int) -> list[dict[str, Any]]:
    urls = {name: f"http://127.0.0.1:{port}/{name}" for name in ARMS}
    arms = [{"name": name, "engine": "endpoint", "server": {"base_url": url}} for name, url in urls.items()]
    return [arms[0] | {"baseline": True}, *arms[1:]]


def not_as_meant(by_load: Told) -> list[str]:
    """The checks that say nothing of their trap, and those that speak of the healthy engine."""
    silent = [check for arm, load, check, severity, _ in EXPECTED if severity_of(by_load[arm, load], check) != severity]
    healthy = {finding.check for finding in by_load["none", "closed"].findings}
    return [*silent, *(check for _, _, check, *_ in EXPECTED if check in healthy)]


def severity_of(verdict: Verdict, check: str) -> Severity | None:
    return next((finding.severity for finding in verdict.findings if finding.check == check), None)


@pytest.mark.parametrize("trap", EXPECTED, ids=[expected[2] for expected in EXPECTED])
def test_a_load_that_falls_into_a_trap_is_told_so(verdicts: Told, trap: tuple[str, str, str, Severity, str]) -> None:
    arm, load, check, severity, words = trap
    (fired,) = [finding for finding in verdicts[arm, load].findings if finding.check == check]
    assert words in fired.sentence
    assert fired.severity == severity


@pytest.mark.parametrize("check", [expected[2] for expected in EXPECTED])
def test_a_healthy_engine_under_a_closed_loop_is_told_none_of_it(verdicts: Told, check: str) -> None:
    assert severity_of(verdicts["none", "closed"], check) is None
