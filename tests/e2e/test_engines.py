"""Real vLLM asked for what it has and started with a configuration, and assisted generation of real transformers."""

from __future__ import annotations

import pytest

from jobs.engines.capabilities import capabilities
from jobs.submission import check_study
from lab.errors import StudyError
from services.doctor import examine
from tests.e2e.conftest import Probed
from tests.warehouse.runs import records
from tests.workers.engine_runtime.stand_ins import grown
from tests.workers.homes import REPOSITORY
from warehouse.bundles.run_bundle import LOG_FILE, Bundle
from workers.engine_runtime.install import VLLM_VERSION

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]

DRAFT = {"method": "draft_model", "model": "reference-draft", "num_speculative_tokens": 3}
SHORT = {"workloads": [{"category": "code", "output_tokens": 24}], "loads": [{"max_concurrency": 1, "num_prompts": 3}]}


def test_vllm_is_asked_for_its_flags_and_methods_and_then_remembered(probed: Probed) -> None:
    home, has = probed.home, probed.answer
    assert has.version == f"{VLLM_VERSION}+cpu"
    assert {"draft_model", "ngram", "eagle", "eagle3", "medusa", "mtp"} <= set(has.methods)
    assert not {"ngram_gpu", "suffix"} & set(has.methods)  # no GPU, and arctic-inference is not installed
    assert has.flags is not None
    assert {"max-model-len", "no-enable-prefix-caching", "speculative-config"} <= set(has.flags)
    assert has.flag_types is not None
    assert (has.flag_types["enforce-eager"], has.flag_types["tensor-parallel-size"]) == ("switch", "integer")
    assert has.takes("per-request-spec-decode-metrics")
    (remembered,) = (home.settings.home / "engines" / "capabilities").glob("*.json")
    written_ns = remembered.stat().st_mtime_ns
    assert capabilities(home.settings, "vllm-again").flags == has.flags
    assert list(remembered.parent.iterdir()) == [remembered]
    assert remembered.stat().st_mtime_ns == written_ns
    arms = [{"name": "a", "baseline": True, "flags": {"max_modellen": 512, "tensor_parallel_size": 2}}]
    arms += [{"name": "b", "speculation": DRAFT | {"method": "eagle2"}}]
    with pytest.raises(StudyError) as refused:
        check_study(home.settings, home.study(target="reference", arms=arms, **SHORT))
    problems = dict(refused.value.problems)
    assert "did you mean max_model_len" in problems["arms[0].flags.max_modellen"]
    assert "needs 2 GPUs, but the host has none" in problems["arms[0].flags"]
    assert "did you mean eagle?" in problems["arms[1].speculation.method"]


def test_the_doctor_says_an_installed_engines_version_and_its_ways_to_speculate(
    probed: Probed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(REPOSITORY)
    by_subject = {finding.what: finding for finding in examine(probed.home.settings)}
    assert by_subject["engine vllm"].ok, by_subject["engine vllm"]
    assert "eagle3" in by_subject["engine vllm"].found
    assert by_subject["engine transformers"].ok
    assert by_subject["app database"].ok


def test_vllm_runs_with_a_configuration_flags_and_environment_of_a_second_table(vllm_study: list[Bundle]) -> None:
    for bundle in vllm_study:
        run, around = bundle.run, bundle.run.circumstances
        assert around.engine_version is not None
        assert around.engine_version.startswith(VLLM_VERSION)
        assert around.environment["OMP_NUM_THREADS"] == "1"
        effective = around.effective_config
        assert [effective[name] for name in ("enforce_eager", "seed", "enable_prefix_caching")] == [
            "True",
            "7",
            "False",
        ]
        assert "'max_num_seqs': 5" in effective["non_default_args"]
        log = (bundle.folder / LOG_FILE).read_text(encoding="utf-8")
        assert '"GET /v1/models HTTP/1.1" 401' in log  # a request without the engine's key
        assert '"GET /metrics HTTP/1.1" 200' in log
        assert grown(run, "generation_tokens") == bundle.requests.numbers("completion_tokens").sum()


def test_assisted_generation_is_measured_and_greedy_outputs_are_the_targets_own(assisted_study: list[Bundle]) -> None:
    assert len(assisted_study) == 4
    outputs: dict[str, dict[str, str]] = {"no draft": {}, "draft model k=5": {}}
    for bundle in assisted_study:
        run, arm, tokens = bundle.run, bundle.run.arm.name, bundle.run.workload.output_tokens
        outputs[arm] |= {
            f"{run.workload.name} {record.prompt_id}": record.output_text for record in records(bundle.requests)
        }
        assert [request.completion_tokens for request in records(bundle.requests)] == [tokens] * run.load.num_prompts
        assert grown(run, "generation_tokens") == tokens * run.load.num_prompts
        assert run.circumstances.engine_version == "5.19.0"
        assert run.circumstances.effective_config["dtype"] == "float32"
        if arm == "draft model k=5":
            drafts = [request.spec_drafts for request in records(bundle.requests)]
            assert all(drafts)
            assert grown(run, "num_drafts") == sum(filter(None, drafts))
        rate = tokens * run.load.num_prompts / (run.duration_s or 0)
        print(f"{arm} {run.workload.name}: {rate:.1f} tok/s, drafts {grown(run, 'num_drafts')}")
    assert len(outputs["no draft"]) == 4
    assert outputs["draft model k=5"] == outputs["no draft"]
