"""Arms of several studies, own and imported, beside each other: what is divided, what is named, what is left out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from host.settings import Settings
from interchange.store import import_paths
from lab.errors import QueryError
from lab.study import Load, Slo, Workload
from tests.actors import ADMIN
from tests.interchange.sample_files import DETAILED
from tests.warehouse.runs import circumstances, ingested, write_at_rate
from warehouse.queries.comparing.across_studies import AcrossStudies, Difference, across_document, compare_across

CODE, PROSE = Workload(dataset="code", output_tokens=48), Workload(dataset="prose", output_tokens=48)
AT_FOUR = Load(max_concurrency=4, num_prompts=16)
LLMPERF = {
    "version": "2023-08-31",
    "name": "small",
    "model": "reference",
    "num_concurrent_requests": 4,
    "results_inter_token_latency_s_mean": 0.0121,
    "results_ttft_s_quantiles_p50": 0.05,
    "results_end_to_end_latency_s_mean": 0.88,
    "results_number_errors": 0,
    "results_mean_output_throughput_token_per_s": 290.5,
    "results_num_completed_requests": 2,
    "results_num_completed_requests_per_min": 272.25,
}


def write(settings: Settings, job: str, arm: str, rates: tuple[float, ...], **changes: Any) -> None:
    about: dict[str, Any] = {
        "job_id": job,
        "study_name": f"study of {job}",
        "workload": CODE,
        "load": AT_FOUR,
    } | changes
    name = f"{job} {arm} {about['workload'].dataset} {about['load'].name}"
    for repeat, rate in enumerate(rates):
        write_at_rate(settings, arm, repeat, rate, run_id=f"{name} {repeat}", **about)


@pytest.fixture(scope="module")
def con(shared: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    """Two own studies, a run of vLLM's benchmark, and one of llmperf."""
    write(shared, "ours", "base", (40, 50), slo=Slo(ttft_ms=200))
    write(shared, "ours", "base", (70,), load=Load(max_concurrency=8, num_prompts=16))
    write(shared, "ours", "draft", (80, 90))
    faster = circumstances(hardware="H200")
    write(shared, "theirs", "draft", (90, 100, 110), circumstances=faster, slo=Slo(ttft_ms=50, tpot_ms=9))
    write(shared, "theirs", "draft", (60,), workload=PROSE, circumstances=faster)
    write(shared, "theirs", "draft", (61,), load=Load(max_concurrency=16, num_prompts=16), circumstances=faster)
    labels = {"study": "imported", "dataset": "code", "arm": "spec"}
    import_paths(shared, [DETAILED], labels=labels, actor=ADMIN)
    summary = tmp_path_factory.mktemp("llmperf") / "summary.json"
    summary.write_text(json.dumps(LLMPERF), encoding="utf-8")
    import_paths(shared, [summary], labels={"study": "by llmperf", "arm": "unnamed"}, actor=ADMIN)
    with ingested(shared) as connection:
        yield connection


def named(found: AcrossStudies) -> dict[str, Difference]:
    return {difference.what: difference for difference in found.differences}


def test_own_repeats_and_an_imported_run_have_a_ratio_without_an_interval(con: duckdb.DuckDBPyConnection) -> None:
    found = compare_across(con, ["ours", "imported"])
    (pair,) = found.pairs
    assert pair.ratio is not None
    assert pair.ratio.value == pytest.approx(129.027 / (40 * 50) ** 0.5, rel=1e-4)
    assert pair.ratio.value == pytest.approx((pair.candidate.value or 0) / (pair.baseline.value or 1))
    assert (pair.ratio.low, pair.why) == (None, "no interval: one run of the other arm")
    assert (pair.load, pair.basis) == ("concurrency 4", "2 runs on 2 engine starts and 1 run")
    differences = named(found)
    assert differences["client"] == Difference("client", "Drafthouse", "vllm-bench-serve", ("spec · imported",))
    assert (differences["hardware"].baseline, differences["hardware"].other) == ("2-core processor", None)
    assert differences["hardware"].word == "unknown on one side"
    assert differences["prompt tokens of a request, mean"].other == "96.0"
    assert differences["measured on"].other is None  # the file has a local time without a zone
    assert {"model", "dataset", "greatest concurrency"}.isdisjoint(differences)
    words = [difference.word for difference in found.differences]
    assert words == sorted(words, key=["differs", "unknown on one side", "unknown on both sides"].index)
    assert "draft of study of ours: compared with no draft in pairs, within that study" in found.left_out
    assert "no draft · study of ours, concurrency 8 on code/all/48: no run of the others at this load" in str(
        found.left_out
    )


def test_own_studies_have_unpaired_intervals_and_what_differs(con: duckdb.DuckDBPyConnection) -> None:
    found = compare_across(con, ["ours", "theirs"])
    (pair,) = found.pairs
    assert pair.ratio is not None
    assert pair.ratio.low is not None
    assert pair.ratio.low < pair.ratio.value
    assert pair.why == ""
    assert named(found)["hardware"] == Difference("hardware", "2-core processor", "H200", ("draft · study of theirs",))
    assert {"engine", "temperature", "host"}.isdisjoint(named(found))
    assert "draft · study of theirs, concurrency 4 on prose/all/48: another workload than that of the baseline" in str(
        found.left_out
    )
    assert "concurrency 16 on code/all/48: no run of the baseline at this load" in str(found.left_out)
    turned = compare_across(con, ["theirs", "ours"], baseline="draft")
    assert {other.candidate.of.arm for other in turned.pairs} == {"no draft", "draft"}


def test_another_workload_is_compared_on_demand_and_named(con: duckdb.DuckDBPyConnection) -> None:
    found = compare_across(con, ["ours", "theirs"], any_workload=True)
    assert {pair.candidate.facts["dataset"] for pair in found.pairs} == {"code", "prose"}
    assert (named(found)["dataset"].baseline, named(found)["dataset"].other) == ("code", "prose")


def test_a_figure_that_is_defined_otherwise_is_named_and_not_divided(con: duckdb.DuckDBPyConnection) -> None:
    (pair,) = compare_across(con, ["ours", "by llmperf"]).pairs
    assert pair.ratio is None
    assert pair.why == (
        "no ratio: defined otherwise: baseline tokens counted by the server, here tokens counted by llmperf"
    )
    (pair,) = compare_across(con, ["ours", "by llmperf"], "ttft").pairs
    assert pair.ratio is not None
    assert pair.ratio.value == pytest.approx(0.5)
    (pair,) = compare_across(con, ["ours", "by llmperf"], "tpot_mean_ms").pairs
    assert "TPOT" in pair.why or "Time per output token" in pair.why
    assert "llmperf 2023-08-31 defines it otherwise: includes the time to the first token" in pair.why


def test_goodput_of_different_bounds_and_unpriced_costs_are_not_divided(con: duckdb.DuckDBPyConnection) -> None:
    (pair,) = compare_across(con, ["ours", "theirs"], "goodput_request_per_s").pairs
    assert pair.ratio is None
    assert "baseline requests within TTFT 200 ms, here requests within TTFT 50 ms, TPOT 9 ms" in pair.why
    (pair,) = compare_across(con, ["ours", "theirs"], "cost").pairs
    assert "no price" in pair.why
    found = compare_across(con, ["ours", "theirs"], "cost", price_usd_per_hour=2.0)
    assert found.pairs[0].ratio is not None
    assert found.pairs[0].ratio.value < 1
    assert found.unit == "USD/10^6 output tokens"


def test_chosen_runs_are_compared_alone(con: duckdb.DuckDBPyConnection) -> None:
    chosen = ["ours base code c4-n16 0", "theirs draft code c4-n16 1", "theirs draft code c4-n16 2"]
    found = compare_across(con, ["ours", "theirs"], runs=[*chosen, "gone"])
    (pair,) = found.pairs
    assert [run.run_id for run in (*pair.baseline.runs, *pair.candidate.runs)] == chosen
    assert pair.why == "no interval: one run of the baseline"
    assert "run gone: not of the chosen studies" in str(found.left_out)
    with pytest.raises(QueryError, match="at most 50"):
        compare_across(con, ["ours", "theirs"], runs=[str(at) for at in range(51)])


def test_what_cannot_be_compared_is_refused_in_a_sentence(con: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(QueryError, match="all valid runs are of 'study of ours': choose another study"):
        compare_across(con, ["ours"])
    with pytest.raises(
        QueryError, match="it has no valid run of an arm 'gone': its arms with valid runs are no draft, draft"
    ):
        compare_across(con, ["ours", "theirs"], baseline="gone")
    with pytest.raises(QueryError, match="'engine_waiting' cannot be compared"):
        compare_across(con, ["ours", "theirs"], "engine_waiting")


def test_runs_of_one_imported_arm_on_other_hardware_are_not_pooled(settings: Settings, tmp_path: Path) -> None:
    write(settings, "ours", "base", (40, 50))
    content = json.loads(DETAILED.read_text(encoding="utf-8"))
    for place, hardware in enumerate(("H100", "H200")):
        file = tmp_path / f"{hardware}.json"
        file.write_text(json.dumps(content | {"date": f"20261121-02422{place}"}), encoding="utf-8")
        import_paths(settings, [file], labels={"study": "both", "hardware": hardware, "arm": "spec"}, actor=ADMIN)
    with ingested(settings) as con:
        found = compare_across(con, ["ours", "both"])
    assert [pair.candidate.note for pair in found.pairs] == ["hardware H100", "hardware H200"]
    assert json.loads(json.dumps(across_document(found)))["pairs"][0]["note"] == "hardware H100"


def test_repeats_on_another_host_stay_together_and_unknown_loads_match_nothing(
    settings: Settings, tmp_path: Path
) -> None:
    write(settings, "ours", "base", (40,))
    names = {"run_id": "elsewhere", "job_id": "ours", "study_name": "study of ours"}
    elsewhere = circumstances(host="there", drafthouse_revision="def")
    write_at_rate(settings, "base", 1, 50, workload=CODE, load=AT_FOUR, circumstances=elsewhere, **names)
    write(settings, "theirs", "draft", (80,))
    summary = tmp_path / "summary.json"
    summary.write_text(json.dumps(LLMPERF | {"num_concurrent_requests": None}), encoding="utf-8")
    import_paths(settings, [summary], labels={"study": "at any load", "arm": "unnamed"}, actor=ADMIN)
    with ingested(settings) as con:
        found = compare_across(con, ["ours", "theirs", "at any load"])
    (pair,) = found.pairs
    assert len(pair.baseline.runs) == 2
    assert named(found)["host"].baseline == "there, here"
    assert "neither a concurrency nor a request rate is known" in str(found.left_out)
