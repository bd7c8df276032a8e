"""Every kind of dataset through real vLLM on the reference model: what was asked is what was served."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs.datasets.loader import load_prompts
from lab.metrics.records import RequestRecord
from lab.study import Workload
from tests.jobs.datasets.rows import write_rows
from tests.workers.homes import REPOSITORY, Home, link_reference_models, new_home
from warehouse.bundles.run_bundle import find_bundles, read_bundle
from warehouse.settings import Settings
from workers.worker import Worker

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]

PROMPTS = 4
OWN = {"own_output_lengths": True, "output_tokens": 24}
WORKLOADS: list[dict[str, Any]] = [
    {"dataset": "reference", "output_tokens": 8},
    {"dataset": "random", "input_tokens": 100, "output_tokens": 8},
    {"dataset": "prefix_repetition", "prefix_tokens": 64, "num_prefixes": 2, "input_tokens": 16, "output_tokens": 8},
    {"dataset": "story", "output_tokens": 8},
    {"dataset": "summarisation_sample", "output_tokens": 8},
    {"dataset": "sharegpt_sample", **OWN},
    {"dataset": "spec_bench_sample", "category": "qa", "output_tokens": 8},
    {"dataset": "burstgpt_sample", **OWN},
    {"dataset": "swe_bench_sample", **OWN},
    {"dataset": "mlperf_summarisation_sample", **OWN},
]
FLAGS = {
    "enforce_eager": True,
    "dtype": "float32",
    "max_model_len": 1024,
    "max_num_seqs": 4,
    "enable_prefix_caching": False,
}


@pytest.fixture
def real_home(tmp_path: Path, migrated: Path) -> Iterator[Home]:
    """With this checkout's own engines.toml, and the reference models prepared."""
    ours = {"engines_file": REPOSITORY / "engines.toml", "engines_dir": Settings().engines_dir.absolute()}
    with new_home(tmp_path, migrated, **ours) as it:
        link_reference_models(it)
        yield it


def test_every_kind_of_dataset_is_served_with_the_lengths_that_were_asked_for(real_home: Home) -> None:
    home = real_home
    own = write_rows(
        home.folder / "own.jsonl", [{"prompt": f"def f{n}(", "output_tokens": n + 3} for n in range(PROMPTS)]
    )
    job_id = home.submit(
        target="reference",
        arms=[{"name": "plain"}],
        workloads=[*WORKLOADS, {"dataset": own, **OWN}],
        loads=[{"max_concurrency": PROMPTS, "num_prompts": PROMPTS}],
        engine_flags=FLAGS,
    )
    Worker(home.settings).work()
    assert (home.job(job_id).state, home.job(job_id).error) == ("done", None)
    bundles = [read_bundle(folder) for folder in find_bundles(home.settings.bundles)]
    assert len(bundles) == len(WORKLOADS) + 1
    for bundle in bundles:
        _was_served(home.settings, bundle.run.workload, list(bundle.requests))


def _was_served(settings: Settings, workload: Workload, requests: list[RequestRecord]) -> None:
    prompts = load_prompts(settings, workload, PROMPTS, seed=0, target="reference")
    print(workload.name, [(request.prompt_tokens, request.completion_tokens) for request in requests])
    assert [request.prompt_id for request in requests] == [prompt.prompt_id for prompt in prompts]
    asked = [min(prompt.output_tokens or workload.output_tokens, workload.output_tokens) for prompt in prompts]
    assert [request.requested_output_tokens for request in requests] == asked
    assert [request.completion_tokens for request in requests] == asked
    for prompt, request in zip(prompts, requests, strict=True):
        assert prompt.token_ids is None or request.prompt_tokens == len(prompt.token_ids)
