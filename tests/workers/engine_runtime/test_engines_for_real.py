"""Real vLLM asked for what it has and started from a YAML file, and assisted generation of real transformers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs.engines.capabilities import capabilities
from jobs.submission import check_study
from lab.errors import StudyError
from tests.workers.engine_runtime.stand_ins import bundles, grown, worked
from tests.workers.homes import REPOSITORY, Home, link_reference_models, new_home
from warehouse.settings import Settings

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

#: As of another version, over the environment of this one.
SECOND_TABLE = """
[vllm-again]
kind = "vllm"
command = ["{engines}/vllm/bin/vllm", "serve"]
[vllm-again.cpu_environment]
VLLM_CPU_KVCACHE_SPACE = "1"
"""
DRAFT = {"method": "draft_model", "model": "reference-draft", "num_speculative_tokens": 3}
LOOKUP = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3}
SHORT = {"workloads": [{"category": "code", "output_tokens": 24}], "loads": [{"max_concurrency": 1, "num_prompts": 3}]}


@pytest.fixture
def real_home(tmp_path: Path, migrated: Path) -> Iterator[Home]:
    """With this checkout's engines and a second table, and the reference models prepared."""
    engines = tmp_path / "both.toml"
    engines.write_text((REPOSITORY / "engines.toml").read_text() + SECOND_TABLE)
    ours = {"engines_file": engines, "engines_dir": Settings().engines_dir.absolute()}
    with new_home(tmp_path, migrated, **ours) as it:
        link_reference_models(it)
        yield it


def test_vllm_is_asked_for_its_flags_and_methods_and_then_remembered(real_home: Home) -> None:
    has = capabilities(real_home.settings, "vllm")
    assert has.version == "0.32.0+cpu"
    assert {"draft_model", "ngram", "eagle", "eagle3", "medusa", "mtp"} <= set(has.methods)
    assert not {"ngram_gpu", "suffix"} & set(has.methods)  # no GPU, and arctic-inference is not installed
    assert has.flags is not None
    assert {"max-model-len", "no-enable-prefix-caching", "speculative-config"} <= set(has.flags)
    began_s = time.monotonic()
    assert capabilities(real_home.settings, "vllm-again").flags == has.flags
    print(f"remembered in {time.monotonic() - began_s:.2f} s")
    arms = [{"name": "a", "baseline": True, "flags": {"max_modellen": 512, "tensor_parallel_size": 2}}]
    arms += [{"name": "b", "speculation": DRAFT | {"method": "eagle2"}}]
    with pytest.raises(StudyError) as refused:
        check_study(real_home.settings, real_home.study(target="reference", arms=arms, **SHORT))
    problems = dict(refused.value.problems)
    assert "did you mean max_model_len" in problems["arms[0].flags.max_modellen"]
    assert "needs 2 GPUs, and the host has none" in problems["arms[0].flags"]
    assert "did you mean eagle?" in problems["arms[1].speculation.method"]


def test_vllm_runs_with_a_yaml_file_flags_and_environment_from_a_second_table(real_home: Home) -> None:
    config = {"max-model-len": 512, "enforce-eager": True, "no-enable-prefix-caching": True, "seed": 7}
    arm: dict[str, Any] = {"name": "file", "engine": "vllm-again", "baseline": True, "config": config}
    arm |= {"flags": {"max_num_seqs": 5}, "environment": {"OMP_NUM_THREADS": "1"}, "speculation": LOOKUP}
    job = worked(real_home, target="reference", arms=[arm], **SHORT)
    assert (job.state, job.error) == ("done", None)
    run = bundles(real_home, "file")[0].run
    around = run.circumstances
    assert around.engine_version is not None
    assert around.engine_version.startswith("0.32.0")
    assert around.environment["OMP_NUM_THREADS"] == "1"
    effective = around.effective_config
    assert (effective["enforce_eager"], effective["seed"], effective["enable_prefix_caching"]) == ("True", "7", "False")
    assert "'max_num_seqs': 5" in effective["non_default_args"]
    assert grown(run, "generation_tokens") == 72


def test_assisted_generation_is_measured_and_greedy_outputs_are_the_targets_own(real_home: Home) -> None:
    arms = [
        {"name": "plain", "engine": "transformers"},
        {"name": "assistant", "engine": "transformers", "speculation": DRAFT},
        {"name": "lookup", "engine": "transformers", "speculation": LOOKUP},
    ]
    job = worked(real_home, target="reference", arms=arms, engine_flags={"dtype": "float32"}, **SHORT)
    assert (job.state, job.error) == ("done", None)
    outputs = {}
    for arm in ("plain", "assistant", "lookup"):
        measured = bundles(real_home, arm)[0]
        outputs[arm] = {request.prompt_id: request.output_text for request in measured.requests}
        assert [request.completion_tokens for request in measured.requests] == [24] * 3
        assert grown(measured.run, "generation_tokens") == 72
        assert measured.run.circumstances.engine_version == "5.19.0"
        assert measured.run.circumstances.effective_config["dtype"] == "float32"
        if arm == "assistant":
            drafts = [request.spec_drafts for request in measured.requests]
            assert all(drafts)
            assert grown(measured.run, "num_drafts") == sum(filter(None, drafts))
        print(f"{arm}: {72 / (measured.run.duration_s or 0):.1f} tok/s, drafts {grown(measured.run, 'num_drafts')}")
    assert outputs["assistant"] == outputs["plain"]
    assert outputs["lookup"] == outputs["plain"]
