"""Engines side by side on a GPU have to be given their parts of its memory."""

from __future__ import annotations

from typing import Any

import pytest

from jobs.engines.checks import side_by_side_problems
from lab.study import Study
from tests.lab.studies import study


def two_arms(*flags: dict[str, Any], devices: tuple[str, ...] = (), **changes: Any) -> Study:
    arms: list[dict[str, Any]] = [
        {"name": name, "flags": own} for name, own in zip(("plain", "draft"), flags, strict=True)
    ]
    for arm, listed in zip(arms, devices, strict=False):
        arm["environment"] = {"CUDA_VISIBLE_DEVICES": listed}
    arms[0]["baseline"] = True
    return study(arms=arms, order="side_by_side", **changes)


@pytest.mark.parametrize(
    "fits",
    [
        two_arms({"gpu-memory-utilization": 0.5}, {"gpu_memory_utilization": 0.5}),
        two_arms({}, {}, engine_flags={"gpu-memory-utilization": 0.45}),
        two_arms({"mem-fraction-static": 0.4}, {"gpu-memory-utilization": 0.6}),
        two_arms({"gpu-memory-utilization": 0.9}, {"gpu-memory-utilization": 0.9}, devices=("0", "1,2")),
    ],
)
def test_parts_that_fit_are_no_problem(fits: Study) -> None:
    assert list(side_by_side_problems(fits, has_gpu=True)) == []


def test_engines_without_a_part_are_named() -> None:
    ((field, sentence),) = side_by_side_problems(two_arms({"gpu-memory-utilization": 0.4}, {}), has_gpu=True)
    assert field == "order"
    assert "set gpu-memory-utilization or mem-fraction-static for 'draft' (at most 1 in all)" in sentence
    assert 'use order = "interleaved"' in sentence


def test_parts_that_are_more_than_the_gpu_are_refused_with_their_sum() -> None:
    ((_, sentence),) = side_by_side_problems(
        two_arms({}, {}, engine_flags={"gpu-memory-utilization": 0.9}), has_gpu=True
    )
    assert "would take 1.8 of the GPU's memory ('plain' 0.9, 'draft' 0.9)" in sentence


def test_an_arm_that_names_no_gpu_shares_all_of_them() -> None:
    flags = {"gpu-memory-utilization": 0.9}
    ((_, sentence),) = side_by_side_problems(two_arms(flags, flags, devices=("0",)), has_gpu=True)
    assert "would take 1.8" in sentence


def test_without_a_gpu_nothing_is_asked_for() -> None:
    assert list(side_by_side_problems(two_arms({}, {}), has_gpu=False)) == []
