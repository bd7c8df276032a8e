"""A run in vLLM's own format, key by key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from host.settings import Settings
from interchange.export import export
from lab.study import Load
from tests.warehouse.runs import BASELINE_ARM, counters, failed_request, request, write_run
from warehouse.ingest.service import ingest_all
from warehouse.queries.connect import open_warehouse


@pytest.fixture(scope="module")
def objects(shared: Settings) -> list[dict[str, Any]]:
    """Of a run with a draft, of one at a rate with failed requests, and of one whose counts are unknown."""
    after = counters(num_drafts=4, num_draft_tokens=12, num_accepted_tokens=6)
    write_run(shared.bundles, counters_before=counters(), counters_after=after)
    rated = Load(max_concurrency=2, num_prompts=3, request_rate_rps=2.5, burstiness=0.5)
    never_ended = request(index=2, end_s=None, completion_tokens=None)
    requests = (request(), failed_request(index=1, sent_s=None), never_ended)
    write_run(shared.bundles, requests, run_id="run-2", load=rated, endpoint="chat", arm=BASELINE_ARM, repeat=1)
    write_run(shared.bundles, (request(), request(index=1, completion_tokens=None)), run_id="run-3", repeat=2)
    write_run(shared.bundles, (), run_id="run-4", status="failed", error="died", repeat=3)
    ingest_all(shared)
    path = shared.home.parent / "results.jsonl"
    with open_warehouse(shared.warehouse_file) as connection:
        assert export(shared.bundles, connection, "job-1", path) == 3
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


OF_ONE = {"mean": 1.0, "median": 1.0, "p50": 1.0, "p90": 1.0, "p95": 1.0, "p99": 1.0}
STATISTICS = {
    **{f"{word}_ttft_ms": 100.0 for word in OF_ONE},
    **{f"{word}_tpot_ms": 100.0 for word in OF_ONE},
    **{f"{word}_e2el_ms": 500.0 for word in OF_ONE},
    "mean_itl_ms": 150.0,
    "median_itl_ms": 150.0,
    "p50_itl_ms": 150.0,
    "p90_itl_ms": 190.0,
    "p95_itl_ms": 195.0,
    "p99_itl_ms": 199.0,
}
FIRST: dict[str, Any] = {
    "date": "20261121-040000",
    "endpoint_type": "openai",
    "backend": "openai",
    "label": None,
    "tokenizer_id": "reference",
    "request_rate": "inf",
    "model_id": "reference",
    "num_prompts": 2,
    "burstiness": 1.0,
    "max_concurrency": 1,
    "duration": 0.6,
    "completed": 1,
    "failed": 0,
    "total_input_tokens": 10,
    "total_output_tokens": 4,
    "request_throughput": 1 / 0.6,
    "request_goodput": None,
    "output_throughput": 4 / 0.6,
    "total_token_throughput": 14 / 0.6,
    "run_id": "run-1",
    "arm": "draft",
    "method": "draft_model",
    "draft_model": "reference-draft",
    "num_speculative_tokens": 3,
    "engine": "vllm",
    "engine_version": "0.32.0",
    "hardware": "2-core processor",
    "spec_decode_acceptance_rate": 50.0,
    "spec_decode_num_drafts": 4,
    "spec_decode_draft_tokens": 12,
    "spec_decode_accepted_tokens": 6,
    "spec_decode_acceptance_length": 2.5,
    "spec_decode_per_position_acceptance_rates": [0.0, 0.0, 0.0],
    "input_lens": [10],
    "output_lens": [4],
    "ttfts": [0.1],
    "itls": [[0.2, 0.1]],
    "latencies": [0.4],
    "start_times": [0.1],
    "generated_texts": ["return 1"],
    "errors": [""],
}
SECOND: dict[str, Any] = {
    **{key: value for key, value in FIRST.items() if not key.startswith("spec_decode")},
    "endpoint_type": "openai-chat",
    "backend": "openai-chat",
    "request_rate": 2.5,
    "burstiness": 0.5,
    "num_prompts": 3,
    "max_concurrency": 2,
    "failed": 2,
    "run_id": "run-2",
    "arm": "no draft",
    "method": "none",
    "draft_model": None,
    "num_speculative_tokens": None,
    "input_lens": [10, 0, 10],
    "output_lens": [4, 0, 0],
    "ttfts": [0.1, 0.0, 0.0],
    "itls": [[0.2, 0.1], [], []],
    "latencies": [0.4, 0.0, 0.0],
    "start_times": [0.1, 0.0, 0.1],
    "generated_texts": ["return 1", "", ""],
    "errors": ["", "connection reset", "the request never ended"],
}


def flat(file_content: dict[str, Any]) -> dict[str, Any]:
    """Lists of lists by their places, so that numbers can be compared approximately."""
    gaps = file_content.pop("itls", [])
    return {**file_content, **{f"itls[{place}]": gap for place, gap in enumerate(gaps)}}


@pytest.mark.parametrize(("place", "expected"), [(0, FIRST), (1, SECOND)])
def test_every_key_has_vllms_name_and_unit(objects: list[dict[str, Any]], place: int, expected: dict[str, Any]) -> None:
    exported, wanted = flat(dict(objects[place])), flat({**expected, **STATISTICS})
    assert set(exported) == set(wanted)
    for key, value in wanted.items():
        is_text = value is None or isinstance(value, str) or (isinstance(value, list) and "" in value)
        assert exported[key] == (value if is_text or key == "generated_texts" else pytest.approx(value)), key


def test_requests_that_do_not_fit_into_arrays_are_left_out(objects: list[dict[str, Any]]) -> None:
    third = objects[2]
    assert third["run_id"] == "run-3"
    assert not {"ttfts", "itls", "input_lens", "errors"} & set(third)
    assert (third["completed"], third["total_output_tokens"], third["mean_ttft_ms"]) == (2, None, pytest.approx(100.0))
