"""`drafthouse presets` and `drafthouse plan`, as a person and as a program use them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jobs.presets import load_preset
from lab.study.parsing import study_from_dict, study_to_toml
from tests.cli.homes import Home, new_home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Empty: neither command makes one."""
    return new_home(tmp_path / "home")


def test_presets_are_listed_with_their_studies(home: Home) -> None:
    found = json.loads(home.ask("presets", "--json").stdout)
    assert len(found) == 8
    by_name = {each["name"]: each for each in found}
    assert study_from_dict(by_name["moe-cost"]["study"]) == load_preset("moe-cost")
    assert "Which engine serves this model fastest" in home.ask("presets").stdout


def test_a_plan_counts_launches_and_runs_and_says_what_its_time_rests_on(home: Home) -> None:
    planned = json.loads(home.ask("plan", "datasets-by-patterns", "--json").stdout)
    assert (planned["launches"], planned["runs"], planned["repeats"]) == (2, 70, 1)
    assert planned["estimated_s"] > 0
    assert (planned["launches_from_history"], planned["runs_from_history"]) == (0, 0)
    assert "assumed" in planned["estimated_by"]
    assert not home.folder.exists()


def test_a_file_is_planned_as_a_preset_is(home: Home, tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text(study_to_toml(load_preset("engines")), encoding="utf-8")
    assert home.ask("plan", str(file), "--json").stdout == home.ask("plan", "engines", "--json").stdout
    said = home.ask("plan", str(file), "--reference").stdout
    assert "engines (reference): 2 engine starts, 2 runs" in said


def test_what_is_neither_a_file_nor_a_preset_is_answered_with_the_presets(home: Home) -> None:
    answer = home.ask("plan", "friday")
    assert answer.returncode == 2
    assert "friday is neither a file nor a preset; the presets are assisted-generation, " in answer.stderr
