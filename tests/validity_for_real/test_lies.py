"""Servers that flatter their arm in one way, each a process that is measured in a study beside an honest one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from lab.validity import Finding, Severity, judge_study
from tests.validity_for_real.conftest import MTP, TRIES, Judged, judged_runs, measured_once, prepared, serving
from tests.validity_for_real.server import LIES
from tests.workers.engine_runtime.stand_ins import worked
from tests.workers.homes import Home, new_home
from tests.workers.probes.burner import burner

pytestmark = [pytest.mark.engine, pytest.mark.timeout(5400)]

#: A machine that is busy with other tests holds up the client and the servers.
OF_A_BUSY_MACHINE = {"client_lag", "late_sends", "few_answers_paused", "repeats_differ", "slow_first_requests"}
OF_A_SMALL_STUDY = {"few_requests", "configuration_unknown", "single_concurrency", "several_tokens_a_chunk"}
EXPECTED: tuple[tuple[str, str, Severity, str], ...] = (
    ("merges", "events_in_bursts", "warning", "8 tokens came with an answer's first event"),
    ("writes_at_once", "events_in_bursts", "warning", "8 tokens came with an answer's first event"),
    ("space_first", "early_first_event", "warning", "sooner than a step of the model"),
    ("stalls", "few_answers_paused", "warning", "3 of 24 requests stopped"),
    ("one_at_a_time", "streams_not_served", "warning", "the server worked on 1 at a time"),
    ("silent", "speculation_not_seen", "warning", "nothing shows it"),
    ("serves_others", "server_shared", "invalid", "somebody else used the server"),
    ("another_template", "prompt_tokens_differ", "invalid", "by +37 in the median"),
    ("half_text", "text_per_token_differs", "invalid", "A token of arm 'half_text' holds 0.5 times the text"),
    ("refuses_longest", "prompts_not_answered", "warning", "Arm 'refuses_longest' failed 2 of 48 requests"),
    ("slower_later", "repeats_differ", "warning", "The repeats of 'slower_later' lie up to"),
    ("learns", "draft_remembers", "invalid", "of 'learns' rose from repeat to repeat (2, 4 tokens a round)"),
)
OTHER_PROGRAMS = "other_programs"
#: By arm.
Found = dict[str, list[Finding]]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, migrated: Any) -> Iterator[Home]:
    with new_home(tmp_path_factory.mktemp("lies"), migrated) as made:
        yield made


@pytest.fixture(scope="module")
def dataset(home: Home) -> str:
    """Prompts of 400 to 1,500 characters; the last of the 24 is the longest."""
    return prepared(
        home, [{"prompt": f"{n:02} {'word ' * 400}"[: 396 + 48 * (n + 1)], "category": "x"} for n in range(24)]
    )


def measured(home: Home, dataset: str) -> list[Judged]:
    with serving(*LIES) as port:
        arms = [
            {"name": lie, "engine": "endpoint", "server": {"base_url": f"http://127.0.0.1:{port}/{lie}"}}
            | ({"baseline": True} if lie == "honest" else {})
            | ({"speculation": MTP} if lie in ("learns", "silent") else {})
            for lie in LIES
        ]
        workloads = [{"dataset": dataset, "output_tokens": 32}]
        loads = [{"max_concurrency": 4, "num_prompts": 24}]
        job = worked(home, arms=arms, workloads=workloads, loads=loads, repeats=2)
    assert (job.state, job.error) == ("done", None)
    return judged_runs(home, job.job_id)


@pytest.fixture(scope="module")
def found(home: Home, dataset: str) -> Found:
    """Once more where this machine held something up: what has its reason in a check comes again."""
    for _ in range(TRIES):
        by_arm = findings(measured(home, dataset))
        if all(is_caught(by_arm, *expected) for expected in EXPECTED) and not any(of_other_lies(by_arm).values()):
            break
        print(f"not as meant: {of_other_lies(by_arm)}, {[each for each in EXPECTED if not is_caught(by_arm, *each)]}")
    return by_arm


def findings(lied: list[Judged]) -> Found:
    """What is found in each arm's runs, and in the study about it."""
    by_arm: Found = {lie: [] for lie in LIES}
    for judged in lied:
        by_arm[judged.bundle.run.arm.name] += judged.verdict.findings
    for finding in judge_study([judged.in_study for judged in lied]).findings:
        for lie in LIES:
            if repr(lie) in finding.sentence:
                by_arm[lie].append(finding)
    return by_arm


def is_caught(by_arm: Found, lie: str, check: str, severity: Severity, words: str) -> bool:
    caught = [finding for finding in by_arm[lie] if finding.check == check]
    return bool(caught) and all(words in each.sentence and each.severity == severity for each in caught)


def of_other_lies(by_arm: Found) -> dict[str, set[str]]:
    """Of each arm: the checks that speak of what others do."""
    lies = {check for _, check, *_ in EXPECTED} - OF_A_BUSY_MACHINE
    own = {lie: {check for name, check, *_ in EXPECTED if name == lie} for lie in LIES}
    return {lie: {each.check for each in by_arm[lie]} & lies - own[lie] for lie in LIES}


@pytest.mark.parametrize(("lie", "check", "severity", "words"), EXPECTED, ids=[lie for lie, *_ in EXPECTED])
def test_a_server_that_lies_is_caught(found: Found, lie: str, check: str, severity: Severity, words: str) -> None:
    assert is_caught(found, lie, check, severity, words), found[lie]


def test_the_honest_server_beside_them_is_told_nothing(found: Found) -> None:
    told = {finding.check for finding in found["honest"]}
    assert told <= OF_A_BUSY_MACHINE | OF_A_SMALL_STUDY, found["honest"]


def test_an_arm_is_told_of_no_lie_but_its_own(found: Found) -> None:
    assert of_other_lies(found) == {lie: set() for lie in LIES}


def test_programs_that_take_the_machine_during_a_window_are_told_of(home: Home, dataset: str) -> None:
    """A program for each processor, beside an engine that Drafthouse starts."""
    with contextlib.ExitStack() as burning:
        for _ in range(psutil.cpu_count() or 1):
            burning.enter_context(burner())
        load = {"max_concurrency": 2, "num_prompts": 24}
        (judged,) = measured_once(
            home, dataset, [{"name": "plain", "engine": "trapped", "baseline": True}], [load], 200
        )
    (fired,) = [finding for finding in judged.verdict.findings if finding.check == OTHER_PROGRAMS]
    assert fired.severity == "warning"
    assert "of this machine's processors during the window" in fired.sentence
    assert judged.metrics["other_cpu_percent"] > 40  # type: ignore[operator] # a number
