"""From a study to launches and runs."""

from __future__ import annotations

import math

from hypothesis import given

from lab.study import Load, Study
from lab.study.plan import estimate_s, plan
from tests.lab.studies import study
from tests.lab.study.test_study import studies


@given(studies)
def test_every_cell_is_run_once_per_repeat(planned: Study) -> None:
    runs = [run for launch in plan(planned) for run in launch.runs]
    keys = {run.key("job") for run in runs}
    cells = len(planned.arms) * len(planned.workloads) * len(planned.loads)
    assert len(runs) == len(keys) == cells * planned.repeats


@given(studies)
def test_an_engine_starts_once_per_arm_and_repeat_or_once_per_arm_where_that_is_asked(planned: Study) -> None:
    launches = plan(planned)
    starts = len(planned.arms) * (1 if planned.order == "fewest_launches" else planned.repeats)
    assert [launch.index for launch in launches] == list(range(starts))
    assert all((run.arm,) == launch.arms for launch in launches for run in launch.runs)


@given(studies)
def test_all_arms_run_the_same_workloads_and_loads_in_the_same_order(planned: Study) -> None:
    orders = {tuple((run.workload, run.load) for run in launch.runs) for launch in plan(planned)}
    assert len(orders) == 1


def test_repeats_take_the_arms_in_the_order_a_b_b_a() -> None:
    assert [launch.arms[0].name for launch in plan(study(repeats=2))] == ["no draft", "draft", "draft", "no draft"]


def test_with_fewest_launches_all_repeats_of_an_arm_share_an_engine() -> None:
    launches = plan(study(repeats=2, order="fewest_launches"))
    assert [launch.arms[0].name for launch in launches] == ["no draft", "draft"]
    assert [run.repeat for run in launches[0].runs] == [0, 0, 1, 1]


def test_a_run_has_another_key_in_another_job() -> None:
    run = plan(study())[0].runs[0]
    assert run.key("one") != run.key("two")


@given(studies)
def test_the_estimate_is_at_least_the_time_the_arrivals_take(planned: Study) -> None:
    launches = plan(planned)
    loads = [run.load for launch in launches for run in launch.runs]
    assert estimate_s(launches) >= sum(map(arriving_s, loads)) * (1 - 1e-9)


def arriving_s(load: Load) -> float:
    """Until the last request is due, or the duration ends the load before."""
    mean_rps = load.request_rate_rps or math.inf
    if load.ramp_to_rps is not None:
        mean_rps = (mean_rps + load.ramp_to_rps) / 2
    return min(load.num_prompts / mean_rps, load.duration_s or math.inf)
