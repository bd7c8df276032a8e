"""The ways in which a foreign file misleads, one by one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from interchange.files import ForeignFile, read_paths
from interchange.reading import read_runs
from lab.errors import ForeignFileError
from tests.interchange import samples_read
from tests.interchange.foreign_files import imported, only, why
from tests.interchange.sample_files import SAMPLES
from warehouse.bundles.imported_run import ImportedRun


def sample(name: str) -> Any:
    return json.loads((SAMPLES / name).read_text(encoding="utf-8").splitlines()[0])


def test_a_failed_request_has_no_latency_although_the_file_says_zero() -> None:
    run = samples_read.run("vllm-bench/spec-somefail-c4.json")
    assert sample("vllm-bench/spec-somefail-c4.json")["ttfts"][2] == 0.0
    assert run.requests is not None
    failed = run.requests.where(~run.requests.is_completed)
    assert failed.texts("error").to_pylist() == ["Bad Request"] * 3
    assert failed.texts("ttft_ms").to_pylist() == [None] * 3
    assert run.metrics["ttft_p50_ms"] == pytest.approx(325.6, abs=0.1)


def test_a_run_of_failed_requests_has_no_latency_and_no_throughput() -> None:
    content = sample("vllm-bench/spec-somefail-c4.json")
    zeros = {key: 0.0 for key in content if key.endswith("_ms")} | {"completed": 0, "failed": 12}
    zeros |= dict.fromkeys(("total_input_tokens", "total_output_tokens", "output_throughput"), 0)
    zeros |= {"request_throughput": 0.0, "total_token_throughput": 0.0}
    plain = {key: value for key, value in content.items() if not isinstance(value, list)}
    run = only(plain | zeros)
    assert (run.metrics["requests_completed"], run.metrics["requests_failed"]) == (0, 12)
    assert [name for name, value in run.metrics.items() if value == 0.0] == ["requests_completed"]


def test_a_plain_file_keeps_printed_figures_and_says_what_is_missing() -> None:
    content = sample("vllm-bench/spec-code-c4.json")
    arrays = ("ttfts", "itls", "latencies", "start_times", "input_lens", "output_lens", "errors", "generated_texts")
    run = only({key: value for key, value in content.items() if key not in arrays})
    assert run.requests is None
    assert "--save-detailed" in why(run, "requests")
    assert run.metrics["ttft_p99_ms"] == content["p99_ttft_ms"]
    assert run.metrics["ttft_p95_ms"] is None  # the file has no 95th percentile
    detailed = samples_read.run("vllm-bench/spec-code-c4.json")
    assert detailed.metrics["ttft_p95_ms"] is not None


def test_metadata_of_the_command_line_becomes_labels() -> None:
    labels = samples_read.run("vllm-bench/spec-code-c4.json").labels
    assert (labels["k"], labels["arm"], labels["date"]) == ("3", "spec", "20261121-024226")


def test_a_sweep_names_its_draft_model_and_its_repeat() -> None:
    run = samples_read.run("vllm-bench-sweep/SERVE--spec-k3-BENCH--c4/run=1.json")
    assert run.tool == "vllm-bench-sweep"
    columns = [run.columns[name] for name in ("method", "draft_model", "num_speculative_tokens", "repeat")]
    assert columns == ["draft_model", "reference-draft", 3, 1]


def test_a_run_of_a_sweeps_summary_is_that_of_its_file() -> None:
    summary = samples_read.file("vllm-bench-sweep/SERVE--spec-k3-BENCH--c1/summary.json").runs
    alone = samples_read.file("vllm-bench-sweep/SERVE--spec-k3-BENCH--c1/run=0.json").runs
    assert summary[0].run_id == alone[0].run_id
    assert len(samples_read.folder("vllm-bench-sweep").runs) == 8


def test_guidellms_time_per_token_with_the_first_is_left_out() -> None:
    run = samples_read.run("guidellm/spec-code-concurrent-4.json")
    assert run.printed["metrics.time_per_output_token_ms.successful.mean"] == pytest.approx(42.32, abs=0.01)
    assert "includes the time to the first token" in why(run, "metrics.time_per_output_token_ms.successful.mean")


def test_guidellms_chunks_are_not_the_servers_tokens() -> None:
    """GuideLLM counts chunks if the server sends no usage; with a draft a chunk has several tokens."""
    report = json.loads((SAMPLES / "guidellm/spec-code-synchronous.json").read_text())
    for request in report["benchmarks"][0]["requests"]["successful"]:
        request["output_metrics"] |= {"text_tokens": None, "total_tokens": None}
        request["output_tokens"] = request["info"]["timings"]["token_iterations"]
    run = only(report)
    names = ("completion_tokens", "output_tok_per_s", "total_tok_per_s", "tpot_mean_ms")
    assert [run.metrics[name] for name in names] == [None] * 4
    assert why(run, "completion_tokens") == "the server sent no usage: GuideLLM counted chunks, not tokens"
    assert run.metrics["ttft_mean_ms"] is not None
    assert run.metrics["acceptance_length"] is not None


def test_guidellms_own_tokens_are_not_the_servers() -> None:
    content = sample("guidellm/spec-code-synchronous.json")
    content["benchmarks"][0]["config"]["prefer_response_metrics"] = False
    run = only(content)
    assert run.metrics["completion_tokens"] is run.metrics["output_tok_per_s"] is run.metrics["tpot_mean_ms"] is None


def test_aiperf_alone_leaves_out_tpot_of_another_count() -> None:
    run = samples_read.file("aiperf/spec-code-c4/profile_export_aiperf.json").runs[0]
    assert run.metrics["tpot_mean_ms"] is None
    assert why(run, "tpot_mean_ms").endswith("743; the server counted 768")
    assert run.metrics["completion_tokens"] == 768


def test_aiperfs_mean_of_acceptance_over_requests_is_not_that_over_rounds() -> None:
    run = samples_read.run("aiperf/spec-code-c4/profile_export_aiperf.json")
    assert run.printed["spec_decode_acceptance_length.avg"] == pytest.approx(2.039, abs=0.001)
    assert run.metrics["acceptance_length"] == pytest.approx(1 + 349 / 416)


def test_aiperfs_lines_alone_are_a_run_with_its_tokens_and_acceptance() -> None:
    run = samples_read.file("aiperf/spec-code-c4/profile_export.jsonl").runs[0]
    together = samples_read.run("aiperf/spec-code-c4/profile_export_aiperf.json")
    for name in ("requests_completed", "completion_tokens", "acceptance_rate", "tpot_mean_ms", "icl_p99_ms"):
        assert run.metrics[name] == together.metrics[name]
    assert run.columns["started_at"] == "2026-11-21T02:40:22.754764+00:00"


def test_aiperfs_warm_up_is_left_out_and_failures_have_no_latency() -> None:
    path = SAMPLES / "aiperf/spec-code-c2/profile_export.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[0]["metadata"]["benchmark_phase"] = "warmup"
    lines[1] |= {"metrics": {"error_isl": {"value": 96, "unit": "tokens"}}, "error": {"code": 500, "message": "no"}}
    text = "\n".join(map(json.dumps, lines))
    (run,) = read_runs([ForeignFile("profile_export.jsonl", text.encode())]).runs
    assert (run.metrics["requests_completed"], run.metrics["requests_failed"]) == (6, 1)


@pytest.mark.parametrize("has_failed", [False, True])
def test_aiperfs_files_of_a_run_without_first_tokens_are_one_run(*, has_failed: bool) -> None:
    folder = SAMPLES / "aiperf/spec-code-c4"
    summary = json.loads((folder / "profile_export_aiperf.json").read_text())
    lines = [json.loads(line) for line in (folder / "profile_export.jsonl").read_text().splitlines()]
    kept = ("request_latency", "usage_completion_tokens", "usage_prompt_tokens")
    for line in lines:
        line["metrics"] = {} if has_failed else {name: line["metrics"][name] for name in kept}
        line["error"] = {"message": "no"} if has_failed else None
    gone: tuple[str, ...] = ("time_to_first_token", "inter_chunk_latency", "inter_token_latency")
    gone = (*gone, "request_count", "request_latency", "request_throughput") if has_failed else gone
    summary = {name: value for name, value in summary.items() if name not in gone}
    summary |= {"error_request_count": {"unit": "requests", "avg": len(lines)}} if has_failed else {}
    files = {"profile_export_aiperf.json": [summary], "profile_export.jsonl": lines}
    (run,) = read_runs(
        [ForeignFile(name, "\n".join(map(json.dumps, values)).encode()) for name, values in files.items()]
    ).runs
    assert run.requests is not None
    assert len(run.requests) == len(lines)


def test_sglangs_accept_length_is_cumulative_so_it_is_left_out() -> None:
    run = only(sample("sglang-bench-serving/spec-random64x48-c4.jsonl") | {"accept_length": 2.7})
    assert run.metrics["acceptance_length"] is None
    assert "cumulative" in why(run, "accept_length")


def test_sglangs_own_endpoint_has_gaps_only_of_single_tokens() -> None:
    content = sample("sglang-bench-serving/spec-random64x48-c4.jsonl") | {"backend": "sglang"}
    chunks = only(content)
    assert chunks.metrics["icl_mean_ms"] is chunks.metrics["itl_mean_ms"] is None
    tokens = only(content | {"itls": [[0.01] * 47] * 16})
    assert tokens.metrics["itl_mean_ms"] == pytest.approx(10.0)
    assert tokens.metrics["icl_mean_ms"] is None


def test_genai_benchs_unit_is_read_and_never_guessed() -> None:
    folder = SAMPLES / "genai-bench/spec-d64x48-c4"
    name = "D64_48_text-to-text_num_concurrency_4_time_5s.json"
    content = json.loads((folder / name).read_text())
    del content["_time_unit"]
    metadata = json.loads((folder / "experiment_metadata.json").read_text()) | {"metrics_time_unit": "ms"}
    with pytest.raises(ForeignFileError, match="no time unit: import experiment_metadata"):
        imported(content)
    files = [ForeignFile("f/a.json", json.dumps(content).encode()), ForeignFile("f/b", json.dumps(metadata).encode())]
    (run,) = read_runs(files).runs
    assert run.metrics["ttft_mean_ms"] == pytest.approx(0.1694, abs=1e-4)
    assert run.columns["num_prompts"] is None  # 16 were the limit, and 20 were sent


def test_inference_perfs_requests_are_cut_into_the_stages_they_belong_to() -> None:
    runs = samples_read.folder("inference-perf/spec-synthetic64x32-c2-4").runs
    assert [(run.columns["concurrency"], 0 if run.requests is None else len(run.requests)) for run in runs] == [
        (2, 8),
        (4, 8),
    ]


def test_inference_perf_without_requests_leaves_out_its_own_token_counts() -> None:
    path = "inference-perf/spec-synthetic64x48-c4/stage_0_lifecycle_metrics.json"
    run = samples_read.file(path).runs[0]
    assert run.metrics["tpot_mean_ms"] is None
    assert run.metrics["output_tok_per_s"] == pytest.approx(768 / 8.5069, abs=0.01)


def test_inference_perfs_summary_is_a_run_only_where_no_stage_is() -> None:
    path = "inference-perf/spec-synthetic64x48-c4/summary_lifecycle_metrics.json"
    assert samples_read.file(path).runs[0].columns["concurrency"] is None
    assert len(samples_read.folder("inference-perf/spec-synthetic64x48-c4").runs) == 1


def test_a_figure_that_the_files_own_requests_contradict_is_doubted() -> None:
    run = only(sample("vllm-bench/spec-code-c4.json") | {"mean_ttft_ms": 100.0})
    assert run.doubts == ("ttft_mean_ms: the file says 100, but its own requests give 211.231",)
    assert run.metrics["ttft_mean_ms"] == pytest.approx(211.231, abs=0.001)


def test_a_format_is_told_by_content_and_not_by_name(tmp_path: Path) -> None:
    hidden = tmp_path / "holiday.jpg"
    hidden.write_bytes((SAMPLES / "vllm-bench/spec-code-c1.json").read_bytes())
    (run,) = read_runs(read_paths([hidden])).runs
    assert run.tool == "vllm-bench-serve"


def test_a_folder_skips_what_is_no_result_and_says_so() -> None:
    skipped = samples_read.folder("inference-perf/spec-synthetic64x48-c4").skipped
    assert [(line.partition(" (")[0], line.rpartition("/")[2]) for line in skipped] == [
        ("1 file", "config.yaml"),
        ("1 file", "validation.json"),
        ("1 file", "summary_lifecycle_metrics.json"),
    ]
    assert skipped[0].startswith("1 file (YAML): ")


BETWEEN = [f"{name}_{statistic}_ms" for name in ("tpot", "icl", "itl") for statistic in ("mean", "p50", "p90", "p99")]


@pytest.mark.parametrize("path", ["vllm-bench/spec-code-c4.json", "sglang-bench-serving/spec-random64x48-c4.jsonl"])
def test_answers_of_one_token_have_no_latency_between_tokens(path: str) -> None:
    arrays = ("ttfts", "itls", "latencies", "start_times", "input_lens", "output_lens", "errors", "generated_texts")
    content = sample(path)
    plain = {key: value for key, value in content.items() if key not in arrays}
    one_token = plain | {"total_output_tokens": content["completed"]}
    run = only(one_token)
    assert [run.metrics[name] for name in BETWEEN] == [None] * len(BETWEEN)
    assert run.metrics["ttft_mean_ms"] is not None
    assert "no answer has a second token" in {field.why for field in run.left_out}
    zero = plain | {key: 0.0 for key in content if key.endswith(("_tpot_ms", "_itl_ms"))}
    assert [only(zero).metrics[name] for name in BETWEEN] == [None] * len(BETWEEN)
    lengths = [1] * len(content["output_lens"])
    gaps: list[list[float]] = [[] for _ in lengths]
    detailed = content | {"output_lens": lengths, "itls": gaps, "total_output_tokens": content["completed"]}
    assert [only(detailed).metrics[name] for name in BETWEEN] == [None] * len(BETWEEN)


ARRAYS = ("ttfts", "itls", "latencies", "start_times", "input_lens", "output_lens", "errors", "generated_texts")
DETAILED = ("vllm-bench/spec-code-c4.json", "sglang-bench-serving/spec-random64x48-c4.jsonl")


def with_first_token(path: str, statistics: Any, arrays: Any, *, has_requests: bool) -> ImportedRun:
    """Read a sample of several tokens an answer, with other times to first token."""
    content = sample(path)
    e2e = [first + sum(gaps) for first, gaps in zip(content["ttfts"], content["itls"], strict=True)]
    content |= {"itls": [[] for _ in e2e], "ttfts": arrays(e2e), "latencies": e2e} if has_requests else {}
    changed = {key: statistics(key, content) for key in content if key.endswith(("_ttft_ms", "_tpot_ms", "_itl_ms"))}
    kept = {key: value for key, value in content.items() if has_requests or key not in ARRAYS}
    run = only(kept | changed)
    assert (run.requests is not None) == has_requests
    return run


@pytest.mark.parametrize("has_requests", [False, True])
@pytest.mark.parametrize("path", DETAILED)
def test_a_time_per_token_from_a_first_token_that_was_not_timed_is_left_out(path: str, *, has_requests: bool) -> None:
    """A client that timed no first token writes 0, and divides the whole latency by the other tokens."""

    def statistics(key: str, content: dict[str, Any]) -> float:
        return float(content["mean_tpot_ms"]) + 4 if "tpot" in key else 0.0

    run = with_first_token(path, statistics, lambda e2e: [0.0] * len(e2e), has_requests=has_requests)
    names = [f"{name}_{statistic}_ms" for name in ("ttft", "tpot") for statistic in ("mean", "p50", "p99")]
    assert [run.metrics[name] for name in names] == [None] * 6
    assert why(run, "tpot_mean_ms") == "every request has a time to first token of 0 ms: it was not measured"
    assert run.metrics["requests_completed"] == 16
    assert run.requests is None or not (run.requests.known("ttft_ms") | run.requests.known("tpot_ms")).any()


@pytest.mark.parametrize("has_requests", [False, True])
@pytest.mark.parametrize("path", DETAILED)
def test_answers_that_came_as_a_whole_have_no_time_to_first_token(path: str, *, has_requests: bool) -> None:
    """Without streaming, clients write the time of the whole answer as that of its first token."""

    def statistics(key: str, content: dict[str, Any]) -> float:
        whole = content.get(key.replace("_ttft_", "_e2e_latency_"), content.get(key.replace("_ttft_", "_e2el_"), 750.0))
        return float(whole) if "ttft" in key else 0.0

    run = with_first_token(path, statistics, lambda e2e: e2e, has_requests=has_requests)
    names = [f"{name}_{statistic}_ms" for name in ("ttft", "tpot", "icl") for statistic in ("mean", "p50", "p99")]
    assert [run.metrics[name] for name in names] == [None] * 9
    assert why(run, "ttft_mean_ms") == "each answer came as a whole: the time to its first token was not measured"
    assert run.requests is None or not (run.requests.known("ttft_ms") | run.requests.known("tpot_ms")).any()


@pytest.mark.parametrize("has_requests", [False, True])
def test_sglangs_time_per_token_below_0_means_that_answers_came_as_a_whole(*, has_requests: bool) -> None:
    """Its client notes a first token that ends the answer some microseconds after that end."""

    def statistics(key: str, content: dict[str, Any]) -> float:
        return -0.0004 if key == "median_tpot_ms" else float(content[key])

    run = with_first_token(DETAILED[1], statistics, lambda e2e: e2e, has_requests=has_requests)
    assert [run.metrics[name] for name in ("ttft_mean_ms", "tpot_mean_ms", "tpot_p50_ms")] == [None] * 3
    assert why(run, "ttft, tpot") == "a time per token is below 0: most answers came as a whole"
    assert run.metrics["e2e_mean_ms"] == pytest.approx(1017.957726)


def test_gaps_of_which_one_is_unknown_are_no_gaps_of_0() -> None:
    content = sample(DETAILED[0])
    content["itls"][0][1] = None
    del content["latencies"]
    run = only({key: value for key, value in content.items() if not key.endswith("_tpot_ms")})
    assert run.requests is not None
    known = [run.requests.known(name).tolist() for name in ("chunk_gaps_ms", "tpot_ms", "e2e_ms")]
    assert [column[:2] for column in known] == [[False, True]] * 3
    assert run.metrics["tpot_mean_ms"] is None


def test_a_run_without_drafts_has_no_acceptance() -> None:
    nothing = {"spec_decode_num_drafts": 0, "spec_decode_draft_tokens": 0, "spec_decode_accepted_tokens": 0}
    printed = {"spec_decode_acceptance_rate": 0.0, "spec_decode_acceptance_length": 1.0}
    positions = {"spec_decode_per_position_acceptance_rates": [0.0, 0.0]}
    run = only(sample("vllm-bench/spec-code-c4.json") | nothing | printed | positions)
    names = ("acceptance_rate", "acceptance_length", "acceptance_per_position")
    assert [run.metrics[name] for name in names] == [None] * 3


def aiperf(schema: str, **config: Any) -> Any:
    summary = json.loads((SAMPLES / "aiperf/spec-code-c2/profile_export_aiperf.json").read_text())
    endpoint = {"type": "chat", "model_names": ["acme/small"]}
    return only(summary | {"schema_version": schema, "input_config": {"endpoint": endpoint} | config}).columns


BURST = {"concurrency": 6, "arrival_pattern": "concurrency_burst", "request_count": 60}
POISSON = {"request_rate": 2.5, "arrival_pattern": "poisson", "request_count": 60}
WARM, MEASURED = {"name": "warmup", "requests": 4}, {"name": "profiling", "concurrency": 16}


@pytest.mark.parametrize(
    ("schema", "config", "expected"),
    [
        ("1.0", {"loadgen": BURST}, (6, None, 60)),
        ("1.0", {"loadgen": POISSON}, (None, 2.5, 60)),
        ("1.3", {"phases": [{"name": "profiling", "type": "poisson", "requests": 60, "rate": 2.5}]}, (None, 2.5, 60)),
        ("1.3", {"phases": [WARM, MEASURED]}, (16, None, None)),
        ("1.4", {"phases": [MEASURED | {"type": "fixed_schedule"}]}, (None, None, None)),
    ],
)
def test_aiperfs_load_is_read_in_every_supported_schema(
    schema: str, config: dict[str, Any], expected: tuple[int | None, float | None, int | None]
) -> None:
    columns = aiperf(schema, **config)
    assert (columns["concurrency"], columns["request_rate_rps"], columns["num_prompts"]) == expected
    assert columns["target"] == "acme/small"


def test_a_loop_of_which_the_file_says_no_rate_is_unknown() -> None:
    content = sample("vllm-bench/spec-code-c4.json")
    assert only(content).columns["concurrency"] == 4
    del content["request_rate"]
    assert only(content).columns["concurrency"] is None


def test_sglangs_requests_by_a_trace_are_neither_a_rate_nor_a_closed_loop() -> None:
    content = sample("sglang-bench-serving/spec-random64x48-c4.jsonl") | {"max_concurrency": 4}
    assert only(content).columns["concurrency"] == 4
    columns = only(content | {"request_rate": "trace"}).columns
    assert (columns["concurrency"], columns["request_rate_rps"]) == (None, None)


def test_inference_perfs_sessions_without_a_limit_are_neither_a_rate_nor_a_closed_loop() -> None:
    """Of sessions it writes their number at once, 0 for any number, and their rate, which is not that of requests."""
    folder = SAMPLES / "inference-perf/spec-synthetic64x48-c4"
    stage = json.loads((folder / "stage_0_lifecycle_metrics.json").read_text())
    stage["load_summary"] |= {"concurrency": 0, "requested_rate": 0.5}
    columns = only(stage).columns
    assert (columns["concurrency"], columns["request_rate_rps"]) == (None, None)
    del stage["load_summary"]["concurrency"]
    assert only(stage).columns["request_rate_rps"] == 0.5
    stage["load_summary"]["requested_rate"] = 0.0
    assert only(stage).columns["request_rate_rps"] is None


def test_vllms_infinite_burstiness_is_a_constant_rate() -> None:
    run = only(sample("vllm-bench/spec-code-c4.json") | {"request_rate": 2.5, "burstiness": float("inf")})
    assert (run.columns["request_rate_rps"], run.columns["burstiness"]) == (2.5, None)
    assert why(run, "burstiness") == "infinite: requests at a constant rate"


def test_waits_for_the_clients_own_limit_are_no_labels() -> None:
    names = ("mean_client_queue_time_ms", "p99_e2el_including_client_queue_ms")
    run = only(sample("vllm-bench/spec-code-c4.json") | dict.fromkeys(names, 12.5))
    assert [(run.printed[name], name in run.labels) for name in names] == [(12.5, False)] * 2


def test_a_percentile_with_a_point_in_its_name_is_read() -> None:
    run = only(sample("vllm-bench/spec-code-c4.json") | {"p99.9_ttft_ms": 400.5})
    assert run.printed["p99.9_ttft_ms"] == 400.5
    assert "no column" in why(run, "p99.9_ttft_ms")


def test_goodput_of_earlier_versions_is_no_label() -> None:
    run = only(sample("vllm-bench/spec-code-c4.json") | {"request_goodput:": 2.9})
    assert run.metrics["goodput_request_per_s"] == 2.9
    assert "request_goodput:" not in run.labels


@pytest.mark.parametrize(("ratio", "lengths"), [(1.0, (64, 48)), (0.0, (None, None)), (None, (None, None))])
def test_sglangs_random_prompts_have_a_length_only_without_a_range(
    ratio: float | None, lengths: tuple[int | None, int | None]
) -> None:
    content = sample("sglang-bench-serving/spec-random64x48-c4.jsonl") | {"random_range_ratio": ratio}
    columns = only(content | {"random_input_len": 64, "random_output_len": 48}).columns
    assert (columns["input_tokens"], columns["requested_output_tokens"]) == lengths


def test_inference_perfs_server_metrics_and_adapters_are_no_runs() -> None:
    folder = SAMPLES / "inference-perf/spec-synthetic64x48-c4"
    stage = (folder / "stage_0_lifecycle_metrics.json").read_bytes()
    server = {
        "benchmark_time_seconds": 0.0,
        "load_summary": {},
        "failures": {},
        "successes": {"count": 9, "queue_len": {}},
    }
    metrics = ForeignFile("f/stage_0_prometheus_metrics.json", json.dumps(server).encode(), was_named=False)
    with pytest.raises(ForeignFileError, match="the server's metrics, not a run: import stage_N"):
        read_runs([metrics])
    part = json.loads(stage)
    part["successes"]["count"] -= 1
    adapter = ForeignFile("f/adapter_a_stage_0_lifecycle_metrics.json", json.dumps(part).encode(), was_named=False)
    whole = ForeignFile("f/stage_0_lifecycle_metrics.json", stage, was_named=False)
    read = read_runs([metrics, adapter, whole])
    assert [run.source.name for run in read.runs] == ["f/stage_0_lifecycle_metrics.json"]
    assert [kind.partition(" (")[2].partition(",")[0].partition(":")[0] for kind in read.skipped] == [
        "the server's metrics",
        "a report on all stages",
    ]


def test_the_users_labels_override_the_files_and_change_no_id() -> None:
    content = (SAMPLES / "vllm-bench/spec-code-c4.json").read_bytes()
    (run,) = read_runs([ForeignFile("a.json", content)], labels={"arm": "mine", "site": "here"}).runs
    assert (run.labels["arm"], run.labels["site"], run.labels["k"]) == ("mine", "here", "3")
    assert run.run_id == samples_read.run("vllm-bench/spec-code-c4.json").run_id
