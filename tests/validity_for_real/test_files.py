"""Files of another tool that somebody edited or copied: they are imported like any other, and are told on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from host.settings import Settings
from interchange.store import import_paths
from lab.validity import Severity
from tests.actors import ADMIN
from tests.interchange.sample_files import DETAILED
from tests.warehouse.asking import ask
from warehouse.ingest.service import ingest_all

#: What was changed in a copy of the file.
EDITED: dict[str, dict[str, Any]] = {
    "as it is": {},
    "fewer streams": {"max_concurrency": 1},
    "a nicer latency": {"mean_ttft_ms": 100.0},
    "another date": {"date": "20260101-000000"},
}
OF_A_RUN: tuple[tuple[str, str, Severity, str], ...] = (
    ("fewer streams", "figures_contradict", "invalid", "took 22.5 s together, but 1 streams have only"),
    ("a nicer latency", "file_contradicts_itself", "warning", "the file says 100, but its own requests give 211.231"),
)
OF_A_STUDY: tuple[str, Severity, str] = (
    "identical_figures",
    "warning",
    "2 runs have the same figures to the last digit: output_tok_per_s 129.027",
)
Found = dict[str, dict[str, tuple[str, str]]]


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory, migrated: Path) -> Settings:
    """The file and its edited copies, each in a study of its own; the copy of another date beside the first."""
    folder = tmp_path_factory.mktemp("edited")
    shutil.copytree(migrated, folder / "home")
    settings = Settings(home=folder / "home")
    content = json.loads(DETAILED.read_text(encoding="utf-8"))
    for name, changes in EDITED.items():
        path = folder / f"{name}.json"
        path.write_text(json.dumps(content | changes), encoding="utf-8")
        study = "as it is" if name == "another date" else name
        import_paths(settings, [path], labels={"arm": name, "study": study}, actor=ADMIN)
    ingest_all(settings)
    return settings


@pytest.fixture(scope="module")
def of_runs(imported: Settings) -> Found:
    """What the warehouse says of each file: severity and sentence by check."""
    by_file: Found = {name: {} for name in EDITED}
    for arm, *finding in ask(
        imported, "select arm, check_name, severity, sentence from findings join runs using (run_id)"
    ):
        check, severity, sentence = finding
        by_file[arm][check] = (severity, sentence)
    return by_file


@pytest.mark.parametrize(("file", "check", "severity", "words"), OF_A_RUN, ids=[expected[1] for expected in OF_A_RUN])
def test_an_edited_file_is_told_so(of_runs: Found, file: str, check: str, severity: Severity, words: str) -> None:
    assert of_runs[file][check][0] == severity
    assert words in of_runs[file][check][1]


def test_the_file_as_it_is_is_told_nothing_of_it(of_runs: Found) -> None:
    assert not set(of_runs["as it is"]) & {check for _, check, *_ in OF_A_RUN}


def test_a_copy_under_another_date_is_told_so_lone_files_not(imported: Settings) -> None:
    (check, severity, words) = OF_A_STUDY
    jobs = "(select distinct job_id, study_name from runs)"
    rows = ask(
        imported, f"select study_name, check_name, severity, sentence from study_findings join {jobs} using (job_id)"
    )
    ((_, _, found_severity, sentence),) = [row for row in rows if row[:2] == ("as it is", check)]
    assert found_severity == severity
    assert words in sentence
    assert {study for study, check_name, *_ in rows if check_name == check} == {"as it is"}
