"""TensorRT-LLM against a process that speaks its protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.errors import StudyError
from tests.jobs.engines.commands import words_of
from tests.warehouse.runs import records
from tests.workers.engine_runtime.stand_ins import PLAIN, add_draft, add_stand_in, bundles, grown, worked
from tests.workers.homes import Home

DRAFT = {"method": "draft_model", "num_speculative_tokens": 3}


def written(folder: Path, **arm: object) -> tuple[list[str], dict[str, Any]]:
    """The words of the command, and what its YAML file says."""
    words = words_of("tensorrt_llm", folder, arm)
    return words, yaml.safe_load(Path(words[words.index("--extra_llm_api_options") + 1]).read_text())


@pytest.fixture
def trt_home(home: Home) -> Home:
    add_stand_in(home, "tensorrt_llm")
    return home


def test_the_file_of_an_arm_without_speculation_is_its_config(tmp_path: Path) -> None:
    config = {"enable_attention_dp": False, "cuda_graph_config": {"max_batch_size": 10, "enable_padding": True}}
    words, file = written(
        tmp_path, config=config, flags={"max_batch_size": 10, "kv-cache-free-gpu-memory-fraction": 0.8}
    )
    assert file == {"return_perf_metrics": True} | config
    assert words[-3:] == ["--backend=pytorch", "--max_batch_size=10", "--kv_cache_free_gpu_memory_fraction=0.8"]


def test_eagle3_is_told_in_words_that_old_and_new_releases_know(tmp_path: Path) -> None:
    _, file = written(tmp_path, speculation=DRAFT | {"method": "eagle3", "model": "owner/head"})
    assert file["speculative_config"] == {
        "decoding_type": "Eagle",
        "max_draft_len": 3,
        "speculative_model_dir": "owner/head",
    }
    assert "disable_overlap_scheduler" not in file


def test_a_number_in_the_config_stays_a_number(tmp_path: Path) -> None:
    """YAML 1.1 takes 1e-07 without a point for a word."""
    assert written(tmp_path, config={"tolerance": 1e-7})[1]["tolerance"] == 1e-7


def test_prompt_lookup_and_draft_models_take_turns_without_overlap(tmp_path: Path) -> None:
    lookup = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 2, "options": {"is_keep_all": True}}
    _, file = written(tmp_path, speculation=lookup)
    assert file["disable_overlap_scheduler"] is True
    assert file["speculative_config"] == {
        "decoding_type": "NGram",
        "max_draft_len": 4,
        "max_matching_ngram_size": 2,
        "is_keep_all": True,
    }


def test_a_study_is_measured_under_the_servers_name_of_the_model(trt_home: Home) -> None:
    draft = DRAFT | {"model": add_draft(trt_home)}
    arms = [
        PLAIN | {"engine": "tensorrt_llm"},
        {"name": "draft", "engine": "tensorrt_llm", "speculation": draft, "config": {"enable_attention_dp": False}},
    ]
    job = worked(trt_home, arms=arms)
    assert (job.state, job.error) == ("done", None)
    drafted = bundles(trt_home, "draft")[0]
    assert drafted.run.circumstances.engine_version == "1.3.0rc1"
    assert drafted.run.circumstances.effective_config["enable_attention_dp"] == "false"
    assert '"max_draft_len": 3' in drafted.run.circumstances.effective_config["speculative_config"]
    assert grown(drafted.run, "generation_tokens") == 24
    assert [grown(drafted.run, name) for name in ("num_drafts", "num_draft_tokens", "num_accepted_tokens")] == [
        12,
        36,
        12,
    ]
    assert drafted.run.counters_after is not None
    assert drafted.run.counters_after.num_accepted_tokens_per_position is not None
    assert drafted.run.counters_after.num_accepted_tokens_per_position[1:] == (0.0, 0.0)
    assert [request.spec_drafts for request in records(drafted.requests)] == [None] * 3  # its answers do not tell
    assert grown(bundles(trt_home, "plain")[0].run, "num_drafts") is None


def test_a_draft_model_that_cannot_be_deployed_fails_with_its_reason(trt_home: Home) -> None:
    arm = {"name": "draft", "engine": "tensorrt_llm", "speculation": DRAFT | {"model": "owner/no-such-head"}}
    assert worked(trt_home, arms=[PLAIN, arm]).state == "done"
    failed = bundles(trt_home, "draft")[0].run
    assert failed.status == "failed"
    assert "ValueError: Unrecognized model in owner/no-such-head" in (failed.error or "")


def test_what_drafthouse_writes_into_its_file_is_refused_there(trt_home: Home) -> None:
    arm = {"name": "a", "engine": "tensorrt_llm", "config": {"speculative_config": {"max_draft_len": 3}}}
    with pytest.raises(StudyError) as refused:
        trt_home.submit(arms=[PLAIN, arm | {"flags": {"extra_llm_api_options": "x.yaml"}}])
    problems = dict(refused.value.problems)
    assert "set speculation in the arm" in problems["arms[1].config.speculative_config"]
    assert "the arm's config" in problems["arms[1].flags.extra_llm_api_options"]
