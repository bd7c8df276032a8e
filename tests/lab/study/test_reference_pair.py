"""A study scaled down to the reference pair keeps its shape."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from lab.study import Load, Study
from lab.study.parsing import study_from_toml, study_to_toml
from lab.study.plan import plan
from lab.study.reference_pair import reference_version
from tests.lab.studies import study
from tests.lab.study.generated import studies

HUB = "owner/model"


def small(**changes: Any) -> Study:
    return reference_version(study(**({"target": HUB} | changes)))


def drafting(method: str, model: str | None = None, tokens: int = 3, **arm: Any) -> dict[str, Any]:
    speculation = {"method": method, "num_speculative_tokens": tokens} | ({"model": model} if model else {})
    return {"name": f"{method} {model} {tokens} {arm}", "speculation": speculation, **arm}


def drafts(scaled: Study) -> list[tuple[str, str | None, int]]:
    speculations = [arm.speculation for arm in scaled.arms if arm.speculation]
    return [(draft.method, draft.model, draft.num_speculative_tokens) for draft in speculations]


PLAIN = {"name": "plain", "baseline": True}


@given(studies)
def test_any_study_can_be_scaled_down_and_stored(original: Study) -> None:
    scaled = reference_version(original)
    assert scaled.target == "reference"
    assert study_from_toml(study_to_toml(scaled)) == scaled
    assert len(plan(scaled)) <= len(plan(original))
    if original.target != "reference":
        assert scaled.baseline.baseline


def test_a_study_of_the_reference_model_is_itself() -> None:
    assert reference_version(study()) == study()


def test_its_name_and_place_say_what_it_is() -> None:
    scaled = small(name="mine", hardware="H200", repeats=5, price_usd_per_hour=2.0)
    assert (scaled.name, scaled.hardware, scaled.repeats, scaled.price_usd_per_hour) == (
        "mine (reference)",
        None,
        1,
        2.0,
    )


def test_the_first_draft_becomes_the_head_and_others_the_draft_model() -> None:
    heads = [drafting("eagle3", name, tokens) for name in ("a", "b") for tokens in (1, 3)]
    scaled = small(arms=[PLAIN, *heads])
    assert drafts(scaled) == [
        *(("eagle3", "reference-eagle3", tokens) for tokens in (1, 3)),
        *(("draft_model", "reference-draft", tokens) for tokens in (1, 3)),
    ]
    assert [arm.name for arm in scaled.arms][:3] == ["no draft", "EAGLE-3 k=1", "EAGLE-3 k=3"]


def test_a_draft_model_stays_one_and_what_looks_up_stays_that() -> None:
    scaled = small(arms=[PLAIN, drafting("draft_model", "a"), drafting("ngram"), drafting("suffix", tokens=5)])
    assert drafts(scaled) == [("draft_model", "reference-draft", 3), ("ngram", None, 3), ("ngram", None, 5)]


def test_arms_that_become_equal_are_measured_once() -> None:
    arms = [{"name": "a"}, {"name": "b", "flags": {"enforce-eager": True}, "baseline": True}]
    scaled = small(arms=arms)
    assert [(arm.name, arm.baseline) for arm in scaled.arms] == [("no draft", True)]


def test_engines_that_need_a_gpu_become_transformers() -> None:
    arms = [PLAIN, {"name": "t", "engine": "tensorrt_llm"}, drafting("eagle3", "a", engine="sglang")]
    scaled = small(arms=arms)
    assert [arm.engine for arm in scaled.arms] == ["vllm", "transformers", "transformers"]
    assert drafts(scaled) == [("draft_model", "reference-draft", 3)]
    assert scaled.arms[1].name == "transformers, no draft"


def test_a_server_somewhere_else_becomes_an_engine_of_this_host() -> None:
    server = {"base_url": "http://elsewhere:8000", "api_key": "key"}
    (arm,) = small(arms=[{"name": "e", "engine": "endpoint", "server": server}]).arms
    assert (arm.engine, arm.server) == ("vllm", None)


def test_a_sweep_stays_one_with_fewer_streams() -> None:
    scaled = small(loads=[{"pattern": "concurrency_sweep"}])
    assert [load.max_concurrency for load in scaled.loads] == [1, 2, 4, 5, 6, 8]
    assert [load.name for load in scaled.loads] == [f"concurrency_sweep c{n}" for n in (1, 2, 4, 5, 6, 8)]
    searched = {"label": "most c100", "max_concurrency": 100, "num_prompts": 200, "find": "concurrency"}
    assert small(loads=[searched], slo={"ttft_ms": 500}).loads[0].name == "most c6"


def test_a_pattern_keeps_its_name_rate_and_burstiness() -> None:
    (load,) = small(loads=[{"pattern": "burstiness_high"}]).loads
    assert (load.name, load.request_rate_rps, load.burstiness) == ("burstiness_high", 64, 0.2)
    assert (load.max_concurrency, load.num_prompts) == (4, 4)


@pytest.mark.parametrize(
    ("given", "scaled"),
    [
        ({"dataset": "random_m"}, "random/all/160/8"),
        ({"dataset": "random", "input_tokens": 64, "output_tokens": 4096}, "random/all/8/32"),
        ({"dataset": "sharegpt", "output_tokens": 1024, "own_output_lengths": True}, "sharegpt_sample/all/own-16"),
        ({"dataset": "spec_bench", "category": "qa"}, "spec_bench_sample/qa/8"),
        ({"dataset": "story", "output_tokens": 2048}, "story/all/32"),
        (
            {"dataset": "prefix_repetition", "prefix_tokens": 1280, "num_prefixes": 4, "input_tokens": 64},
            "prefix_repetition/all/20/4/8/8",
        ),
        (
            {"dataset": "mt_bench", "sessions": {"max_turns": 2, "think": "fixed", "think_s": 9.0}},
            "mt_bench_sample/all/sessions-own-2-none/8",
        ),
    ],
)
def test_lengths_shrink_and_datasets_that_must_be_fetched_become_their_samples(
    given: dict[str, Any], scaled: str
) -> None:
    assert small(workloads=[given]).workloads[0].name == scaled


def test_a_tuning_stays_one_with_each_draft_and_concurrency_once() -> None:
    """What is only measured at its end is left out."""
    arms = [PLAIN, *(drafting("draft_model", name, tokens) for name, tokens in (("a", 2), ("b", 4)))]
    arms = [arm | {"name": name} for arm, name in zip(arms, ("plain", "one", "two"), strict=True)]
    loads = [{"max_concurrency": load, "num_prompts": load, "label": f"at {load}"} for load in (1, 2, 64)]
    beside = drafting("eagle3", "c") | {"name": "adaptive"}
    scaled = small(arms=[*arms, beside], loads=loads, tune={"drafted_tokens": [1, 3], "beside": ["adaptive"]})
    assert scaled.tune is not None
    assert (scaled.tune.drafted_tokens, scaled.tune.beside) == ((1, 3), ())
    assert drafts(scaled) == [("draft_model", "reference-draft", 3)]
    assert [load.max_concurrency for load in scaled.loads] == [1, 5]


def test_what_has_no_size_stays_and_an_engines_flags_become_those_of_the_pair() -> None:
    stays: dict[str, Any] = {"order": "side_by_side", "fresh_starts": "never", "seed": 7, "endpoint": "chat"}
    flags = {"max-model-len": 1024, "max-num-seqs": 32, "enforce-eager": True, "dtype": "float32"}
    scaled = small(slo={"ttft_ms": 100.0}, engine_flags={"quantization": "fp8"}, **stays)
    assert {name: getattr(scaled, name) for name in stays} == stays
    assert (scaled.slo and scaled.slo.ttft_ms, scaled.engine_flags) == (100.0, {})
    assert scaled.arms[0].flags == flags | {"enable-prefix-caching": False}


def test_arms_that_differ_in_what_a_cpu_has_too_stay_apart() -> None:
    looks_up = {"method": "ngram", "num_speculative_tokens": 4}
    scaled = small(
        arms=[
            PLAIN | {"config": {"async-scheduling": True, "kv-cache-dtype": "fp8"}},
            {"name": "short", "speculation": looks_up},
            {"name": "long", "speculation": looks_up | {"prompt_lookup_min": 2, "prompt_lookup_max": 5}},
        ]
    )
    assert [arm.name for arm in scaled.arms] == ["no draft", "n-gram k=4", "n-gram k=4 (2)"]
    assert scaled.arms[0].config == {"async-scheduling": True}
    assert scaled.arms[2].speculation is not None
    assert scaled.arms[2].speculation.prompt_lookup_max == 5


def test_a_search_and_a_rate_stay_with_fewer_streams_and_prompts() -> None:
    search = {"max_concurrency": 100, "num_prompts": 500, "find": "rate", "find_from": 2.0}
    rated: dict[str, Any] = {
        "max_concurrency": 50,
        "num_prompts": 60,
        "label": "fifty",
        "request_rate_rps": 3.0,
        "burstiness": 0.5,
    }
    assert small(loads=[search, rated], slo={"ttft_ms": 100.0}).loads == (
        Load(max_concurrency=6, num_prompts=40, find="rate"),
        Load(**rated | {"max_concurrency": 5, "num_prompts": 5}),
    )


def test_sampled_answers_become_greedy_and_school_mathematics_a_sample_with_its_score() -> None:
    sampling = {"temperature": 1.0, "top_p": 0.9, "seed": 4}
    scaled = small(sampling=sampling, workloads=[{"dataset": "gsm8k", "output_tokens": 2048, "score": "number"}])
    assert scaled.sampling.model_dump() == sampling | {"temperature": 0.0}
    assert [(each.dataset, each.score) for each in scaled.workloads] == [("gsm8k_sample", "number")]
