"""Problems found at submission, and their messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jobs.engines.capabilities import Capabilities
from jobs.engines.captures import captures
from jobs.engines.checks import (
    arm_problems,
    flag_problems,
    sampling_problems,
    side_by_side_problems,
    study_problems,
    tuning_problems,
)
from jobs.engines.kind import FlagType
from lab.study import Arm, Sampling, Speculation, Study, Tune
from tests.lab.studies import study

FLAGS = (
    "max-model-len",
    "enforce-eager",
    "no-enforce-eager",
    "disable-log-stats",
    "tensor-parallel-size",
    "kv-cache-dtype",
    "speculative-config",
)
METHODS = ("ngram", "draft_model", "eagle3", "deepseek_mtp", "mtp")
HAS = Capabilities(
    engine="vllm", kind="vllm", version="0.32.0", methods=METHODS, flags=FLAGS, gpus=("NVIDIA H200", "NVIDIA H200")
)


def of_arm(**arm: Any) -> Study:
    return study(arms=[{"name": "a", "baseline": True} | arm])


def problems(has: Capabilities = HAS, engine_flags: dict[str, Any] | None = None, **arm: Any) -> dict[str, str]:
    return dict(arm_problems("arms[0]", of_arm(**arm).arms[0], engine_flags or {}, has))


def test_what_the_engine_has_is_fine_however_it_is_spelt() -> None:
    speculation = {"method": "eagle3", "model": "owner/head", "num_speculative_tokens": 3, "options": {"anything": 1}}
    flags = {"max_model_len": 512, "enforce-eager": False, "kv-cache-dtype.mode": "fp8", "tensor_parallel_size": 2}
    assert problems(flags=flags, speculation=speculation, environment={"VLLM_X": "1"}) == {}


def test_a_misspelt_flag_is_answered_with_the_one_that_was_meant() -> None:
    by_field = problems(flags={"max_modellen": 512})
    assert by_field == {
        "arms[0].flags.max_modellen": "vllm 0.32.0 has no flag --max-modellen: did you mean max_model_len?"
    }


def test_a_flag_unlike_any_is_answered_with_those_there_are() -> None:
    assert "it has max-model-len, enforce-eager" in problems(flags={"zzz": 1})["arms[0].flags.zzz"]


def test_a_switch_that_cannot_be_switched_off_is_refused() -> None:
    assert "leave the flag out" in problems(flags={"disable_log_stats": False})["arms[0].flags.disable_log_stats"]


def test_an_engine_whose_flags_are_not_known_is_not_second_guessed() -> None:
    unknown = HAS.model_copy(update={"flags": None})
    assert problems(unknown, flags={"zzz": 1}, config={"yyy": 2}) == {}


def test_a_method_it_does_not_have_is_answered_with_those_it_has() -> None:
    by_field = problems(speculation={"method": "eagle2", "model": "owner/head", "num_speculative_tokens": 3})
    assert by_field["arms[0].speculation.method"] == (
        "vllm 0.32.0 has no method 'eagle2' (did you mean eagle3?): "
        "it has draft_model, eagle3, mtp, ngram, deepseek_mtp"
    )


def test_more_gpus_than_there_are_are_refused() -> None:
    sentence = problems(flags={"tensor_parallel_size": 4})["arms[0].flags"]
    assert sentence == (
        "tensor_parallel_size 4 needs 4 GPUs, but the host has 2 (NVIDIA H200, NVIDIA H200): use 2 at most"
    )
    on_cpu = HAS.model_copy(update={"gpus": ()})
    assert "the host has none" in problems(on_cpu, engine_flags={"tensor-parallel-size": 2})["arms[0].flags"]
    assert problems(on_cpu, flags={"tensor_parallel_size": 1}) == {}


def test_a_flag_that_would_win_over_the_configuration_file_unseen_is_refused() -> None:
    by_field = problems(config={"max_model_len": 512, "no-enforce-eager": True}, engine_flags={"max-model-len": 1024})
    assert list(by_field) == ["arms[0].config.max_model_len"]


def test_the_configuration_file_may_not_set_what_drafthouse_sets() -> None:
    by_field = problems(config={"speculative-config": {"method": "ngram"}, "port": 1, "max_modellen": 1})
    assert "set speculation in the arm" in by_field["arms[0].config.speculative-config"]
    assert "Drafthouse picks a free port" in by_field["arms[0].config.port"]
    assert "did you mean max_model_len" in by_field["arms[0].config.max_modellen"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("HF_TOKEN", "engines.toml"),
        ("OPENAI_API_KEY", "engines.toml"),
        ("DRAFTHOUSE_HOME", "belongs to Drafthouse"),
        ("ENGINE_OF_DRAFTHOUSE", "belongs to Drafthouse"),
        ("A B", "not a valid environment variable"),
    ],
)
def test_an_environment_that_is_secret_or_ours_is_refused(name: str, words: str) -> None:
    assert words in problems(environment={name: "x"})[f"arms[0].environment.{name}"]


@pytest.mark.parametrize(
    "flag",
    [
        *("port", "model", "speculative_config", "api-key", "api_key", "config", "hf_token"),
        *("host", "HOST", "no-host", "speculative_config.model", "model.x"),
    ],
)
def test_flags_that_drafthouse_sets_are_refused_in_every_spelling_with_what_to_use(flag: str) -> None:
    assert "Drafthouse sets this itself: " in problems(flags={flag: 1})[f"arms[0].flags.{flag}"]


def test_a_word_that_is_no_flag_is_told_how_one_is_written() -> None:
    assert (
        "without leading dashes"
        in dict(flag_problems("engine_flags", {"--max-model-len": 1}, HAS))["engine_flags.--max-model-len"]
    )


def test_transformers_has_three_flags_and_no_file(tmp_path: Path) -> None:
    has = HAS.model_copy(update={"engine": "transformers", "kind": "transformers", "flags": ("dtype",), "gpus": ()})
    lookup = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_min": 2, "options": {"a": 1}}
    by_field = problems(has, engine="transformers", flags={"max_num_seqs": 4}, config={"a": 1}, speculation=lookup)
    assert set(by_field) == {
        "arms[0].flags.max_num_seqs",
        "arms[0].config",
        "arms[0].speculation.prompt_lookup_min",
        "arms[0].speculation.options",
    }


def test_a_tuning_is_refused_where_the_engine_cannot_do_it() -> None:
    def by_field_of(kind: str, **tune: Any) -> dict[str, str]:
        return dict(tuning_problems(Tune(**tune), HAS.model_copy(update={"engine": kind, "kind": kind})))

    assert by_field_of("vllm") == {}
    assert "set schedule = false" in by_field_of("sglang")["tune.schedule"]
    assert by_field_of("sglang", schedule=False) == {}
    assert "cannot be tuned" in by_field_of("endpoint")["tune"]


def test_settings_of_a_running_server_are_refused_in_words_of_its_own() -> None:
    has = Capabilities(engine="endpoint", kind="endpoint", version=None, methods=(), flags=None, gpus=())
    server = {"base_url": "http://127.0.0.1:8000"}
    arms = [{"name": name, "engine": "endpoint", "server": server} for name in ("ours", "theirs")]
    flagged = study(
        arms=[{**arms[0], "flags": {"x": 1}, "baseline": True}, arms[1]], engine_flags={"enforce_eager": True}
    )
    refused = "engine flags do not apply to a running server: clear them"
    assert study_problems(flagged, flagged.arms[0], "arms[0]", has) == [
        ("engine_flags", refused),
        ("arms[0].flags", refused),
    ]
    mixed = study(arms=[{**arms[0], "baseline": True}, {"name": "started"}], engine_flags={"enforce_eager": True})
    assert study_problems(mixed, mixed.arms[0], "arms[0]", has) == []


@pytest.mark.parametrize(
    ("version", "temperature", "speculates", "refused"),
    [
        ("0.32.0+cpu", 1.0, True, True),
        ("0.28.0+cpu", 1.0, True, True),
        ("0.33.0+cpu", 1.0, True, False),
        ("0.32.0+cpu", 0.0, True, False),
        ("0.32.0+cpu", 1.0, False, False),
        ("0.32.0", 1.0, True, False),
    ],
)
def test_sampling_is_refused_where_the_engines_speculation_does_it_wrong(
    version: str, temperature: float, *, speculates: bool, refused: bool
) -> None:
    drafts = Speculation(method="ngram", num_speculative_tokens=3) if speculates else None
    has = HAS.model_copy(update={"version": version})
    found = dict(
        sampling_problems("arms[0]", Arm(name="a", speculation=drafts), Sampling(temperature=temperature), has)
    )
    assert bool(found) is refused
    assert all("set sampling.temperature = 0 instead of 1" in problem for problem in found.values())


TYPES: dict[str, FlagType] = {
    "enforce-eager": "switch",
    "no-enforce-eager": "switch",
    "max-model-len": "size",
    "tensor-parallel-size": "integer",
    "gpu-memory-utilization": "number",
    "kv-cache-dtype": ("auto", "fp8_e5m2"),
    "tokenizer": "value",
}
TYPED = HAS.model_copy(update={"flags": (*TYPES, "cudagraph-capture-sizes", "speculative-config"), "flag_types": TYPES})


@pytest.mark.parametrize(
    ("flag", "value", "problem"),
    [
        ("enforce-eager", "--host=0.0.0.0", "is a switch: true or false, not '--host=0.0.0.0'"),
        ("enforce_eager", 1, "is a switch: true or false, not 1"),
        ("no-enforce-eager", "yes", "is a switch: true or false, not 'yes'"),
        ("max_model_len", "abc", "is a whole number like 8192 or 8k, not 'abc'"),
        ("max_model_len", True, "takes a value, not true"),
        ("tensor_parallel_size", 1.5, "is a whole number, not 1.5"),
        ("tensor_parallel_size", "--host", "is a whole number, not '--host'"),
        ("gpu_memory_utilization", "much", "is a number, not 'much'"),
        ("kv_cache_dtype", "fp9", "is one of auto, fp8_e5m2, not 'fp9'"),
        ("tokenizer", False, "takes a value, not false"),
    ],
)
def test_a_value_that_the_engines_own_parser_refuses_is_refused(flag: str, value: Any, problem: str) -> None:
    assert problems(TYPED, flags={flag: value}) == {f"arms[0].flags.{flag}": problem}
    assert problems(TYPED, config={flag: value}) == {f"arms[0].config.{flag}": problem}
    assert dict(flag_problems("engine_flags", {flag: value}, TYPED)) == {f"engine_flags.{flag}": problem}


@pytest.mark.parametrize("value", [[1, 2], {"a": 1}])
def test_a_list_or_a_table_is_no_single_value(value: Any) -> None:
    assert (
        "is a whole number"
        in problems(TYPED, config={"tensor-parallel-size": value})["arms[0].config.tensor-parallel-size"]
    )


@pytest.mark.parametrize(
    "flags",
    [
        {"enforce_eager": False, "max_model_len": "8k", "tensor_parallel_size": 2},
        {"max_model_len": -1, "gpu_memory_utilization": 0.9, "kv_cache_dtype": "FP8-E5M2"},
        {"max_model_len": "auto", "tensor_parallel_size": "2", "gpu_memory_utilization": 1, "tokenizer": "owner/name"},
        {"gpu_memory_utilization": "1e-1", "max_model_len": "None", "cudagraph-capture-sizes": "1"},
    ],
)
def test_a_value_that_the_parser_takes_passes(flags: dict[str, Any]) -> None:
    assert problems(TYPED, flags=flags) == {}
    assert problems(TYPED, config=flags) == {}


def test_values_of_an_engine_that_says_no_types_are_not_checked() -> None:
    assert problems(flags={"max_model_len": "abc", "enforce_eager": "yes"}) == {}


@pytest.mark.parametrize("version", ["0.14.1", "0.28.0"])
def test_a_real_vllm_says_what_its_flags_take(version: str) -> None:
    reported = captures()["vllm", version].reported
    flags, types = set(reported.flags), reported.types
    assert set(types) <= flags
    expected = {
        "enforce-eager": "switch",
        "no-enforce-eager": "switch",
        "max-model-len": "size",
        "tensor-parallel-size": "integer",
        "gpu-memory-utilization": "number",
        "tokenizer": "value",
        "hf-overrides": "value",
    }
    assert {flag: types[flag] for flag in expected} == expected
    assert {"auto", "bfloat16"} <= set(types["dtype"])
    assert "cudagraph-capture-sizes" not in types


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


def test_a_part_in_an_arms_configuration_counts_like_a_flag() -> None:
    def configured(share: float) -> Study:
        arms = [{"name": name, "config": {"gpu_memory_utilization": share}} for name in ("plain", "draft")]
        return study(arms=[arms[0] | {"baseline": True}, arms[1]], order="side_by_side")

    assert list(side_by_side_problems(configured(0.45), has_gpu=True)) == []
    ((_, sentence),) = side_by_side_problems(configured(0.9), has_gpu=True)
    assert "would take 1.8 of the GPU's memory ('plain' 0.9, 'draft' 0.9)" in sentence


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
