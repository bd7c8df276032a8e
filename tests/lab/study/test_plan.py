"""From a study to launches and runs."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from lab.errors import StudyError
from lab.study import Load, Study, Workload
from lab.study.plan import blocks, engine_starts, in_drawn_order, plan
from tests.lab.studies import DRAFT, study
from tests.lab.study.generated import studies


@given(studies)
def test_every_cell_is_run_once_per_repeat(planned: Study) -> None:
    runs = [run for launch in plan(planned) for run in launch.runs]
    keys = {run.key("job") for run in runs}
    cells = len(planned.arms) * len(planned.workloads) * len(planned.loads)
    assert len(runs) == len(keys) == cells * planned.repeats


def test_side_by_side_all_arms_share_a_launch_for_two_repeats() -> None:
    planned = study(repeats=3, order="side_by_side")
    first, second = plan(planned)
    assert [launch.arms for launch in (first, second)] == [planned.arms] * 2
    turns = [(run.repeat, run.load.max_concurrency) for run in (*first.runs, *second.runs)]
    assert turns == [(repeat, streams) for repeat in range(3) for streams in (1, 1, 4, 4)]
    assert len(engine_starts((first, second))) == 4


def test_side_by_side_arms_are_drawn_for_two_repeats_and_reversed_in_the_second() -> None:
    names, cell = ("a", "b", "c"), ("workload", "load")
    orders = [in_drawn_order(names, 7, cell, number) for number in range(200)]
    assert all(after == before[::-1] for before, after in zip(orders[::2], orders[1::2], strict=True))
    drawn = Counter(map(tuple, orders[::2]))
    assert set(drawn) == set(itertools.permutations(names))
    assert max(drawn.values()) < 40  # of 100, where each of 6 is expected 17 times
    assert orders != [in_drawn_order(names, 8, cell, number) for number in range(200)]
    assert orders != [in_drawn_order(names, 7, ("workload", "other"), number) for number in range(200)]
    of_two = [in_drawn_order(("c", "a"), 7, cell, number) for number in range(200)]
    assert of_two == [[arm for arm in order if arm != "b"] for order in orders]


def test_side_by_side_two_repeats_have_two_starts_because_starts_differ_too() -> None:
    assert [{run.repeat for run in launch.runs} for launch in plan(study(repeats=2, order="side_by_side"))] == [
        {0},
        {1},
    ]
    together = plan(study(repeats=2, order="side_by_side", repeats_per_launch=2))
    assert [{run.repeat for run in launch.runs} for launch in together] == [{0, 1}]


def test_a_launch_that_continues_starts_no_engine() -> None:
    first, second = plan(study(repeats=4, order="side_by_side"))
    assert engine_starts((first, replace(second, index=first.index))) == list(first.arms)


@given(studies)
def test_an_engine_starts_once_per_arm_and_repeat_or_per_arm(planned: Study) -> None:
    launches = plan(planned)
    blocks = math.ceil(planned.repeats / min(2, math.ceil(planned.repeats / 2)))
    times = {"interleaved": planned.repeats, "fewest_launches": 1, "side_by_side": blocks}
    assert len(engine_starts(launches)) == len(planned.arms) * times[planned.order]
    assert [launch.index for launch in launches] == list(range(len(launches)))
    assert all(run.arm in launch.arms for launch in launches for run in launch.runs)


@given(studies)
def test_all_arms_run_the_same_workloads_and_loads_in_the_same_order(planned: Study) -> None:
    runs: dict[str, list[tuple[int, Workload, Load]]] = {arm.name: [] for arm in planned.arms}
    for launch in plan(planned):
        for run in launch.runs:
            runs[run.arm.name].append((run.repeat, run.workload, run.load))
    assert all(places == runs[planned.arms[0].name] for places in runs.values())


def test_repeats_take_the_arms_in_the_order_a_b_b_a() -> None:
    once = ["no draft", "draft", "draft", "no draft"]
    assert [launch.arms[0].name for launch in plan(study(repeats=4))] == [*once, *once]


def test_with_fewest_launches_all_repeats_of_an_arm_share_an_engine() -> None:
    launches = plan(study(repeats=2, order="fewest_launches"))
    assert [launch.arms[0].name for launch in launches] == ["no draft", "draft"]
    assert [run.repeat for run in launches[0].runs] == [0, 0, 1, 1]


def test_a_run_has_another_key_in_another_job() -> None:
    run = plan(study())[0].runs[0]
    assert run.key("one") != run.key("two")


def test_a_runs_key_is_the_same_everywhere() -> None:
    """Bundles of jobs that are under way are found by it."""
    assert plan(study())[0].runs[0].key("job") == "ed88f10a022ed0fd"


def test_a_plan_of_a_tuning_has_every_setting_twice() -> None:
    arms = [{"name": "no draft"}, *({"name": name, "speculation": DRAFT} for name in ("draft k=3", "beside"))]
    planned = plan(study(arms=arms, tune={"drafted_tokens": [1, 4], "beside": ["beside"]}))
    names = ["no draft", "draft k=1", "draft k=4"]
    assert [(launch.index, *(arm.name for arm in launch.arms)) for launch in planned] == list(enumerate(names * 2))
    assert [{run.repeat for run in launch.runs} for launch in planned] == [{0}] * 3 + [{1}] * 3


def test_each_trial_of_a_search_has_its_own_name_and_arrivals() -> None:
    search = {"find": "rate", "max_concurrency": 64, "num_prompts": 100, "find_from": 3.0, "label": "search"}
    (launch, *_) = plan(study(loads=[search], seed=5, repeats=2, slo={"ttft_ms": 100.0}))
    assert [run.load.request_rate_rps for run in launch.runs[:3]] == [3.0, 6.0, 12.0]
    (_, later) = (
        run
        for first_launch in plan(study(loads=[search], seed=5, repeats=2, slo={"ttft_ms": 100.0}))[::3]
        for run in first_launch.runs[1:2]
    )
    assert later.trial is not None
    assert (later.load.name, later.repeat, later.trial.number) == ("search #2 at 6", 1, 1)
    assert later.trial.arrivals_seed == 5 + 1 + 1000 + 1
    assert (later.load.max_concurrency, later.load.num_prompts, later.load.find) == (64, 100, None)
    (named, *_) = plan(study(loads=[search | {"label": "s" * 200}], slo={"ttft_ms": 100.0}))
    assert len({run.names for run in named.runs}) == len(named.runs)


SUFFIX = {"name": "suffix", "speculation": {"method": "suffix", "num_speculative_tokens": 8}}
LOADS = [{"max_concurrency": streams, "num_prompts": 8} for streams in (1, 4)]


def test_an_arm_whose_draft_remembers_starts_for_each_cell_and_repeat() -> None:
    for order in ("interleaved", "fewest_launches"):
        planned = study(arms=[{"name": "no draft"}, SUFFIX], loads=LOADS, repeats=2, order=order)
        launches = plan(planned)
        by_arm = {arm.name: [len(launch.runs) for launch in launches if launch.arms == (arm,)] for arm in planned.arms}
        cells = len(planned.workloads) * len(planned.loads)
        assert by_arm["suffix"] == [1] * cells * 2
        assert sum(by_arm["no draft"]) == cells * 2
        assert len(by_arm["no draft"]) == (2 if order == "interleaved" else 1)
        assert [launch.index for launch in launches] == list(range(len(launches)))


def test_side_by_side_all_arms_start_anew_with_one_whose_draft_remembers() -> None:
    planned = study(arms=[{"name": "no draft"}, SUFFIX], loads=LOADS, repeats=2, order="side_by_side")
    launches = plan(planned)
    assert [len({run.names[1:] for run in launch.runs}) for launch in launches] == [1] * len(launches)
    assert {run.names for launch in launches for run in launch.runs} == {
        (arm.name, workload.name, load.name, repeat)
        for arm in planned.arms
        for workload in planned.workloads
        for load in planned.loads
        for repeat in range(2)
    }
    assert [{run.arm.name for run in launch.runs} for launch in launches] == [{"no draft", "suffix"}] * len(launches)


def test_fresh_starts_follow_the_draft_unless_the_study_says_otherwise() -> None:
    def starts(fresh_starts: str = "as_declared", **speculation: Any) -> list[bool]:
        arm = SUFFIX | {"speculation": {"method": "suffix", "num_speculative_tokens": 8} | speculation}
        of = study(arms=[{"name": "no draft"}, arm], fresh_starts=fresh_starts)
        return [of.starts_each_cell(each) for each in of.arms]

    assert starts() == [False, True]
    assert starts(options={"suffix_decoding_max_cached_requests": 0}) == [False, False]
    assert starts(method="dspark", options={"enable_adaptive_verification": True}) == [False, True]
    assert starts(method="ngram") == [False, False]
    assert starts("every_cell", method="ngram") == [False, True]
    assert starts("never") == [False, False]


@pytest.mark.parametrize(
    ("order", "each", "repeats"), [("interleaved", 1, 1), ("interleaved", 2, 2), ("side_by_side", 1, 2)]
)
def test_a_block_has_the_repeats_that_all_arms_have_on_one_start(order: str, each: int, repeats: int) -> None:
    divided = blocks(study(repeats=4, order=order, repeats_per_launch=each))
    of_blocks = [{run.repeat for launch in block for run in launch.runs} for block in divided]
    assert of_blocks == [set(range(first, first + repeats)) for first in range(0, 4, repeats)]
    arms = [{run.arm.name for launch in block for run in launch.runs} for block in divided]
    assert all(names == arms[0] and len(names) == 2 for names in arms)


def test_fewest_launches_are_one_block_and_tunings_cannot_be_shared() -> None:
    assert len(blocks(study(repeats=4, order="fewest_launches"))) == 1
    assert study(spread=True, repeats="until decided", budget="10 min").spread
    with pytest.raises(StudyError, match="each step of a tuning follows from the one before it: remove spread"):
        study(spread=True, tune={"drafted_tokens": [1, 3]})
