"""`drafthouse advise`, as a person or a program types it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from host.settings import Settings
from lab.advice import prediction
from tests.cli.homes import Home, home_with_databases
from tests.warehouse.studies import RunSpec, write
from warehouse.ingest.service import ingest_all


def advice_of(home: Home, *arguments: str) -> list[dict[str, Any]]:
    answer = home.ask("advise", "small", *arguments, "--json")
    assert answer.returncode == 0, answer.stderr
    advice: list[dict[str, Any]] = json.loads(answer.stdout)["advice"]
    return advice


def test_it_begins_with_the_answer(studied: Home) -> None:
    lines = studied.ask("advise", "small").stdout.splitlines()
    document = json.loads(studied.ask("advise", "small", "--json").stdout)
    printed = document["answer"]
    assert document["by_context"] == {}  # its prompts are of one length
    said = [*(line["sentence"] for line in printed["lines"]), *printed["sentences"][1:], ""]
    assert lines[: len(said)] == said
    assert printed["headline"]["arm"] == "drafted well"
    assert lines[0].startswith("Throughput at concurrency ")
    assert printed["follow_up"] is None
    assert {(choice["action"], *(pair["arm"] for pair in choice["best"])) for choice in printed["choices"]} == {
        ("enable", "drafted well")
    }
    assert {pair["arm"] for choice in printed["choices"] for pair in (*choice["behind"], *choice["rejected"])} == {
        "drafted",
        "same",
    }
    assert printed["inconclusive"] is None


def test_every_place_has_a_verdict_with_its_evidence(studied: Home) -> None:
    advice = advice_of(studied)
    assert [
        (suggestion["workload"][:5], suggestion["pattern"], suggestion["concurrency"]) for suggestion in advice
    ] == [
        ("mixed", "c2", 2),
        ("mixed", "c4", 4),
        ("other", "c2", 2),
        ("other", "c4", 4),
    ]
    assert {(suggestion["action"], suggestion["arm"], suggestion["gamma"]) for suggestion in advice} == {
        ("enable", "drafted well", 3)
    }
    assert all(suggestion["reasons"][0]["basis"] == "measured" for suggestion in advice)
    assert (
        "mixed.jsonl/all/64, c2 (concurrency 2): enable drafted well (k = 3)" in studied.ask("advise", "small").stdout
    )


def test_every_run_stands_beside_what_theory_predicts_for_it(studied: Home) -> None:
    for suggestion in advice_of(studied):
        assert len(suggestion["runs"]) == 6  # two drafting arms, three repeats
        for run in suggestion["runs"]:
            assert run["predicted_length"] == pytest.approx(prediction.tau(run["alpha"], run["gamma"]))
            assert run["predicted_length"] > run["acceptance_length"]  # later positions are accepted less often here
            assert run["speedup"] > 1
            assert (run["predicted_speedup"] is None) == (suggestion["concurrency"] == 2)
            assert run["break_even_alpha"] < run["alpha"]


def test_a_drafts_cost_may_be_told(studied: Home) -> None:
    for suggestion in advice_of(studied, "--draft-cost", "0.1"):
        for run in suggestion["runs"]:
            assert run["draft_cost_from"] == "stated"
            assert run["predicted_speedup"] == pytest.approx(prediction.speedup(run["alpha"], 3, 0.1))
    assert "below 0" in studied.refusal("advise", "small", "--draft-cost", "-1")


def test_a_study_without_speculation_is_told_what_to_measure(tmp_path: Path) -> None:
    home = home_with_databases(tmp_path)
    settings = Settings(home=home.folder)
    write(settings, RunSpec("plain", 0))
    ingest_all(settings)
    answer = home.ask("advise", "small")
    assert answer.stdout.splitlines() == [
        "No answer yet: only the baseline (plain) has valid runs.",
        "",
        (
            "No speculating arm has a valid run beside the baseline: "
            "measure one with 3 drafted tokens next (rule of thumb)."
        ),
    ], answer.stderr
    assert advice_of(home) == []


def test_people_read_the_same_run_by_run(studied: Home) -> None:
    lines = studied.ask("advise", "small").stdout.splitlines()
    (line,) = (line for line in lines if line.startswith("drafted-mixed-c4-0"))
    assert "this arm at its least concurrency" in line
    assert line.split()[:9] == [
        "drafted-mixed-c4-0",
        "mixed.jsonl/all/64",
        "c4",
        "drafted",
        "3",
        "0.564",
        "0.339",
        "2.06",
        "1.94",
    ]
