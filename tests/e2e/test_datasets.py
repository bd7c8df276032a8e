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
    real_home: Home, vllm_study: list[Bundle]
) -> None:
    assert len(vllm_study) == len(WORKLOADS) + 1
    for bundle in vllm_study:
        requests = {request.prompt_id: request for request in records(bundle.requests)}
        assert len(requests) == len(bundle.requests)
        _was_served(real_home.settings, bundle.run.workload, requests)


def _was_served(settings: Settings, workload: Workload, requests: dict[str, RequestRecord]) -> None:
    prompts = load_prompts(settings, workload, PROMPTS, seed=0, target=SMALL_TARGET)
    assert requests.keys() == {prompt.prompt_id for prompt in prompts}
    for prompt in prompts:
        request = requests[prompt.prompt_id]
        length = min(prompt.output_tokens or workload.output_tokens, workload.output_tokens)
        assert (request.requested_output_tokens, request.completion_tokens) == (length, length), workload.name
        assert prompt.token_ids is None or request.prompt_tokens == len(prompt.token_ids)
