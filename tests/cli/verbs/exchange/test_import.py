"""`drafthouse import`, as a person or a program types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.homes import REPOSITORY, Home, home_with_databases
from tests.interchange.sample_files import APPENDED, SAMPLES


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return home_with_databases(tmp_path)


def test_imported_runs_stand_in_results_at_once(home: Home) -> None:
    answer = home.ask("import", str(APPENDED), "--label", "hardware=H200", "--label", "study=a try")
    assert answer.returncode == 0, answer.stderr
    assert "2 of 2 runs are new, in the jobs imported-" in answer.stdout
    query = "select study_name, hardware, labels_json from results where origin = 'imported'"
    for row in json.loads(home.ask("sql", query, "--json").stdout):
        assert (row["study_name"], row["hardware"]) == ("a try", "H200")
        assert json.loads(row["labels_json"])["study"] == "a try"


def test_the_same_files_again_are_no_new_runs(home: Home) -> None:
    home.ask("import", str(APPENDED))
    again = json.loads(home.ask("import", str(SAMPLES / "vllm-bench"), "--json").stdout)
    assert [run["new"] for run in again["runs"] if run["file"] == APPENDED.as_posix()] == [False, False]
    assert sum(run["new"] for run in again["runs"]) == len(again["runs"]) - 2


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("no such file",), "cannot be read"),
        (("",), "an empty path names no file: write . for the working directory"),
        ((str(REPOSITORY / "README.md"),), "this is text, not JSON"),
        ((str(APPENDED), "--tool", "guidellm"), "this is a result of `vllm bench serve`"),
        ((str(APPENDED), "--tool", "other"), "no such format: other. Choose auto or one of"),
        ((str(APPENDED), "--label", "H200"), "--label 'H200' is not a label: write KEY=VALUE"),
    ],
)
def test_what_cannot_be_imported_is_one_sentence_and_exit_status_2(
    home: Home, arguments: tuple[str, ...], sentence: str
) -> None:
    refusal = home.refusal("import", *arguments)
    assert refusal.startswith("drafthouse: ")
    assert sentence in refusal
    assert refusal.count("\n") == 1
    assert list((home.folder / "bundles").iterdir()) == []
