"""The study of `drafthouse verify`, and what its runs say of the host."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from jobs.engines.capabilities import Capabilities
from jobs.host_report import Finding, HostReport, last_report, write_report, write_text
from services.verifying.agreement import compared
from services.verifying.our_client import Figures
from services.verifying.pace import compared as pace_compared
from services.verifying.pace import pace
from services.verifying.report_text import report_text
from services.verifying.rival import TARGET
from services.verifying.study import judged, verification_study


def engine(name: str, *methods: str) -> Capabilities:
    return Capabilities(engine=name, kind="vllm", version="0.32", methods=methods, flags=None, gpus=())


ENGINES = [engine("vllm", "ngram", "draft_model", "mtp"), engine("older", "ngram")]
ARMS = [arm.name for arm in verification_study(ENGINES).arms]


def run(arm: str, **changes: Any) -> dict[str, Any]:
    return {
        "run_id": arm,
        "arm": arm,
        "status": "completed",
        "error": None,
        "requests_completed": 12,
        "completion_tokens": 384,
        "engine_version": "0.32",
        "engine_start_s": 31.0,
        "output_tok_per_s": 100.0 if "no draft" in arm else 150.0,
        "acceptance_length": None if "no draft" in arm else 2.5,
    } | changes


def findings(invalid: dict[str, str] | None = None, **changed: dict[str, Any]) -> dict[str, Finding]:
    """Of the study's runs, of which those of arms named in `changed` are otherwise; None leaves an arm out."""
    runs = [run(arm, **changed.get(arm, {})) for arm in ARMS if changed.get(arm, {}) is not None]
    against = pd.DataFrame({"run_id": list(invalid or {}), "sentence": list((invalid or {}).values())})
    return {finding.what: finding for finding in judged(ENGINES, TARGET, pd.DataFrame(runs), against, "the-job")}


def test_every_engine_and_method_of_the_reference_models_is_measured() -> None:
    assert ARMS == [
        "vllm: no draft",
        "vllm: no draft again",
        "vllm: draft_model",
        "vllm: ngram",
        "older: no draft",
        "older: ngram",
    ]
    assert verification_study(ENGINES).baseline.name == "vllm: no draft"
    own = verification_study(ENGINES, "Qwen/Qwen3-8B")
    assert [arm.name for arm in own.arms if arm.speculation] == ["vllm: ngram", "older: ngram"]


def test_a_host_where_all_is_right_says_what_it_measured() -> None:
    by_what = findings()
    assert all(finding.ok for finding in by_what.values())
    assert by_what["engine vllm"].found == (
        "vllm 0.32 started in 31 s, answered 12 requests with the 384 tokens asked for, 100 tok/s"
    )
    assert by_what["vllm: draft_model"].found == "runs; acceptance length 2.50, 1.50× of no draft once"
    assert by_what["vllm: other methods"].found.startswith("listed, not tried here: mtp: ")
    assert by_what["identical runs"].found.endswith("differ by 0.0 % in output throughput")


@pytest.mark.parametrize(
    ("arm", "change", "what", "found"),
    [
        ("vllm: no draft", {"status": "failed", "error": "CUDA out\nof"}, "engine vllm", "CUDA out"),
        ("vllm: no draft", {"completion_tokens": 383}, "engine vllm", "answered 12 requests with 383 tokens"),
        ("older: ngram", {"status": "failed", "error": "no such method"}, "older: ngram", "no such method"),
        ("older: ngram", {"acceptance_length": None}, "older: ngram", "runs, and reports no acceptance"),
        ("older: ngram", None, "older: ngram", "not measured: the study ended before"),
        (
            "vllm: no draft again",
            {"output_tok_per_s": 70.0},
            "identical runs",
            "two engine starts without a draft differ",
        ),
        ("vllm: no draft again", {"status": "failed"}, "identical runs", "not measured: one of the two failed"),
    ],
)
def test_what_is_wrong_is_found_with_what_to_do(arm: str, change: Any, what: str, found: str) -> None:
    by_what = findings(**{arm: change})
    wrong = {name: finding for name, finding in by_what.items() if not finding.ok}
    assert what in wrong
    assert wrong[what].found.startswith(found)
    assert all(finding.remedy for finding in wrong.values())


def test_an_invalid_run_is_named_with_the_checks_words() -> None:
    by_what = findings(invalid={"older: no draft": "the client was late"})
    assert (by_what["engine older"].ok, by_what["engine older"].found) == (False, "the client was late")


@pytest.mark.parametrize(("throughput", "ok"), [(100.0, True), (124.0, True), (130.0, False), (76.0, False)])
def test_the_client_agrees_with_the_rival_within_a_quarter(throughput: float, *, ok: bool) -> None:
    ours, theirs = Figures(throughput, 50.0, 20.0, 30.0), Figures(100.0, 50.0, 20.0, 30.0)
    finding = compared([ours, ours], [theirs, theirs])
    assert finding.ok is ok
    assert finding.found.endswith("TTFT p50 1.00×, TPOT p50 1.00×")


def test_our_client_is_right_if_it_sees_the_pace_of_the_server() -> None:
    finding = pace()
    seen_ms, written_ms = map(float, re.findall(r"([\d.]+) ms", finding.found)[:2])
    assert written_ms > 10
    assert finding.ok is (abs(seen_ms / written_ms - 1) <= 0.05)
    written = {"gap_mean_ms": 20.0, "gap_p99_ms": 21.0}
    assert pace_compared(20.9, 25.0, written).ok
    late = pace_compared(21.1, 25.0, written)
    assert (late.ok, late.found) == (
        False,
        "21.10 ms between chunks where the server wrote one each 20.00 ms; p99 25.0 and 21.0 ms",
    )


def test_one_file_tells_a_colleague_what_was_found(tmp_path: Path) -> None:
    made = HostReport(
        datetime(2026, 11, 23, 12, tzinfo=UTC), "job-1", (Finding("a|b", ok=False, found="x", remedy="do y"),)
    )
    runs = pd.DataFrame([run("plain", ttft_p50_ms=12.345678, acceptance_length=None)])
    text = write_text(tmp_path, report_text(made, ENGINES, runs, 61.4)).read_text(encoding="utf-8")
    assert "2026-11-23 12:00 UTC, study job-1, took 61 s: 1 of 1 lines wrong." in text
    assert "- engines: vllm 0.32, older 0.32" in text
    assert "| WRONG | a\\|b | x | do y |" in text
    assert "| arm | status | output tok/s | TTFT p50 ms | acceptance length |" in text
    assert "| plain | completed | 150 | 12.35 | - |" in text


def test_the_last_report_is_kept_whole(tmp_path: Path) -> None:
    assert last_report(tmp_path) is None
    made = HostReport(datetime(2026, 11, 23, tzinfo=UTC), "job", (Finding("engine", ok=False, found="x", remedy="y"),))
    write_report(tmp_path, made)
    assert last_report(tmp_path) == made
    assert not made.ok
    (tmp_path / "verification.json").write_text("{")
    assert last_report(tmp_path) is None
