"""A run in vLLM's own format, key by key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from host.settings import Settings
from interchange.export import export
from interchange.vllm_json import vllm_results
from lab.study import Load
from tests.interchange.sample_files import SAMPLES
from tests.lab.metrics.test_rounds import REQUESTS, TWO, WINDOWS
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


#: What vLLM 0.32 wrote itself, and what it writes that no run of ours has.
REAL = json.loads((SAMPLES / "vllm-bench" / "spec-code-c4.json").read_text(encoding="utf-8"))
NOT_OURS = {"k", "queue_times", "rtfx", "max_concurrent_requests", "max_output_tokens_per_s"}
NOT_OURS |= {f"std_{name}_ms" for name in ("ttft", "tpot", "itl", "e2el")}
MORE = {"run_id", "method", "draft_model", "num_speculative_tokens", "engine", "engine_version", "hardware"}
MORE |= {"failed", *(f"p95_{name}_ms" for name in ("ttft", "tpot", "itl", "e2el"))}


def test_every_key_has_vllms_name(objects: list[dict[str, Any]]) -> None:
    first, rated, _ = objects
    assert set(first) == set(REAL) - NOT_OURS | MORE
    assert set(rated) == {name for name in first if not name.startswith("spec_decode")}
    kinds = {name: (type(value), type(first[name])) for name, value in REAL.items() if first.get(name) is not None}
    assert {name: of for name, of in kinds.items() if of[0] is not of[1]} == {}


def test_every_value_has_vllms_unit(objects: list[dict[str, Any]]) -> None:
    """Latencies of requests are in seconds, their statistics in milliseconds, and shares in percent."""
    first, rated, _ = objects
    assert (first["date"], first["backend"], first["request_rate"]) == ("20261121-040000", "openai", "inf")
    assert (first["ttfts"], first["itls"][0]) == ([pytest.approx(0.1)], pytest.approx([0.2, 0.1]))
    assert (first["latencies"], first["start_times"]) == ([pytest.approx(0.4)], [0.1])
    assert (first["mean_ttft_ms"], first["p90_itl_ms"], first["p99_e2el_ms"]) == pytest.approx((100.0, 190.0, 500.0))
    assert (first["duration"], first["output_throughput"], first["total_token_throughput"]) == pytest.approx(
        (0.6, 4 / 0.6, 14 / 0.6)
    )
    assert (first["spec_decode_acceptance_rate"], first["spec_decode_acceptance_length"]) == (50.0, 2.5)
    assert first["spec_decode_per_position_acceptance_rates"] == [0.0] * 3
    assert (rated["endpoint_type"], rated["request_rate"], rated["burstiness"]) == ("openai-chat", 2.5, 0.5)
    assert (rated["num_prompts"], rated["max_concurrency"], rated["completed"], rated["failed"]) == (3, 2, 1, 2)
    assert (rated["arm"], rated["method"], rated["draft_model"]) == ("no draft", "none", None)
    assert (rated["output_lens"], rated["ttfts"], rated["itls"][1:]) == (
        [4, 0, 0],
        pytest.approx([0.1, 0, 0]),
        [[], []],
    )
    assert rated["errors"] == ["", "connection reset", "the request never ended"]


def test_the_throughput_of_a_run_in_rounds_is_vllms_too(settings: Settings) -> None:
    """Ours leaves out the ends of each window, so that it may be more than tokens / duration, and than the total."""
    write_run(settings.bundles, REQUESTS, load=TWO, windows=WINDOWS)
    ingest_all(settings)
    with open_warehouse(settings.warehouse_file) as connection:
        (result,) = vllm_results(connection, ["job-1"])
        ((ours,),) = connection.execute("SELECT output_tok_per_s FROM results WHERE run_id = 'run-1'").fetchall()
    assert result["output_throughput"] == pytest.approx(result["total_output_tokens"] / result["duration"])
    assert result["output_throughput"] < ours


@pytest.mark.parametrize(
    ("arrivals", "rate", "burstiness"),
    [
        ({}, 2.5, 1.0),
        ({"arrivals": "constant"}, 2.5, None),
        ({"arrivals": "ramp", "ramp_to_rps": 9.0}, "missing", None),
    ],
)
def test_arrivals_that_vllm_cannot_express_are_left_out(
    settings: Settings, arrivals: dict[str, Any], rate: float | str, burstiness: float | None
) -> None:
    """A burstiness of 1 is Poisson to vLLM, and a rate is the same for the whole run."""
    load = Load(max_concurrency=2, num_prompts=2, request_rate_rps=2.5, **arrivals)
    write_run(settings.bundles, (request(),), load=load)
    ingest_all(settings)
    with open_warehouse(settings.warehouse_file) as connection:
        (result,) = vllm_results(connection, ["job-1"])
    assert (result.get("request_rate", "missing"), result["burstiness"]) == (rate, burstiness)


def test_requests_that_do_not_fit_into_arrays_are_left_out(objects: list[dict[str, Any]]) -> None:
    third = objects[2]
    assert third["run_id"] == "run-3"
    assert not {"ttfts", "itls", "input_lens", "errors"} & set(third)
    assert (third["completed"], third["total_output_tokens"], third["mean_ttft_ms"]) == (2, None, pytest.approx(100.0))
