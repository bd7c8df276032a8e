"""`drafthouse published`, as a person or a program types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.homes import Home, home_with_databases


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return home_with_databases(tmp_path)


def test_the_sources_are_listed_with_their_doubts(home: Home) -> None:
    printed = home.ask("published").stdout
    assert "friday-night-2025-12" in printed
    assert "doubt about practice-2026: about 4.5 tokens a round" in printed


def test_a_program_gets_every_figure_as_it_was_printed(home: Home) -> None:
    printed = json.loads(home.ask("published", "--json").stdout)
    assert [len(printed[name]) for name in ("sources", "figures", "doubts")] == [5, 198, 5]
    (cold,) = [figure for figure in printed["figures"] if figure["printed"] == "37"]
    assert (cold["value"], cold["unit"], cold["scale"], cold["ratio_to_baseline"]) == (37, "tok/s", "absolute", None)
    assert cold["doubts"][0].startswith("output_throughput is 158 and 37 tok/s in the same setting")


def test_one_source_has_its_method_and_figures(home: Home) -> None:
    printed = home.ask("published", "redhat-moe-2026").stdout
    assert printed.startswith("vLLM 0.13.0, concurrency 1, 5, 25")
    assert "20.5 % (percent change)" in printed
    assert "friday-night" not in printed


def test_an_unknown_source_is_one_sentence_and_exit_status_2(home: Home) -> None:
    refusal = home.refusal("published", "nobody")
    assert refusal.startswith("drafthouse: 'nobody' is not a published source: choose one of")


def test_golden_lengths_of_a_file_are_shown_and_another_file_is_refused(home: Home, tmp_path: Path) -> None:
    file = tmp_path / "golden.yaml"
    file.write_text("some-model:\n  thinking_on:\n    3: 3.08\n")
    printed = json.loads(home.ask("published", "--golden", str(file), "--json").stdout)
    assert [(row["golden"]["model"], row["golden"]["length"], row["ours"]) for row in printed] == [
        ("some-model", 3.08, None)
    ]
    assert "3.08" in home.ask("published", "--golden", str(file)).stdout
    assert "give both" in home.refusal("published", "--study", "small")
    assert "give one of them" in home.refusal("published", "infra-pods", "--golden", str(file))
    file.write_text("- 1")
    assert "should be a mapping" in home.ask("published", "--golden", str(file)).stderr
