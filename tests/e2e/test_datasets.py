"""Every kind of dataset through real vLLM on a reference model: what was asked is what was served."""

from __future__ import annotations

import pytest

from host.settings import Settings
from jobs.datasets.loader import load_prompts
from lab.metrics.records import RequestRecord
from lab.study import Workload
from tests.e2e.conftest import PROMPTS, SMALL_TARGET, WORKLOADS
from tests.warehouse.runs import records
from tests.workers.homes import Home
from warehouse.bundles.run_bundle import Bundle

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]


def test_every_kind_of_dataset_is_served_with_the_lengths_it_asks_for(
    real_home: Home, datasets_study: list[Bundle]
) -> None:
    assert len(datasets_study) == len(WORKLOADS) + 1
    for bundle in datasets_study:
        _was_served(real_home.settings, bundle.run.workload, list(records(bundle.requests)))


def _was_served(settings: Settings, workload: Workload, requests: list[RequestRecord]) -> None:
    prompts = load_prompts(settings, workload, PROMPTS, seed=0, target=SMALL_TARGET)
    print(workload.name, [(request.prompt_tokens, request.completion_tokens) for request in requests])
    assert [request.prompt_id for request in requests] == [prompt.prompt_id for prompt in prompts]
    lengths = [min(prompt.output_tokens or workload.output_tokens, workload.output_tokens) for prompt in prompts]
    assert [request.requested_output_tokens for request in requests] == lengths
    assert [request.completion_tokens for request in requests] == lengths
    for prompt, request in zip(prompts, requests, strict=True):
        assert prompt.token_ids is None or request.prompt_tokens == len(prompt.token_ids)
