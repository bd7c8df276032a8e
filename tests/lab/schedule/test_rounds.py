"""The windows of runs that are measured in rounds: which there are, in which order, and with which prompts."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.schedule import rounds
from lab.schedule.rounds import (
    LEAST_TOKENS_ON_GPU,
    MOST_WINDOWS,
    PlannedWindow,
    dealt,
    in_long_windows,
    in_order,
    number_of_windows,
)
from lab.study import Study
from lab.study.plan import Launch, plan
from tests.lab.studies import study

ARMS = [{"name": "no draft", "baseline": True}, {"name": "one"}, {"name": "two"}]
LOADS = [{"max_concurrency": 1, "num_prompts": 8}, {"max_concurrency": 2, "num_prompts": 24}]
WORKLOADS = [{"category": category, "output_tokens": 32} for category in ("code", "repeat")]


def beside(**changes: Any) -> tuple[Study, Launch]:
    """Return a study side by side with three arms, and its first launch, of two repeats."""
    planned = study(
        **({"arms": ARMS, "workloads": WORKLOADS, "loads": LOADS, "order": "side_by_side", "repeats": 4} | changes)
    )
    return planned, plan(planned)[0]


def windows(planned: Study, launch: Launch) -> list[list[PlannedWindow]]:
    return list(in_order(planned, launch, launch.runs))


def test_each_run_has_all_its_windows_once_and_in_order() -> None:
    planned, launch = beside()
    groups = windows(planned, launch)
    assert [{window.run.repeat for window in group} for group in groups] == [{0}, {1}]
    for run in launch.runs:
        own = [window for group in groups for window in group if window.run == run]
        expected = 8 // run.load.max_concurrency
        assert own == [PlannedWindow(run, number, expected) for number in range(expected)]


def test_within_a_round_a_cell_is_measured_on_all_arms_before_the_next_one() -> None:
    planned, launch = beside()
    group = windows(planned, launch)[0]
    threes = [group[first : first + 3] for first in range(0, len(group), 3)]
    assert all(len({(window.run.cell, window.number) for window in three}) == 1 for three in threes)
    assert all({window.run.arm.name for window in three} == {"no draft", "one", "two"} for three in threes)


def test_arms_are_at_each_place_equally_often_and_cells_in_a_drawn_order() -> None:
    planned, launch = beside(
        loads=[{"max_concurrency": streams, "num_prompts": prompts} for streams, prompts in ((1, 12), (2, 72))]
    )
    groups = windows(planned, launch)
    orders = [
        [window.run.arm.name for window in group[first : first + 3]] for group in groups for first in range(0, 72, 3)
    ]
    ends = Counter((order[0], order[2]) for order in orders)
    assert all(ends[first, last] == ends[last, first] for first, last in ends)
    cells = [group[first].run.cell for group in groups for first in range(0, 72, 6)]
    assert set(Counter(cells)) == {run.cell for run in launch.runs}
    assert cells != sorted(cells)


def test_after_a_crash_the_windows_left_have_the_same_order() -> None:
    planned, launch = beside()
    [group, _] = windows(planned, launch)
    left = [run for run in launch.runs if run.arm.name != "one" or run.load.max_concurrency == 2]
    [again, _] = in_order(planned, launch, left)
    assert again == [window for window in group if window.run in left]


def test_a_cell_of_few_windows_has_them_in_rounds_far_apart() -> None:
    planned, launch = beside(
        loads=[{"max_concurrency": 1, "num_prompts": 8}, {"max_concurrency": 4, "num_prompts": 24}]
    )
    [group, _] = windows(planned, launch)
    halves = group[: len(group) // 2], group[len(group) // 2 :]
    assert [sum(window.run.load.max_concurrency == 4 for window in half) for half in halves] == [6, 6]


@pytest.mark.parametrize(
    ("workload", "load", "expected"),
    [
        ({"output_tokens": 32}, {"max_concurrency": 8, "num_prompts": 64}, 2),
        ({"output_tokens": 32, "ignore_eos": False}, {"max_concurrency": 8, "num_prompts": 64}, 2),
        ({"output_tokens": 32, "ignore_eos": False}, {"max_concurrency": 1, "num_prompts": 8}, 8),
        ({"output_tokens": 6}, {"max_concurrency": 1, "num_prompts": 8}, 2),
        ({"output_tokens": 32}, {"max_concurrency": 8, "num_prompts": 47}, 1),
        ({"output_tokens": 32}, {"max_concurrency": 1, "num_prompts": 1000}, MOST_WINDOWS),
    ],
)
def test_a_window_has_prompts_for_every_stream(workload: dict[str, Any], load: dict[str, Any], expected: int) -> None:
    _, launch = beside(workloads=[workload], loads=[load])
    assert {number_of_windows(run) for run in launch.runs} == {expected}


def test_a_window_is_for_more_tokens_where_they_are_faster() -> None:
    _, launch = beside()
    assert number_of_windows(launch.runs[0], LEAST_TOKENS_ON_GPU) == 8 * 32 // LEAST_TOKENS_ON_GPU


@pytest.mark.parametrize(
    "changes",
    [
        {"order": "interleaved"},
        {"loads": [{"max_concurrency": 2, "num_prompts": 8, "request_rate_rps": 2.0}]},
        {"loads": [{"max_concurrency": 2, "num_prompts": 8, "duration_s": 10.0}]},
        {"workloads": [{"dataset": "sharegpt", "sessions": {}}]},
        {"fresh_starts": "every_cell", "arms": [ARMS[0], {"name": "draft", "speculation": {
            "method": "ngram", "num_speculative_tokens": 3}}]},
    ],
    ids=["one at a time", "a rate", "a duration", "sessions", "a draft that remembers"],
)  # fmt: skip
def test_what_may_not_be_interrupted_has_one_window(changes: dict[str, Any]) -> None:
    planned, launch = beside(**changes)
    assert windows(planned, launch) == [[PlannedWindow(run)] for run in launch.runs]


def test_long_windows_are_where_the_first_short_ones_of_several_streams_were() -> None:
    planned, launch = beside()
    [group, _] = windows(planned, launch)
    long = in_long_windows(group)
    assert [window for window in long if window.run.load.max_concurrency == 1] == [
        window for window in group if window.run.load.max_concurrency == 1
    ]
    several = [window.run for window in group if window.run.load.max_concurrency == 2 and window.number == 0]
    assert [window for window in long if window.run.load.max_concurrency == 2] == [
        PlannedWindow(run) for run in several
    ]


def test_runs_whose_answers_fill_the_memory_are_measured_in_several_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    planned, launch = beside()
    monkeypatch.setattr(rounds, "_MOST_TOKENS", 1)
    groups = windows(planned, replace(launch, runs=tuple(run for run in launch.runs if run.repeat == 0)))
    assert [len({window.run.cell for window in group}) for group in groups] == [1] * 2 * len(planned.workloads)


@given(
    kinds=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5)), min_size=1, max_size=60),
    windows=st.integers(1, 12),
    seed=st.integers(0, 5),
)
def test_each_window_gets_the_mix_of_all_prompts(kinds: list[tuple[str, int]], windows: int, seed: int) -> None:
    hands = dealt(kinds, windows, seed)
    assert sorted(place for hand in hands for place in hand) == list(range(len(kinds)))
    sizes = [len(hand) for hand in hands]
    assert max(sizes) - min(sizes) <= 1
    for letter in "abc":
        of_letter = [sum(kinds[place][0] == letter for place in hand) for hand in hands]
        assert max(of_letter) - min(of_letter) <= 2


def test_another_seed_deals_other_prompts() -> None:
    assert dealt(["same"] * 40, 5, 1) == dealt(["same"] * 40, 5, 1) != dealt(["same"] * 40, 5, 2)
