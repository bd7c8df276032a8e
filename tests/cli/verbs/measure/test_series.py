"""`drafthouse series` and `drafthouse gate`, as a person or CI types them."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import textwrap
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from cli.verbs.analyse.gate import _junit, _markdown
from host.settings import Settings
from jobs import queue
from lab.series.alarm import MEASURES
from lab.series.gate import Gated, Word
from lab.study.parsing import study_to_toml
from tests.cli.homes import DRAFTHOUSE, REPOSITORY, home_with_databases, new_home
from tests.interchange.sample_files import SAMPLES
from tests.jobs.series.nights import ONE_CELL, add_series, measure, remember
from tests.workers.homes import Home, at_work
from warehouse.ingest.service import ingest_all
from warehouse.queries.connect import open_warehouse
from warehouse.queries.series import compared, imported_jobs


def test_a_series_is_added_shown_paused_and_removed(tmp_path: Path) -> None:
    home = home_with_databases(tmp_path)
    assert "is not a schedule: write" in home.refusal("series", "add", "demo", "--every", "now and then", "--reference")
    assert home.ask("series", "check").stdout == "No alarm is open.\n"
    gone = home.ask("series", "pause", "nightly")
    assert gone.returncode == 2
    assert "there is no series nightly: `drafthouse series list` lists them" in gone.stderr
    assert json.loads(home.ask("series", "list", "--json").stdout) == []


@pytest.mark.parametrize(("word", "sign"), [("worse", "❌"), ("not worse", "✅"), ("inconclusive", "❔")])
def test_the_gate_writes_what_a_pull_request_and_a_test_report_show(word: Word, sign: str) -> None:
    gated = [
        ("a|b", Gated(MEASURES[0], 0.05, word, 12, -0.071, -0.09, -0.05)),
        ("a|b", Gated(MEASURES[1], 0.02, "not worse", 12, 0.0, 0.0, 0.0)),
    ]
    summary = _markdown("job-1", "nightly", word, gated)
    assert summary.startswith(f"### {sign} {word.capitalize()}: `job-1` against the series `nightly`\n")
    assert f"| a\\|b | speed-up | -7.1 % | -9.0 % to -5.0 % | 5.0 % | 12 | {word} |" in summary
    suite = ET.fromstring(_junit("job-1", "nightly", word, gated))  # noqa: S314 - our own
    cases = {case.get("name"): [child.tag for child in case] for case in suite}
    expected = {"worse": ["failure"], "inconclusive": ["skipped"], "not worse": []}[word]
    assert cases == {"a|b: speed-up": expected, "a|b: acceptance length": []}
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


def test_the_steps_of_the_example_for_github_are_a_shell_script_that_works(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_series(home)
    steps = re.findall(r"  run: \|\n((?:    .*\n)+)", (REPOSITORY / "docs" / "series.md").read_text())
    slow = {"token_s": 0.05}  # a client that waits for a processor is late, but not beside such answers
    (home.folder / "study.toml").write_text(study_to_toml(home.study(**ONE_CELL, engine_flags=slow)))
    summary = home.folder / "summary.md"
    command = new_home(home.settings.home)
    variables = {"DRAFTHOUSE_ENGINES_FILE": str(home.settings.engines_file), "GITHUB_STEP_SUMMARY": str(summary)}
    variables["PATH"] = f"{DRAFTHOUSE.parent}:{os.environ['PATH']}"
    with at_work(home):
        done = subprocess.run(
            ("bash", "-eo", "pipefail", "-c", textwrap.dedent(steps[0])),  # as GitHub runs a step
            cwd=home.folder,
            env=command.environment | variables,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    (job,) = queue.jobs(home.database)
    assert f"Inconclusive: `{job.job_id}` against the series `nightly`" in summary.read_text()  # it has no night yet


def test_a_ci_imports_the_files_of_its_two_arms(tmp_path: Path) -> None:
    home = home_with_databases(tmp_path)
    assert home.ask("series", "add-imported", "ci").returncode == 0
    example = re.findall(r"^    drafthouse (import .*)$", (REPOSITORY / "docs" / "series.md").read_text(), re.MULTILINE)
    files = {"plain.json": "base-code-c1.json", "drafted.json": "spec-code-c1.json"}
    for line in example:
        words = shlex.split(line.replace("$GITHUB_SHA", "abc123"))
        words[1] = str(SAMPLES / "vllm-bench" / files[words[1]])
        answer = home.ask(*words)
        assert answer.returncode == 0, answer
    ingest_all(Settings(home=home.folder))
    with open_warehouse(Settings(home=home.folder).warehouse_file) as con:
        ((job, label),) = imported_jobs(con, "ci")
        assert label == "abc123"
        assert compared(con, job)["drafted"].values["speedup"] > 0
    assert "with the next import" in home.ask("series", "list").stdout
