"""The progress of a running job: counts, and the time that is left."""

from __future__ import annotations

import pytest

from lab.estimate import WITHOUT_GPU, History, estimate
from lab.schedule import Step
from lab.study.plan import Launch, plan
from tests.lab.studies import study
from workers.job_progress import Forecast, JobStatus
from workers.load.window import LoadProgress


@pytest.fixture
def launches() -> tuple[Launch, ...]:
    return plan(study(repeats=2))


def load_progress(*, done: int, total: int, elapsed_s: float) -> LoadProgress:
    return LoadProgress(
        elapsed_s=elapsed_s,
        requests_total=total,
        requests_done=done,
        requests_failed=0,
        requests_in_flight=1,
        output_tok_per_s=30.0,
        ttft_ms=12.0,
    )


def test_before_anything_was_seen_the_plan_is_the_forecast(launches: tuple[Launch, ...]) -> None:
    status = JobStatus(launches)
    status.step(Step(launches[0], launches[1:]))
    status.starting(launches[0].arms[0], 0)
    assert status.snapshot().remaining_s == pytest.approx(estimate(launches, History()).seconds, abs=1.0)


def test_what_this_job_has_seen_corrects_the_plan(launches: tuple[Launch, ...]) -> None:
    forecast, run = Forecast(), launches[0].runs[0]
    forecast.saw_start(10.0)
    forecast.saw_start(20.0)
    forecast.saw_run(run, 3 * WITHOUT_GPU.run_s(run))
    other = launches[1].runs[1]
    assert forecast.remaining_s([other], 2) == pytest.approx(30.0 + 3 * WITHOUT_GPU.run_s(other))


def test_a_run_under_way_is_judged_by_its_own_pace(launches: tuple[Launch, ...]) -> None:
    last = launches[-1]
    status = JobStatus(launches)
    status.step(Step(last))
    status.starting(last.arms[0], 1)
    status.finished(last.runs[0], failed=False)
    status.warming_up(last.runs[-1])
    status.window_begins(last.runs[-1])
    status.measuring(load_progress(done=4, total=8, elapsed_s=100.0))
    assert status.snapshot().remaining_s == pytest.approx(100.0)


def test_the_requests_of_a_session_are_counted_once_its_turns_are_known(launches: tuple[Launch, ...]) -> None:
    run = launches[0].runs[0]
    status = JobStatus(launches)
    status.step(Step(launches[0], launches[1:]))
    status.warming_up(run)
    assert status.snapshot().requests_total == run.load.num_prompts
    status.measuring(load_progress(done=5, total=3 * run.load.num_prompts, elapsed_s=1.0))
    assert (status.snapshot().requests_done, status.snapshot().requests_total) == (5, 3 * run.load.num_prompts)


def test_a_start_that_takes_longer_than_expected_leaves_no_negative_time(launches: tuple[Launch, ...]) -> None:
    status = JobStatus(launches[:1])
    status.step(Step(launches[0]))
    status.starting(launches[0].arms[0], 0)
    expected_s = status.snapshot().remaining_s
    status._since_s -= 10 * WITHOUT_GPU.start_s
    assert expected_s is not None
    assert status.snapshot().remaining_s == pytest.approx(expected_s - WITHOUT_GPU.start_s, abs=1.0)


def test_counts_and_figures_are_those_of_the_current_run(launches: tuple[Launch, ...]) -> None:
    status = JobStatus(launches)
    first, second = launches[0].runs
    status.step(Step(launches[0], launches[1:]))
    status.starting(launches[0].arms[0], 0)
    status.warming_up(first)
    status.finished(first, failed=True)
    status.warming_up(second)
    status.window_begins(second)
    status.measuring(load_progress(done=2, total=8, elapsed_s=1.0))
    snapshot = status.snapshot()
    assert (snapshot.phase, snapshot.arm, snapshot.load, snapshot.workload) == (
        "measuring",
        launches[0].arms[0].name,
        second.load.name,
        second.workload.name,
    )
    assert (snapshot.runs_total, snapshot.runs_done, snapshot.runs_failed, snapshot.launches_total) == (8, 1, 1, 4)
    assert (snapshot.requests_done, snapshot.requests_total) == (2, second.load.num_prompts)
    assert (snapshot.output_tok_per_s, snapshot.ttft_ms) == (30.0, 12.0)
