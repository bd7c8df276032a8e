"""Each tool's files as its versions write them: small captures in the shapes of real ones, with values made up."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from interchange.files import ForeignFile
from interchange.reading import read_runs
from lab.errors import ForeignFileError
from tests.interchange.foreign_files import why
from tests.interchange.sample_files import SAMPLES
from warehouse.bundles.imported_run import ImportedRun


def runs_of(files: Mapping[str, object]) -> Sequence[ImportedRun]:
    """Read files that were found in one folder; each must be a result."""
    found = [ForeignFile(f"f/{name}", json.dumps(value).encode(), was_named=False) for name, value in files.items()]
    read = read_runs(found)
    assert not read.refused
    return read.runs


def only(value: object, **beside: object) -> ImportedRun:
    (run,) = runs_of({"result.json": value} | {f"{name}.json": other for name, other in beside.items()})
    return run


def values(run: ImportedRun, *names: str) -> list[object]:
    known = {**run.columns, **run.metrics}
    return [pytest.approx(known[name]) if isinstance(known[name], float) else known[name] for name in names]


# --- GuideLLM: four answers of 100, 120, 140 and 80 tokens in 4 s, at concurrency 2
_REQUESTS = ((40.0, 5.0, 50, 100), (50.0, 6.0, 60, 120), (60.0, 7.0, 70, 140), (70.0, 8.0, 80, 80))
_START_S = 1_780_000_000.0


def _guidellm_request(index: int, ttft_ms: float, tpot_ms: float, prompt: int, tokens: int) -> dict[str, Any]:
    latency_s = (ttft_ms + tpot_ms * (tokens - 1)) / 1000
    return {
        "request_start_time": _START_S + index,
        "request_end_time": _START_S + index + latency_s,
        "request_latency": latency_s,
        "time_to_first_token_ms": ttft_ms,
        "inter_token_latency_ms": tpot_ms,
        "prompt_tokens": prompt,
        "output_tokens": tokens,
    }


def _mean_and_sum(mean: float, total: float) -> dict[str, Any]:
    return {"successful": {"mean": mean, "total_sum": total}}


def guidellm(version: str) -> dict[str, Any]:
    totals = {"successful": 4, "errored": 1, "incomplete": 0, "total": 5}
    failed = {"request_start_time": _START_S, "request_end_time": _START_S + 1, "prompt_tokens": 50}
    metrics = {
        "requests_per_second": _mean_and_sum(1.0, 4.0),
        "prompt_token_count": _mean_and_sum(65.0, 260.0),
        "output_token_count": _mean_and_sum(110.0, 440.00000000000006),
        "output_tokens_per_second": _mean_and_sum(110.0, 440.0),
        "time_to_first_token_ms": _mean_and_sum(55.0, 220.0),
    }
    benchmark: dict[str, Any] = {
        "type_": "generative_benchmark",
        "metrics": metrics,
        "requests": {"successful": [_guidellm_request(index, *row) for index, row in enumerate(_REQUESTS)]},
        "start_time": _START_S,
        "end_time": _START_S + 4,
        "duration": 4.0,
    }
    if version == "0.3":
        benchmark |= {"request_totals": totals, "worker": {"backend_model": "acme/small"}, "run_stats": {}}
        benchmark["args"] = {"strategy": {"type_": "concurrent", "streams": 2}, "max_number": 5}
        benchmark["requests"] |= {"errored": [failed | {"error": "no"}], "incomplete": []}
        return {"benchmarks": [benchmark]}
    limit = {"args": {"count": 5}} if version == "0.8" else {"max_num": 5}
    benchmark["metrics"]["request_totals"] = totals
    benchmark["config"] = {
        "strategy": {"type_": "concurrent", "streams": 2},
        "backend": {"model": "acme/small"},
        "constraints": {"max_requests": {"type_": "max_number", "current_index": 0} | limit},
    }
    benchmark["requests"] |= {"errored": [failed | {"info": {"error": "no"}}], "incomplete": []}
    report: dict[str, Any] = {"args": {}, "benchmarks": [benchmark]}
    if version != "0.4":
        report["metadata"] = {"version": 2 if version == "0.8" else 1, "guidellm_version": f"{version}.0"}
    return report


@pytest.mark.parametrize(
    ("version", "shown"), [("0.3", "0.2 or 0.3"), ("0.4", "0.4"), ("0.6", "0.6.0"), ("0.8", "0.8.0")]
)
def test_guidellms_reports_say_the_same_in_every_version(version: str, shown: str) -> None:
    run = only(guidellm(version))
    assert run.tool_version == shown
    described = ("target", "concurrency", "num_prompts", "requests_completed", "requests_failed")
    assert values(run, *described) == ["acme/small", 2, 5, 4, 1]
    figures = ("duration_s", "prompt_tokens", "completion_tokens", "output_tok_per_s", "ttft_p50_ms", "tpot_p50_ms")
    assert values(run, *figures) == [4.0, 260, 440, 110.0, 55.0, 6.5]
    assert run.requests is not None
    assert run.requests.texts("error").to_pylist()[-1] == "no"


def test_guidellms_requests_of_warm_up_are_no_requests_of_the_run() -> None:
    report = guidellm("0.6")
    warm_up = _guidellm_request(-10, 900.0, 90.0, 50, 100)
    report["benchmarks"][0]["requests"]["successful"].insert(0, warm_up)
    run = only(report)
    assert values(run, "requests_completed", "requests_failed", "ttft_mean_ms", "tpot_p50_ms") == [4, 1, 55.0, 6.5]


def test_guidellms_throughput_run_has_the_limit_it_was_given() -> None:
    report = guidellm("0.6")
    config = report["benchmarks"][0]["config"]
    config["strategy"] = {"type_": "throughput", "max_concurrency": 512}
    assert only(report).columns["concurrency"] == 512
    config["strategy"] = {"type_": "throughput", "max_concurrency": None}
    assert only(report).columns["concurrency"] is None


# --- inference-perf: stages of 40 and 80 requests, 4 of which failed
def _summary(median: float, key: str) -> dict[str, float]:
    return {"mean": median + 0.001, key: median, "p90": median * 2}


def inference_perf(version: str, completed: int, failed: int, rate: float, total_s: float) -> dict[str, Any]:
    key = "p50" if version == "0.1" else "median"
    latency = {name: _summary(0.01, key) for name in ("time_per_output_token", "inter_token_latency")}
    latency |= {"time_to_first_token": _summary(0.04, key), "request_latency": _summary(0.73, key)}
    rates = {"requests_per_sec": completed / total_s, "output_tokens_per_sec": 48.0}
    report: dict[str, Any] = {
        "load_summary": {"count": completed + failed},
        "successes": {"count": completed, "latency": latency, "throughput": rates, "output_len": {"mean": 60.0}},
        "failures": {"count": failed},
    }
    if version != "0.1" and rate:
        report["load_summary"] |= {"requested_rate": rate, "achieved_rate": rate * 1.01}
    if version == "0.5":
        report["benchmark_time_seconds"] = total_s
        report["successes"] |= {"token_count_mismatches": 0, "goodput_metrics": {"request_goodput": 0.5}}
    return report


@pytest.mark.parametrize(("version", "rates"), [("0.1", [None, None]), ("0.2", [0.8, 1.6]), ("0.5", [0.8, 1.6])])
def test_inference_perfs_stages_are_runs_in_every_version(version: str, rates: list[float | None]) -> None:
    stages = {
        "stage_0_lifecycle_metrics.json": inference_perf(version, 40, 0, 0.8, 50.0),
        "stage_1_lifecycle_metrics.json": inference_perf(version, 76, 4, 1.6, 52.0),
        "summary_lifecycle_metrics.json": inference_perf(version, 116, 4, 0.0, 110.0),
    }
    server = {"load_summary": {}, "failures": {}, "successes": {"count": 116, "queue_len": {"mean": 0}}}
    runs = runs_of(stages | {"stage_0_prometheus_metrics.json": server})
    assert [run.columns["request_rate_rps"] for run in runs] == rates
    names = ("num_prompts", "requests_completed", "requests_failed", "duration_s", "ttft_p50_ms", "e2e_p50_ms")
    assert values(runs[0], *names) == [40, 40, 0, 50.0, 40.0, 730.0]
    assert values(runs[1], *names) == [80, 76, 4, 52.0, 40.0, 730.0]
    assert runs[0].tool_version == (None if version == "0.5" else "before 0.5")
    # Until 0.4 the times between lines of the stream pass for times between tokens.
    assert values(runs[0], "tpot_p50_ms", "icl_p50_ms") == [10.0 if version == "0.5" else None, None]
    assert values(runs[0], "completion_tokens", "output_tok_per_s") == [None, None]


def test_inference_perfs_goodput_is_read() -> None:
    assert only(inference_perf("0.5", 40, 0, 0.8, 50.0)).metrics["goodput_request_per_s"] == 0.5


@pytest.mark.parametrize("version", ["0.3", "0.5", "0.7"])
def test_inference_perfs_requests_are_read_in_every_version(version: str) -> None:
    chunk_s, usage = [10.04, 10.06, 10.09], {"prompt_tokens": 7, "completion_tokens": 6}
    info: dict[str, Any] = {"response_metrics": {"chunk_times": chunk_s, "server_usage": usage}}
    if version == "0.5":
        info = {"response_info": info["response_metrics"]}
    if version == "0.3":
        info = {"output_tokens": 5, "output_token_times": [10.04, 10.0401, 10.09]}
    request = {"start_time": 10.0, "end_time": 10.1, "request": "", "response": "", "error": None, "info": info}
    run = only([request])
    own = [None, None, None] if version == "0.3" else [10.0, 25.0, 6]
    assert values(run, "tpot_mean_ms", "icl_mean_ms", "completion_tokens") == own
    assert values(run, "ttft_mean_ms", "e2e_mean_ms", "duration_s") == [40.0, 100.0, 0.1]


def test_a_request_that_fails_late_lengthens_no_run() -> None:
    """A run lasts until its last completed request, however long a client waited for another one."""
    request = {"start_time": 10.0, "end_time": 10.1, "request": "", "response": "", "error": None, "info": {}}
    late = request | {"end_time": 70.0, "error": {"message": "timed out"}}
    assert values(only([request, late]), "requests_failed", "duration_s", "request_per_s") == [1, 0.1, 10.0]
    line = {"metadata": {"request_start_ns": 10**9, "request_end_ns": 11 * 10**8}, "metrics": {}, "error": None}
    lost = line | {"metadata": {"request_start_ns": 10**9, "request_end_ns": 61 * 10**9}, "error": {"message": "no"}}
    text = "\n".join(map(json.dumps, (line, lost)))
    (run,) = read_runs([ForeignFile("profile_export.jsonl", text.encode())]).runs
    assert values(run, "requests_failed", "duration_s", "request_per_s") == [1, 0.1, 10.0]


def test_a_latency_that_one_request_lacks_is_unknown() -> None:
    """Two tokens without a time per token, not one token: the others alone would mislead."""

    def read(*tokens: int | None) -> ImportedRun:
        lines = [
            {
                "metadata": {"request_start_ns": 10**9, "request_end_ns": 2 * 10**9},
                "metrics": {
                    "usage_completion_tokens": {"value": count},
                    "decode_duration": {"value": 30.0, "unit": "ms"},
                    "time_to_first_token": {"value": 5.0, "unit": "ms"},
                },
            }
            for count in tokens
        ]
        text = "\n".join(map(json.dumps, lines))
        return read_runs([ForeignFile("profile_export.jsonl", text.encode())]).runs[0]

    assert values(read(4, 1), "tpot_mean_ms", "ttft_mean_ms") == [10.0, 5.0]
    assert values(read(4, None), "tpot_mean_ms", "ttft_mean_ms") == [None, 5.0]
    responses = [
        {"error_code": None, "ttft_s": ttft_s, "end_to_end_latency_s": 0.5, "number_output_tokens": 3}
        for ttft_s in (0.1, 0)
    ]
    assert values(only(responses), "ttft_mean_ms", "e2e_mean_ms") == [100.0, 500.0]  # the second is without text


# --- AIPerf and genai-perf: 60 requests in 30 s at concurrency 6
def _ms(median: float) -> dict[str, Any]:
    return {"unit": "ms", "avg": median + 1, "p50": median, "p90": median * 2, "p95": median * 3, "p99": median * 4}


_FIGURES = {
    "request_throughput": {"unit": "requests/sec", "avg": 2.0},
    "request_latency": _ms(780.0),
    "request_count": {"unit": "requests", "avg": 60.0},
    "time_to_first_token": _ms(48.0),
    "inter_token_latency": _ms(9.5),
    "output_token_throughput": {"unit": "tokens/sec", "avg": 150.0},
}
_LOADGEN = {"concurrency": 6, "request_rate_mode": "concurrency_burst", "request_count": 60}
_ENDPOINT = {"model_names": ["acme/small"], "type": "chat", "streaming": True}


def aiperf(schema: str | None, **changes: Any) -> dict[str, Any]:
    config = {"endpoint": _ENDPOINT, "loadgen": _LOADGEN}
    summary = {"input_config": config, "was_cancelled": False, "error_summary": [], "start_time": "2026-07-03T05:00:00"}
    more = {"benchmark_duration": {"unit": "sec", "avg": 30.0}, "inter_chunk_latency": _ms(9.75)}
    if schema == "0.1":
        return summary | {"records": _FIGURES | more} | changes
    versions = {"schema_version": schema, "aiperf_version": "0.8.0"} if schema else {}
    return versions | summary | _FIGURES | more | changes


@pytest.mark.parametrize(
    ("schema", "shown"), [("0.1", "before schema 1.0"), (None, "before schema 1.0"), ("1.0", "0.8.0"), ("1.1", "0.8.0")]
)
def test_aiperfs_summaries_say_the_same_in_every_version(schema: str | None, shown: str) -> None:
    run = only(aiperf(schema))
    assert run.tool_version == shown
    described = ("target", "concurrency", "num_prompts", "endpoint", "requests_completed", "requests_failed")
    assert values(run, *described) == ["acme/small", 6, 60, "chat", 60, 0]
    figures = ("duration_s", "request_per_s", "ttft_p50_ms", "icl_p50_ms", "e2e_p99_ms")
    assert values(run, *figures) == [30.0, 2.0, 48.0, 9.75, 3120.0]
    # AIPerf's own count of tokens is not the server's, which such files lack.
    assert values(run, "tpot_p50_ms", "completion_tokens", "output_tok_per_s") == [None, None, None]


def test_aiperfs_run_in_which_all_failed_is_a_run() -> None:
    summary = {key: value for key, value in aiperf("1.0").items() if key not in _FIGURES}
    run = only(summary | {"error_request_count": {"unit": "requests", "avg": 60.0}, "error_summary": [{"count": 60}]})
    assert values(run, "target", "concurrency", "requests_completed", "requests_failed") == ["acme/small", 6, 0, 60]
    assert values(run, "ttft_p50_ms", "icl_p50_ms", "request_per_s") == [None, None, None]


def test_a_run_of_aiperf_that_was_interrupted_is_in_doubt() -> None:
    assert only(aiperf("1.4", was_cancelled=True)).doubts == ("AIPerf was interrupted before the end of the run",)
    assert only(aiperf("1.4")).doubts == ()


def test_a_summary_that_counts_no_requests_is_refused() -> None:
    summary = {key: value for key, value in aiperf("1.4").items() if key != "request_count"}
    with pytest.raises(ForeignFileError, match="request_count: this is missing in a summary of AIPerf"):
        read_runs([ForeignFile("a.json", json.dumps(summary).encode())])
    report = guidellm("0.6")
    del report["benchmarks"][0]["metrics"]["request_totals"]
    with pytest.raises(ForeignFileError, match=r"request_totals.* this is missing in a GuideLLM benchmark"):
        read_runs([ForeignFile("a.json", json.dumps(report).encode())])


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({"metrics": {}}, "AIPerf's metrics of the server, not a run: import profile_export_aiperf.json"),
        ({"metadata": {"aggregation_type": "confidence"}}, "AIPerf's statistics over several runs: import each run's"),
    ],
)
def test_other_files_of_aiperf_are_no_runs(more: dict[str, Any], what: str) -> None:
    other = {"schema_version": "1.0", "aiperf_version": "0.8.0", "input_config": {}} | more
    with pytest.raises(ForeignFileError, match=re.escape(what)):
        read_runs([ForeignFile("other.json", json.dumps(other).encode())])


_GENAI_PERF: dict[str, dict[str, Any]] = {
    "24.08": {"model": ["acme/small"], "service_kind": "openai", "endpoint_type": "chat", "concurrency": 6},
    "25.10": {
        "model_names": ["acme/small"],
        "perf_analyzer": {"stimulus": {"concurrency": 6}},
        "endpoint": {"type": "chat"},
    },
}


@pytest.mark.parametrize("version", _GENAI_PERF)
def test_genai_perfs_summaries_say_the_same_in_every_version(version: str) -> None:
    run = only(_FIGURES | {"input_config": _GENAI_PERF[version]})
    assert run.tool == "genai-perf"
    assert values(run, "target", "concurrency", "endpoint", "requests_completed") == ["acme/small", 6, "chat", 60]
    assert values(run, "duration_s", "ttft_p50_ms", "e2e_p90_ms", "tpot_p50_ms") == [30.0, 48.0, 1560.0, None]
    assert run.printed["inter_token_latency.p50"] == 9.5


def test_genai_perfs_first_summaries_count_no_requests() -> None:
    figures = {key: value for key, value in _FIGURES.items() if key != "request_count"}
    run = only({**figures, "input_config": {**_GENAI_PERF["24.08"], "concurrency": None, "request_rate": 2.5}})
    assert values(run, "requests_completed", "duration_s", "concurrency") == [None, None, None]
    assert values(run, "request_rate_rps", "request_per_s") == [2.5, 2.0]


# --- genai-bench
_GENAI_BENCH = SAMPLES / "genai-bench/spec-d64x48-c4"


def genai_bench() -> tuple[dict[str, Any], dict[str, Any]]:
    """A run and its metadata of a version that knew only seconds."""
    content = json.loads((_GENAI_BENCH / "D64_48_text-to-text_num_concurrency_4_time_5s.json").read_text())
    metadata = json.loads((_GENAI_BENCH / "experiment_metadata.json").read_text())
    del content["_time_unit"], metadata["metrics_time_unit"]
    return content, metadata | {"benchmark_version": "0.0.2", "server_gpu_type": "H100", "server_gpu_count": "2"}


def test_genai_bench_without_a_time_unit_meant_seconds() -> None:
    content, metadata = genai_bench()
    run = only(content, metadata=metadata)
    assert values(run, "ttft_mean_ms", "requests_completed") == [pytest.approx(169.4, abs=0.1), 20]
    assert (run.tool_version, run.labels["hardware"]) == ("0.0.2", "2x H100")


def test_a_first_token_that_was_not_streamed_has_no_time() -> None:
    content, metadata = genai_bench()
    for request in content["individual_request_metrics"]:
        request["ttft"] = 0.001
    run = only(content, metadata=metadata)
    assert values(run, "ttft_mean_ms", "ttft_p99_ms", "tpot_mean_ms") == [None, None, None]
    assert run.metrics["e2e_mean_ms"] is not None
    assert any("every request has a time to first token of 1 ms" in field.why for field in run.left_out)
    assert run.requests is not None
    assert not run.requests.known("ttft_ms").any()


def test_an_error_of_several_lines_is_its_message() -> None:
    content, metadata = genai_bench()
    message = '{\n  "error": {\n    "message": "the queue\\n is full",\n    "code": 500\n  }\n}'
    content["individual_request_metrics"][0] |= {"error_code": 500, "error_message": message}
    run = only(content, metadata=metadata)
    assert run.requests is not None
    assert run.requests.texts("error").to_pylist()[0] == "the queue is full"


# --- vLLM's scripts and SGLang
def test_vllms_script_of_2024_wrote_no_total_throughput() -> None:
    content = json.loads((SAMPLES / "vllm-bench/base-random-c4.json").read_text())
    later = ("total_token_throughput", "endpoint_type", "label", "failed", "burstiness", "max_concurrency", "errors")
    figures = {key: value for key, value in content.items() if not isinstance(value, list) and key not in later}
    run = only(figures | {"best_of": 1, "use_beam_search": False, "input_throughput": 880.0})
    total = (content["total_input_tokens"] + content["total_output_tokens"]) / content["duration"]
    assert values(run, "target", "requests_completed", "requests_failed") == ["reference", 12, 0]
    assert values(run, "total_tok_per_s", "ttft_p50_ms") == [total, content["median_ttft_ms"]]
    assert "input_throughput" not in run.labels
    first = figures | {"request_inthroughput": figures.pop("request_throughput")}
    assert values(only(first), "request_per_s", "tpot_p50_ms", "ttft_p50_ms") == [
        pytest.approx(12 / content["duration"]),
        None,  # vLLM 0.3 divided the whole latency by the tokens
        content["median_ttft_ms"],
    ]


_SERVER = {"model_path": "acme/large", "version": "0.5.5", "tp_size": 8, "speculative_algorithm": "EAGLE3"}
_DRAFT = {"speculative_draft_model_path": "acme/head", "speculative_num_draft_tokens": 4}


@pytest.mark.parametrize(("branches", "drafted"), [(None, 3), (1, 3), (8, None)])
def test_sglangs_server_says_what_it_ran(branches: int | None, drafted: int | None) -> None:
    content = json.loads((SAMPLES / "sglang-bench-serving/spec-random64x48-c4.jsonl").read_text())
    run = only(content | {"server_info": _SERVER | _DRAFT | {"speculative_eagle_topk": branches}})
    names = ("target", "engine", "engine_version", "method", "draft_model", "num_speculative_tokens")
    assert values(run, *names) == ["acme/large", "sglang", "0.5.5", "eagle3", "acme/head", drafted]
    assert run.labels["tp_size"] == "8"
    assert only(content | {"server_info": None}).columns["engine"] is None
    assert only(content | {"server_info": {"vllm_config": "model='acme/large'"}}).columns["engine"] is None


def test_sglangs_aggregate_of_several_processes_has_failed_requests_and_cache_hits() -> None:
    content = json.loads((SAMPLES / "sglang-bench-serving/spec-random64x48-c4.jsonl").read_text())
    sent = content["completed"] + 3
    several = {"num_processes": 4, "num_prompts": sent, "failed": 3, "output_throughput_retokenized": 99.5}
    summary = {name: value for name, value in content.items() if not isinstance(value, list)}
    run = only(summary | several | {"cache_report": {"total_cached_tokens": 10, "cache_hit_rate_pct": 12.5}})
    assert values(run, "num_prompts", "requests_failed", "prefix_cache_hit_rate") == [sent, 3, 0.125]
    assert why(run, "output_throughput_retokenized") == "recounted from the text"


# --- vLLM: further figures
def test_vllms_probe_requests_are_figures_beside_the_load() -> None:
    content = json.loads((SAMPLES / "vllm-bench/spec-code-c4.json").read_text())
    run = only(content | {"probe_completed": 9, "probe_median_e2el_ms": 30.5, "diffusion_committed_tokens": 12})
    assert [run.printed[name] for name in ("probe_completed", "probe_median_e2el_ms")] == [9, 30.5]
    assert why(run, "probe_median_e2el_ms") == "of probe requests beside the load"
    assert "diffusion_committed_tokens" not in run.labels


def test_a_latency_without_a_unit_is_a_figure_without_a_column() -> None:
    """InferenceX's study of decoding by position writes seconds beside vLLM's keys."""
    content = json.loads((SAMPLES / "vllm-bench/base-code-c4.json").read_text())
    run = only({name: value for name, value in content.items() if not name.endswith("_ms")} | {"median_ttft": 3.125})
    assert (run.printed["median_ttft"], why(run, "median_ttft")) == (3.125, "its name has no unit")
    assert "median_ttft" not in run.labels


def test_tensorrt_llms_copy_of_the_client_has_its_latencies_under_another_name() -> None:
    content = json.loads((SAMPLES / "vllm-bench/spec-code-c4.json").read_text())
    content["e2els"] = [latency + 0.5 for latency in content.pop("latencies")]
    run = only(content | {"user_throughput": 60.0, "avg_decoded_tokens_per_iter": {"mean": 2.5, "percentiles": {}}})
    assert run.metrics["e2e_mean_ms"] == pytest.approx(1000 * sum(content["e2els"]) / len(content["e2els"]))
    assert (run.printed["user_throughput"], run.printed["avg_decoded_tokens_per_iter.mean"]) == (60.0, 2.5)


def test_a_server_that_did_not_stream_has_no_time_to_first_token() -> None:
    """TensorRT-LLM's copy of the client writes -1 s, and adds that second to the time of the other tokens."""
    content = json.loads((SAMPLES / "vllm-bench/base-code-c4.json").read_text())
    count = len(content["ttfts"])
    unstreamed = {"mean_ttft_ms": -1000.0, "median_ttft_ms": -1000.0, "p99_ttft_ms": -1000.0, "mean_itl_ms": 0.0}
    run = only(content | unstreamed | {"ttfts": [-1] * count, "itls": [[]] * count})
    assert values(run, "ttft_mean_ms", "tpot_mean_ms", "icl_mean_ms") == [None, None, None]
    assert values(run, "output_tok_per_s", "requests_completed") == [content["output_throughput"], count]
    assert why(run, "ttft, tpot, itl") == "the server did not stream"


def test_answers_of_which_no_token_was_counted_have_no_rate() -> None:
    content = json.loads((SAMPLES / "vllm-bench/base-random-c4.json").read_text())
    summary = {name: value for name, value in content.items() if not isinstance(value, list)}
    run = only(summary | {"total_output_tokens": 0, "output_throughput": 0.0, "mean_tpot_ms": 0.0})
    assert values(run, "completion_tokens", "output_tok_per_s", "total_tok_per_s") == [None, None, None]
    assert values(run, "requests_completed", "ttft_p50_ms") == [content["completed"], content["median_ttft_ms"]]
    assert why(run, "output_tok_per_s") == "no token of any answer was counted"


# --- text
@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_text_with_a_byte_order_mark_is_read(encoding: str) -> None:
    content = (SAMPLES / "vllm-bench/spec-code-c4.json").read_text(encoding="utf-8")
    (run,) = read_runs([ForeignFile("a.json", content.encode(encoding))]).runs
    assert run.columns["target"] == "reference"
