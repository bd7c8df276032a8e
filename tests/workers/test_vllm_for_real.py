"""The whole way with real vLLM and the reference models: crash, recovery, measurement."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workers.homes import REPOSITORY, Home, celery_worker, link_reference_models, new_home, until
from tests.workers.valkey import Broker
from warehouse.bundles.run_bundle import find_bundles, read_bundle
from warehouse.settings import Settings

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]

SERVING_S = 600.0  # three imports of seconds each on a slow machine, and a model to load
DRAFT = {"method": "draft_model", "model": "reference-draft", "num_speculative_tokens": 3}
STUDY = {
    "target": "reference",
    "arms": [{"name": "plain"}, {"name": "drafted", "speculation": DRAFT}],
    "workloads": [{"category": "code", "output_tokens": 32}],
    "loads": [{"max_concurrency": 1, "num_prompts": 4}, {"max_concurrency": 4, "num_prompts": 8}],
    "engine_flags": {"enforce_eager": True, "max_model_len": 512},
}


@pytest.fixture
def real_home(tmp_path: Path, migrated: Path, broker: Broker) -> Iterator[Home]:
    """With this checkout's own engines.toml, and the reference models prepared."""
    ours = {"engines_file": REPOSITORY / "engines.toml", "engines_dir": Settings().engines_dir.absolute()}
    with new_home(tmp_path, migrated, broker_url=broker.url, lease_s=5.0, **ours) as it:
        link_reference_models(it)
        yield it


def test_a_study_survives_kill_9_of_its_worker_and_measures_real_speculation(real_home: Home) -> None:
    home = real_home
    job_id = home.submit(**STUDY)
    with celery_worker(home) as first:
        until(lambda: len(home.runs()) >= 1, "a run", within_s=SERVING_S)
        engine = home.engine_processes()
        assert {"VLLM::EngineCore"} <= {process.cmdline()[0] for process in engine}
        first.send_signal(signal.SIGKILL)
        first.wait()
    took_s = until(lambda: not home.engine_processes(), "vLLM is gone with its worker", within_s=120)
    print(f"kill -9 of the worker to the end of vLLM: {took_s:.1f} s")
    with celery_worker(home):
        until(lambda: home.job(job_id).state in ("done", "failed"), "the job ends", within_s=2 * SERVING_S)
    assert (home.job(job_id).state, home.job(job_id).error) == ("done", None)
    bundles = [read_bundle(folder) for folder in find_bundles(home.settings.bundles)]
    assert len({bundle.run.cell_key for bundle in bundles}) == len(bundles) == 4
    idle = [run.idle_before_s for run in (bundle.run for bundle in bundles) if run.idle_before_s is not None]
    assert min(idle) >= 0
    for bundle in bundles:
        run = bundle.run
        print(
            f"{run.arm.name} {run.load.name}: {run.duration_s} s, idle {run.idle_before_s}, {run.circumstances.start_s}"
        )
        assert [request.completion_tokens for request in bundle.requests] == [32] * run.load.num_prompts
        assert [len(request.output_token_ids or ()) for request in bundle.requests] == [32] * run.load.num_prompts
        assert run.counters_before is not None
        assert run.counters_after is not None
        generated = (run.counters_after.generation_tokens or 0) - (run.counters_before.generation_tokens or 0)
        assert generated == 32 * run.load.num_prompts
        assert run.circumstances.engine_version is not None
        assert run.circumstances.engine_version.startswith("0.32.0")
        assert run.circumstances.effective_config["enforce_eager"] == "True"
        assert run.circumstances.target_digest is not None
        drafted = run.arm.name == "drafted"
        assert all((request.spec_drafts is not None) == drafted for request in bundle.requests)
        drafts = (run.counters_after.num_drafts or 0) - (run.counters_before.num_drafts or 0)
        assert (drafts > 0) == drafted
        hits = (run.counters_after.prefix_cache_hits or 0) - (run.counters_before.prefix_cache_hits or 0)
        assert hits == 0  # the same prompts were sent in the cell before, but the cache was reset
