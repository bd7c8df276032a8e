"""Differences between a run and its baseline, each with both values; what is unknown for one of them is none."""

from __future__ import annotations

from typing import Any

import pytest

from lab.metrics.records import RunRecord
from lab.study import Sampling
from lab.validity.checks.comparability import changed_settings, conditions, engines
from tests.warehouse.runs import cell, circumstances, run_record


def of(**changes: Any) -> RunRecord:
    """A run in circumstances that are all known, with these changes."""
    known = {
        "gpus": ("H200 (1)", "H200 (2)"),
        "target_digest": "abc",
        "target_revision": "main",
        "driver_version": "580",
        "effective_config": {"max_num_seqs": "4"},
        "environment": {"OMP_NUM_THREADS": "2"},
    }
    around = {name: changes.pop(name) for name in list(changes) if name in circumstances().model_fields_set | {*known}}
    values: dict[str, Any] = {"prompts_seed": 0, "identity": cell("c")}
    return run_record(circumstances=circumstances(**known | around), **values | changes)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"hardware": "H200"}, ["hardware 2-core processor -> H200"]),
        ({"gpus": ("H200 (2)", "H200 (1)")}, []),  # which of two alike it was does not matter
        ({"gpus": ("A100 (1)",)}, ["GPUs ('H200', 'H200') -> ('A100',)"]),
        ({"gpus": ()}, []),
        ({"target_digest": "def"}, ["target abc -> def"]),
        ({"target_digest": None, "target_revision": "old"}, ["target abc -> old"]),
        ({"target_digest": None, "target_revision": None}, []),
        ({"endpoint": "chat"}, ["endpoint completions -> chat"]),
        ({"prompts_seed": 7}, ["seed 0 -> 7"]),
        ({"prompts_seed": None}, []),
        ({"identity": cell("c", workload_id="v")}, ["prompts w -> v"]),
        ({"identity": None}, []),
        (
            {"sampling": Sampling(seed=1), "hardware": "x" * 41, "endpoint": "chat"},
            [
                f"hardware 2-core processor -> {'x' * 39}…",
                "sampling temperature=0.0 top_p=1.0 seed=0 -> temperature=0.0 top_p=1.0 seed=1",
                "endpoint completions -> chat",
            ],
        ),
        ({"hardware": "x" * 40}, [f"hardware 2-core processor -> {'x' * 40}"]),
    ],
)
def test_conditions_are_compared_one_by_one(changes: dict[str, Any], expected: list[str]) -> None:
    assert list(conditions(of(), of(**changes))) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"engine": "sglang"}, ["engine vllm -> sglang"]),
        ({"engine_version": "0.33"}, ["version 0.32.0 -> 0.33"]),
        ({"engine_version": None}, []),
        ({"driver_version": "590"}, ["driver 580 -> 590"]),
        ({"driver_version": None}, []),
        ({"driver_version": "590", "engine": "sglang"}, ["engine vllm -> sglang", "driver 580 -> 590"]),
    ],
)
def test_engines_are_compared_one_by_one(changes: dict[str, Any], expected: list[str]) -> None:
    assert list(engines(of(), of(**changes))) == expected


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"max_num_seqs": "4"}, []),
        ({"max_num_seqs": "8"}, ["max_num_seqs 4 -> 8"]),
        ({}, []),  # unknown
        ({"max_num_seqs": "4", "dtype": "float16"}, ["dtype not set -> float16"]),
        ({"dtype": "float16"}, ["dtype not set -> float16", "max_num_seqs 4 -> not set"]),
        ({"max_num_seqs": "4", "api_port": "1", "speculative_config": "x", "log_level": "debug", "SEED": "1"}, [
            "SEED not set -> 1"
        ]),
        ({"max_num_seqs": "4", "random_seed": "1", "NCCL_X": "1", "served_model_name": "x", "spec": "y"}, []),
    ],
)  # fmt: skip
def test_settings_are_compared_except_what_always_differs(config: dict[str, str], expected: list[str]) -> None:
    assert list(changed_settings(of(), of(effective_config=config))) == expected


def test_of_a_long_setting_the_parts_that_differ_are_named() -> None:
    here = "{'mode': 3, 'sizes': [1, 2], 'pass': {'fuse': True, 'cache_dir': '/a'}, 'level': <Level.A: 1>}"
    there = "{'mode': 3, 'sizes': [1, 4], 'pass': {'fuse': False, 'cache_dir': '/b'}, 'level': <Level.B: 2>}"
    runs = (of(effective_config={"compilation_config": text}) for text in (here, there))
    assert list(changed_settings(*runs)) == [
        "compilation_config.fuse True -> False",
        "compilation_config.level <Level.A: 1> -> <Level.B: 2>",
        "compilation_config.sizes [1, 2] -> [1, 4]",
    ]
    plain = (of(effective_config={"x": text}) for text in ("a=1", "{a=1}"))
    assert list(changed_settings(*plain)) == ["x a=1 -> {a=1}"]


def test_the_environment_is_compared_too_and_only_of_one_engine() -> None:
    changed = {"environment": {"OMP_NUM_THREADS": "4"}, "effective_config": {"max_num_seqs": "8"}}
    assert list(changed_settings(of(), of(**changed))) == ["max_num_seqs 4 -> 8", "OMP_NUM_THREADS 2 -> 4"]
    assert list(changed_settings(of(), of(**changed, engine="sglang"))) == []
    assert list(changed_settings(of(), of(environment={}))) == []
