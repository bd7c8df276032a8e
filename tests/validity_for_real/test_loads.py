"""Traps that only longer windows and other loads show, measured as a user's study is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lab.validity import Severity, Verdict
from tests.validity_for_real.conftest import measured_once, prepared, serving
from tests.workers.homes import new_home

pytestmark = pytest.mark.timeout(900)

CLOSED = {"label": "closed", "max_concurrency": 4, "num_prompts": 32}
ARRIVING = {"label": "arriving", "max_concurrency": 2, "num_prompts": 24, "request_rate_rps": 60.0}
STOPPED = {"label": "stopped", "max_concurrency": 2, "num_prompts": 32, "request_rate_rps": 60.0, "duration_s": 0.5}
ARMS = ("none", "slows_down", "one_is_long")
EXPECTED: tuple[tuple[str, str, str, Severity, str], ...] = (
    ("slows_down", "closed", "drift_within_run", "warning", "tok/s"),
    ("one_is_long", "closed", "long_tail", "note", "fewer than half of the 4 streams"),
    ("none", "arriving", "waiting_in_client", "warning", "waited"),
    ("none", "stopped", "requests_not_sent", "warning", "never left the client"),
)
TRIES = 3


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory, migrated: Any) -> Iterator[dict[tuple[str, str], Verdict]]:
    """By arm and load. Once more where this machine held something up: what has its reason in a check comes again."""
    with new_home(tmp_path_factory.mktemp("loaded"), migrated) as home, serving(*ARMS) as port:
        dataset = prepared(home, [{"prompt": f"Prompt {number} of many. " * 9} for number in range(32)])
        for _ in range(TRIES):
            judged = measured_once(home, dataset, their_arms(port), [CLOSED, ARRIVING, STOPPED])
            found = {(each.bundle.run.arm.name, each.bundle.run.load.name): each.verdict for each in judged}
            if is_as_meant(found):
                break
        yield found


def their_arms(port: int) -> list[dict[str, Any]]:
    urls = {name: f"http://127.0.0.1:{port}/{name}" for name in ARMS}
    arms = [{"name": name, "engine": "endpoint", "server": {"base_url": url}} for name, url in urls.items()]
    return [arms[0] | {"baseline": True}, *arms[1:]]


def is_as_meant(found: dict[tuple[str, str], Verdict]) -> bool:
    said = all(severity_of(found[arm, load], check) == severity for arm, load, check, severity, _ in EXPECTED)
    healthy = {finding.check for finding in found["none", "closed"].findings}
    return said and not healthy & {check for _, _, check, *_ in EXPECTED}


def severity_of(verdict: Verdict, check: str) -> Severity | None:
    return next((finding.severity for finding in verdict.findings if finding.check == check), None)


@pytest.mark.parametrize("trap", EXPECTED, ids=[each[2] for each in EXPECTED])
def test_a_load_that_falls_into_a_trap_is_told_so(
    verdicts: dict[tuple[str, str], Verdict], trap: tuple[str, str, str, Severity, str]
) -> None:
    arm, load, check, severity, words = trap
    (found,) = [finding for finding in verdicts[arm, load].findings if finding.check == check]
    assert words in found.sentence
    assert found.severity == severity


@pytest.mark.parametrize("check", [each[2] for each in EXPECTED])
def test_a_healthy_engine_under_a_closed_loop_is_told_none_of_it(
    verdicts: dict[tuple[str, str], Verdict], check: str
) -> None:
    assert severity_of(verdicts["none", "closed"], check) is None
