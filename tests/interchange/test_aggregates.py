"""Figures of tools whose files have no requests, or only some of their fields: each value by the tool's definition."""

from __future__ import annotations

import json
from typing import Any

import pytest

from interchange.files import ForeignFile
from interchange.reading import read_runs
from lab.errors import ForeignFileError
from tests.interchange.foreign_files import imported, only, why
from warehouse.bundles.imported_run import ImportedRun


def figures(run: ImportedRun) -> dict[str, Any]:
    """Return the metrics that are known."""
    return {name: value for name, value in run.metrics.items() if value is not None}


def columns(run: ImportedRun) -> dict[str, Any]:
    return {name: value for name, value in run.columns.items() if value is not None}


def refused(value: object) -> str:
    with pytest.raises(ForeignFileError) as caught:
        imported(value)
    return str(caught.value)


LOADGEN = """================================================
MLPerf Results Summary
================================================
SUT name : MadeUp
Scenario : Server
Mode     : PerformanceOnly
Completed samples per second    : 7.50
Completed tokens per second: 2200.25
Result is : VALID
  Min duration satisfied : Yes
TTFT Early Stopping Result:
 * Run successful.

================================================
Additional Stats
================================================
Scheduled samples per second : 7.61
Mean latency (ns)                : 42000000000
50.00 percentile latency (ns)   : 36000000000
99.00 percentile latency (ns)   : 141000000000
99.90 percentile latency (ns)   : 185000000000

Completed tokens per second                 : 2200.25
Mean First Token latency (ns)                : 1038000000
99.00 percentile first token latency (ns)   : 1660000000
Mean Time to Output Token (ns)               : 143500000
99.00 percentile time to output token (ns)   : 198600000

================================================
Test Parameters Used
================================================
target_qps : 7.6
min_duration (ms): 600000

No warnings encountered during test.

No errors encountered during test.
"""


def test_a_summary_of_loadgen_in_server_mode() -> None:
    run = only(LOADGEN)
    assert (run.tool, run.doubts) == ("mlperf-loadgen", ())
    assert figures(run) == pytest.approx(
        {"request_per_s": 7.5, "output_tok_per_s": 2200.25, "ttft_mean_ms": 1038.0, "ttft_p99_ms": 1660.0}
        | {"tpot_mean_ms": 143.5, "tpot_p99_ms": 198.6, "e2e_mean_ms": 42000.0, "e2e_p50_ms": 36000.0}
        | {"e2e_p99_ms": 141000.0}
    )
    assert columns(run) == {"request_rate_rps": 7.6}
    assert (run.labels["Scenario"], run.labels["min_duration (ms)"]) == ("Server", "600000")
    assert run.printed["99.90 percentile latency (ns)"] == 185000000000


def test_loadgens_offline_scenario_has_no_rate_and_its_own_names() -> None:
    offline = LOADGEN.replace("Scenario : Server", "Scenario : Offline").replace("Completed samples", "Samples")
    run = only(offline.replace("Completed tokens", "Tokens"))
    assert (run.metrics["request_per_s"], run.metrics["output_tok_per_s"]) == (7.5, 2200.25)
    assert run.columns["request_rate_rps"] is None


def test_what_loadgen_itself_calls_invalid_is_doubted() -> None:
    run = only(LOADGEN.replace("VALID", "INVALID").replace("No errors", "3 ERRORS"))
    assert run.doubts == ("LoadGen calls the result INVALID", "LoadGen met 3 errors")
    assert only(LOADGEN.replace("No errors", f"{'9' * 5000} errors")).doubts[0].startswith("LoadGen met 999")


def test_loadgens_runs_without_a_language_model_or_speed_are_no_results() -> None:
    lines = [line for line in LOADGEN.splitlines() if "okens" not in line]
    assert "MLPerf Results Summary without tokens per second" in refused("\n".join(lines))
    assert "accuracy run of MLPerf measures no speed" in refused(LOADGEN.replace("PerformanceOnly", "AccuracyOnly"))


REPORT = """
metrics:
  latency:
    inter_token_latency: {mean: 0.01, units: s/token}
    request_latency: {mean: 5.5, p50: 5.25, p99: 7.75, units: s}
    time_per_output_token: {mean: 9.8, p50: 9.9, units: ms/token}
    time_to_first_token: {mean: 539.5, p50: 267.5, p99: 2275.5, units: ms}
  requests: {failures: 2, incomplete: 1, total: 60, input_length: {mean: 8306.9}}
  throughput: {output_tokens_per_sec: 479.5, requests_per_sec: 0.9375, total_tokens_per_sec: 8419.5}
  time: {duration: 57.75}
scenario:
  host: {accelerator: [{count: 8, model: H100}, {count: 8, model: H100}]}
  load:
    args:
      load: {stages: [{rate: 1.0}, {rate: 5.0}]}
      server: {model_name: acme/small-7b}
    metadata: {stage: 1}
    name: inference-perf
  model: {name: unknown}
version: '0.1'
"""


def test_a_report_of_llm_d_takes_the_stages_rate_and_the_units_it_names() -> None:
    run = only(REPORT)
    assert (run.tool, run.tool_version) == ("llm-d-report", "0.1")
    assert figures(run) == pytest.approx(
        {"requests_completed": 57, "requests_failed": 3, "request_per_s": 0.9375, "output_tok_per_s": 479.5}
        | {"total_tok_per_s": 8419.5, "ttft_mean_ms": 539.5, "ttft_p50_ms": 267.5, "ttft_p99_ms": 2275.5}
        | {"e2e_mean_ms": 5500.0, "e2e_p50_ms": 5250.0, "e2e_p99_ms": 7750.0}
    )
    assert columns(run) == {"target": "acme/small-7b", "request_rate_rps": 5.0}
    assert run.labels == {"generator": "inference-perf", "token_count": "client", "hardware": "16x H100"}
    assert why(run, "duration_s") == "the time of sending, not of the run"
    assert why(run, "tpot_mean_ms") == "divided by the client's own token count"


def test_a_report_of_vllms_benchmark_has_its_time_per_token_and_duration() -> None:
    run = only(REPORT.replace("inference-perf", "vllm-benchmark"))
    assert (run.metrics["tpot_mean_ms"], run.metrics["duration_s"]) == (9.8, 57.75)
    assert "token_count" not in run.labels


SECOND = {
    "version": "0.2",
    "results": {
        "request_performance": {
            "aggregate": {
                "requests": {"total": 60, "failures": 0},
                "latency": {"time_to_first_token": {"units": "s", "mean": 0.5}, "request_latency": {"p90": 2.0}},
                "throughput": {"output_token_rate": {"mean": 90.0}, "request_rate": {"mean": 1.5}},
            }
        }
    },
    "scenario": {
        "stack": [
            {
                "standardized": {
                    "model": {"name": "acme/small"},
                    "replicas": 2,
                    "accelerator": {"model": "H100", "count": 8},
                }
            },
            {"standardized": {"kind": "generic", "tool": "router"}},
        ],
        "load": {"standardized": {"tool": "aiperf", "rate_qps": 10, "concurrency": 4}},
    },
}


def test_a_report_of_llm_d_in_its_second_version() -> None:
    run = only(SECOND)
    assert figures(run) == pytest.approx(
        {"requests_completed": 60, "requests_failed": 0, "ttft_mean_ms": 500.0, "e2e_p90_ms": 2000.0}
        | {"output_tok_per_s": 90.0, "request_per_s": 1.5}
    )
    assert columns(run) == {"target": "acme/small", "request_rate_rps": 10, "concurrency": 4}
    assert run.labels["hardware"] == "16x H100"


def test_two_versions_of_one_report_in_a_folder_are_one_run() -> None:
    aggregate = SECOND["results"]["request_performance"]["aggregate"]  # type: ignore[index]
    load = {"name": "aiperf", "metadata": {"file_type": "stage"}}
    first = {"version": "0.1", "scenario": {"model": {"name": "m"}, "load": load}}
    first["metrics"] = {name: aggregate[name] for name in ("requests", "latency")}
    files = [ForeignFile(f"f/{name}", json.dumps(value).encode()) for name, value in (("b", SECOND), ("a", first))]
    (run,) = read_runs(files).runs
    assert (run.tool_version, [file.name for file in run.companions]) == ("0.1", ["f/b"])


def test_reports_that_cannot_be_read_say_why() -> None:
    assert "version: found version 0.3; supported are 0.1, 0.2" in refused(REPORT.replace("'0.1'", "'0.3'"))
    assert "units: one of s, s/token, ms, ms/token is expected here" in refused(
        REPORT.replace("units: ms}", "units: h}")
    )
    assert "is expected here, not []" in refused(REPORT.replace("units: ms}", "units: []}"))
    assert "a report on sessions" in refused(REPORT.replace("{stage: 1}", "{file_type: session_lifecycle}"))
    assert "61 of 60 requests failed" in refused(REPORT.replace("failures: 2", "failures: 60"))


LLAMA: dict[str, Any] = {
    "build_commit": "abc1234",
    "build_number": 6000,
    "cpu_info": "a CPU",
    "gpu_info": "a GPU",
    "backends": "CUDA",
    "model_filename": "/home/me/models/small-7b-Q4_K_M.gguf",
    "n_batch": 2048,
    "flash_attn": True,
    "n_prompt": 512,
    "n_gen": 0,
    "n_depth": 0,
    "test_time": "2026-07-01T10:20:30Z",
    "avg_ns": 284000000,
    "stddev_ns": 0,
    "avg_ts": 1800.25,
    "stddev_ts": 0.5,
}


def test_llama_benchs_tests_are_runs_of_prompts_or_of_answers() -> None:
    read = imported([LLAMA, LLAMA | {"n_prompt": 0, "n_gen": 128, "avg_ts": 75.5, "n_depth": 4096}])
    prompts, answers = read.runs
    assert figures(prompts) == {"total_tok_per_s": 1800.25}
    assert figures(answers) == {"total_tok_per_s": 75.5, "output_tok_per_s": 75.5}
    assert columns(prompts) == {
        "target": "small-7b-Q4_K_M.gguf",
        "input_tokens": 512,
        "concurrency": 1,
        "engine": "llama.cpp",
        "engine_version": "6000 abc1234",
        "started_at": "2026-07-01T10:20:30+00:00",
    }
    assert (answers.columns["requested_output_tokens"], answers.columns["input_tokens"]) == (128, None)
    assert (answers.labels["n_depth"], answers.labels["hardware"], answers.tool_version) == ("4096", "a GPU", "6000")
    assert not any("/home/me" in label for label in answers.labels.values())


def test_llama_benchs_csv_and_lines_give_the_same_values() -> None:
    row = ",".join(f'"{value}"' for value in LLAMA.values())
    (table,) = imported(f"{','.join(LLAMA)}\n{row}\n", "result.csv").runs
    (line,) = imported(json.dumps(LLAMA), "result.jsonl").runs
    assert (figures(table), columns(table)) == (figures(line), columns(line))
    assert table.labels["n_batch"] == line.labels["n_batch"] == "2048"


SUMMARY = {
    "version": "2023-08-31",
    "name": "acme_512_64_summary",
    "model": "acme/small-7b",
    "mean_input_tokens": 512,
    "num_concurrent_requests": 4,
    "results_inter_token_latency_s_mean": 0.0121,
    "results_ttft_s_quantiles_p50": 0.11,
    "results_ttft_s_quantiles_p99": 0.25,
    "results_ttft_s_mean": 0.115,
    "results_end_to_end_latency_s_mean": 0.88,
    "results_number_output_tokens_max": "65",
    "results_number_errors": 1,
    "results_mean_output_throughput_token_per_s": 290.5,
    "results_num_completed_requests": 2,
    "results_num_completed_requests_per_min": 272.25,
}
RESPONSES = [
    {"error_code": None, "error_msg": "", "ttft_s": 0.1, "end_to_end_latency_s": 0.9, "number_output_tokens": 64},
    {"error_code": 429, "error_msg": "slow down", "ttft_s": 0, "end_to_end_latency_s": 0, "number_output_tokens": 0},
    {"error_code": None, "error_msg": "", "ttft_s": 0.13, "end_to_end_latency_s": 0.86, "number_output_tokens": 64},
]


def test_llmperfs_summary_leaves_out_its_latency_between_tokens() -> None:
    run = only(SUMMARY)
    assert figures(run) == pytest.approx(
        {"requests_completed": 2, "requests_failed": 1, "request_per_s": 4.5375, "output_tok_per_s": 290.5}
        | {"ttft_mean_ms": 115.0, "ttft_p50_ms": 110.0, "ttft_p99_ms": 250.0, "e2e_mean_ms": 880.0}
    )
    assert columns(run) == {"target": "acme/small-7b", "concurrency": 4}
    assert "includes the time to the first token" in why(run, "results_inter_token_latency_s_mean")
    assert run.printed["results_inter_token_latency_s_mean"] == 0.0121
    assert (run.tool_version, run.labels["token_count"]) == ("2023-08-31", "client")


def test_llmperfs_statistics_of_too_few_requests_are_unknown() -> None:
    """It writes NaN for the deviation of one request, and for every statistic if all failed."""
    one = SUMMARY | {"results_num_completed_requests": 1, "results_ttft_s_stddev": float("nan")}
    assert figures(only(one)) == figures(only(SUMMARY | {"results_num_completed_requests": 1}))
    statistics = {key: float("nan") for key in SUMMARY if "_s_" in key}
    none = {"results_num_completed_requests": 0, "results_num_completed_requests_per_min": 0.0}
    none |= {"results_mean_output_throughput_token_per_s": 0.0, "results_number_errors": 2}
    assert figures(only(SUMMARY | statistics | none)) == {"requests_completed": 0, "requests_failed": 2}


def test_llmperfs_responses_join_the_summary_that_they_reproduce() -> None:
    files = [ForeignFile(f"f/{name}", json.dumps(value).encode()) for name, value in (("r", RESPONSES), ("s", SUMMARY))]
    (run,) = read_runs(files).runs
    assert run.requests is not None
    assert run.requests.texts("error").to_pylist() == [None, "slow down", None]
    assert [run.metrics["e2e_p50_ms"], run.metrics["ttft_p50_ms"]] == pytest.approx([880.0, 115.0])
    others = json.dumps(SUMMARY | {"results_end_to_end_latency_s_mean": 0.5}).encode()
    apart = read_runs([files[0], ForeignFile("f/s", others)]).runs
    assert [run.requests is None for run in apart] == [True, False]


SETTING: dict[str, Any] = {
    "hw": "h200",
    "tp": 8,
    "conc": 16,
    "model": "acme/large",
    "framework": "sglang",
    "precision": "fp8",
    "mtp": "on",
    "isl": 1024,
    "osl": 1024,
    "tput_per_gpu": 410.0,
    "output_tput_per_gpu": 205.0,
    "input_tput_per_gpu": 205.0,
    "mean_ttft": 0.21,
    "median_ttft": 0.2,
    "p99_ttft": 0.4,
    "median_tpot": 0.0094,
    "median_intvty": 106.4,
    "mean_itl": 0.02,
    "median_e2el": 9.7,
    "std_e2el": 1.0,
}


def test_inferencexs_rates_are_those_of_all_gpus_and_its_times_seconds() -> None:
    run = only([SETTING])
    assert figures(run) == pytest.approx(
        {"total_tok_per_s": 3280.0, "output_tok_per_s": 1640.0, "ttft_mean_ms": 210.0, "ttft_p50_ms": 200.0}
        | {"ttft_p99_ms": 400.0, "tpot_p50_ms": 9.4, "icl_mean_ms": 20.0, "e2e_p50_ms": 9700.0}
    )
    assert columns(run) == {"target": "acme/large", "concurrency": 16, "engine": "sglang", "method": "mtp"}
    assert (run.labels["hardware"], run.labels["isl"]) == ("8x h200", "1024")
    assert only(SETTING | {"mtp": "off"}).columns["method"] is None


def test_inferencexs_separate_gpus_decode_only_what_they_decode() -> None:
    split = {"num_prefill_gpu": 20, "num_decode_gpu": 32, "spec_decoding": "none", "mtp": None}
    rates = {"tput_per_gpu": 430.0, "output_tput_per_gpu": 80.0, "input_tput_per_gpu": 990.0}
    run = only({**SETTING, "tp": None} | split | rates)
    assert (run.metrics["total_tok_per_s"], run.metrics["output_tok_per_s"]) == (22360.0, 2560.0)
    assert (run.columns["method"], run.labels["hardware"]) == (None, "52x h200")


@pytest.mark.parametrize(("sizes", "gpus"), [({"pp": 2, "pcp_size": 1}, 16), ({"pp": 1, "pcp_size": 4}, 32)])
def test_inferencexs_gpus_are_those_of_all_parallel_sizes(sizes: dict[str, int], gpus: int) -> None:
    run = only(SETTING | sizes)
    assert (run.metrics["total_tok_per_s"], run.labels["hardware"]) == (410.0 * gpus, f"{gpus}x h200")


def test_inferencexs_power_is_a_figure_without_a_column() -> None:
    run = only(SETTING | {"avg_power_w": 912.5, "joules_per_output_token": 4.25})
    assert (run.printed["joules_per_output_token"], "avg_power_w" in run.labels) == (4.25, False)


def test_inferencexs_rates_that_do_not_add_up_are_left_out() -> None:
    run = only(SETTING | {"input_tput_per_gpu": 500.0})
    assert run.metrics["total_tok_per_s"] is run.metrics["output_tok_per_s"] is None
    assert "do not add up" in [left.why for left in run.left_out if left.field == "tput_per_gpu"][-1]


def test_vllms_offline_latency_and_throughput() -> None:
    latency = {"avg_latency": 1.25, "latencies": [1.2, 1.3], "percentiles": {"10": 1.21, "50": 1.25, "99": 1.299}}
    assert figures(only(latency)) == pytest.approx({"e2e_mean_ms": 1250.0, "e2e_p50_ms": 1250.0, "e2e_p99_ms": 1299.0})
    assert only(latency | {"avg_latency": 1.5}).doubts == (
        "e2e_mean_ms: the file says 1500, but its own latencies give 1250",
    )
    throughput = {"elapsed_time": 20.0, "num_requests": 100, "total_num_tokens": 51200}
    run = only(throughput | {"requests_per_second": 5.0, "tokens_per_second": 2560.0})
    assert figures(run) == {
        "requests_completed": 100,
        "duration_s": 20.0,
        "request_per_s": 5.0,
        "total_tok_per_s": 2560.0,
    }


PERCENTILES = {"p50": 20.0, "p90": 30.0, "p95": 35.0, "p99": 40.0, "minimum": 1.0, "maximum": 50.0, "average": 21.0}
TRTLLM: dict[str, Any] = {
    "engine": {"model": "acme/small", "model_path": "/home/me/m", "version": "1.0.0", "backend": "Pytorch"},
    "machine": {"name": "H100", "memory.total": 79.6},
    "world_info": {"tp_size": 2, "world_size": 2},
    "request_info": {"num_requests": 100, "avg_num_concurrent_requests": 30.5},
    "performance": {
        "total_latency_ms": 20000.0,
        "avg_request_latency_ms": 900.0,
        "request_throughput_req_s": 5.0,
        "system_output_throughput_tok_s": 640.0,
        "system_total_throughput_tok_s": 1280.0,
        "request_latency_percentiles_ms": {name: value * 40 for name, value in PERCENTILES.items()},
    },
    "streaming_metrics": {"avg_ttft_ms": 21.0, "avg_tpot_ms": 7.0, "ttft_percentiles": PERCENTILES},
    "decoding_stats": {"mode": "Eagle", "acceptance_length_percentiles": PERCENTILES},
}


def test_a_report_of_trtllm_bench_leaves_out_its_acceptance() -> None:
    run = only(TRTLLM)
    known = figures(run)
    assert [known[name] for name in ("duration_s", "output_tok_per_s", "total_tok_per_s")] == [20.0, 640.0, 1280.0]
    assert [known[name] for name in ("e2e_mean_ms", "e2e_p99_ms", "ttft_p50_ms", "tpot_mean_ms")] == [900, 1600, 20, 7]
    assert run.metrics["acceptance_length"] is None
    assert "counts the prefill as a round" in why(run, "decoding_stats.acceptance_length_percentiles.average")
    assert columns(run) == {"target": "acme/small", "engine": "tensorrt_llm", "engine_version": "1.0.0"}
    assert (run.labels["hardware"], run.labels["decoding_mode"]) == ("2x H100", "Eagle")
    assert "model_path" not in run.labels


def metric(*values: float) -> dict[str, Any]:
    return {"mean": sum(values) / len(values), "std": 0.0, "values": list(values)}


BENCHY: dict[str, Any] = {
    "version": "0.2.2",
    "timestamp": "2026-02-07 19:09:00Z",
    "latency_mode": "api",
    "model": "m",
    "max_concurrency": 2,
    "benchmarks": [
        {
            "concurrency": 2,
            "context_size": 0,
            "prompt_size": 512,
            "response_size": 32,
            "tg_throughput": metric(50.0),
            "ttfr": metric(90.0),
            "e2e_ttft": metric(100.0, 120.0),
        }
    ],
}


def test_llama_benchys_speeds_are_chunks_and_its_ttft_is_ours() -> None:
    run = only(BENCHY)
    assert [run.metrics[f"ttft_{name}_ms"] for name in ("mean", "p50", "p90")] == pytest.approx([110, 110, 118])
    assert columns(run) == {"target": "m", "concurrency": 2, "requested_output_tokens": 32}
    assert "counted in chunks" in why(run, "tg_throughput.mean")
    assert (run.tool_version, run.place, run.labels["prompt_size"]) == ("0.2.2", "benchmarks[0]", "512")
    assert run.metrics["output_tok_per_s"] is None
