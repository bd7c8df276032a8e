"""`drafthouse series` and `drafthouse gate`, as a person or CI types them."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from cli.verbs.analyse.gate import _junit, _markdown
from lab.series.alarm import MEASURES
from lab.series.gate import Gated, Word
from tests.cli.homes import new_home
from tests.jobs.series.nights import ONE_CELL, add_series, measure, remember
from tests.migrated import copy_migrated
from tests.workers.homes import Home


def test_a_series_is_added_shown_paused_and_removed(tmp_path: Path) -> None:
    home = new_home(tmp_path / "home")
    copy_migrated(home.folder)
    refused = home.ask("series", "add", "demo", "--every", "now and then", "--reference")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "is not a schedule: write" in refused.stderr
    assert home.ask("series", "check").stdout == "No alarm is open.\n"
    gone = home.ask("series", "pause", "nightly")
    assert gone.returncode == 2
    assert "there is no series nightly: `drafthouse series list` lists them" in gone.stderr
    assert json.loads(home.ask("series", "list", "--json").stdout) == []


@pytest.mark.parametrize(("word", "sign"), [("worse", "❌"), ("not worse", "✅"), ("inconclusive", "❔")])
def test_the_gate_writes_what_a_pull_request_and_a_test_report_show(word: Word, sign: str) -> None:
    gated = [
        Gated(MEASURES[0], 0.05, word, 12, -0.071, -0.09, -0.05),
        Gated(MEASURES[1], 0.02, "not worse", 12, 0.0, 0.0, 0.0),
    ]
    summary = _markdown("job-1", "nightly", word, gated)
    assert summary.startswith(f"### {sign} {word.capitalize()}: `job-1` against the series `nightly`\n")
    assert f"| speed-up | -7.1% | -9.0% to -5.0% | 5.0% | 12 | {word} |" in summary
    suite = ET.fromstring(_junit("job-1", "nightly", word, gated))  # noqa: S314 - our own
    cases = {case.get("name"): [child.tag for child in case] for case in suite}
    expected = {"worse": ["failure"], "inconclusive": ["skipped"], "not worse": []}[word]
    assert cases == {"speed-up": expected, "acceptance length": []}
    assert (suite.get("failures"), suite.get("tests")) == (str(int(word == "worse")), "2")


@pytest.mark.parametrize(("slower", "status"), [(1.0, 0), (1.3, 1), (1.08, 3)])
def test_the_gate_exits_by_what_was_measured(home: Home, slower: float, status: int) -> None:
    add_series(home)
    remember(home)
    job_id = home.submit(**ONE_CELL)
    measure(home, slower)
    command = new_home(home.settings.home)
    answer = command.ask("gate", job_id, "--against", "nightly", "--format", "json")
    assert answer.returncode == status, answer
    (speedup, *_) = json.loads(answer.stdout)["measures"]
    assert (speedup["measure"], speedup["nights"]) == ("speedup", 12)
    assert command.ask("gate", job_id, "--against", "weekly").returncode == 2
