"""A stored verdict is the same on pages, in the command, the API, SQL and exports; a change is told."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from access.local import local_actor
from host.settings import Settings
from interchange.export import export
from interchange.store import import_paths
from lab.comparison import ANALYSIS_VERSION
from tests.actors import ADMIN
from tests.cli.homes import new_home
from tests.interchange.sample_files import SAMPLES
from tests.lab.studies import study
from tests.migrated import copy_migrated
from tests.warehouse.asking import ask
from tests.webapp.conftest import OpenPage
from tests.webapp.homes import claimed_job, finish, make_home
from tests.webapp.page_text import words
from tests.webapp.test_finished_study import BEGAN, EARLIER, LATER, everything_shown, measure
from warehouse.bundles.run_bundle import bundle_folder
from warehouse.ingest.rebuild import rebuild
from warehouse.ingest.service import ingest_all
from warehouse.queries.comparing import judging
from warehouse.queries.connect import open_warehouse

ROWS = "SELECT * FROM comparisons WHERE job_id = '{}' AND is_default ORDER BY ALL"


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A home, only to be copied, with a study that has ended, after one that informs its noise; and its job."""
    settings = make_home(tmp_path_factory.mktemp("ended"))
    measure(settings, "earlier", EARLIER)
    job_id = claimed_job(settings, study(name="asked"))
    measure(settings, job_id, BEGAN, repeats=range(2))
    finish(settings, job_id, "done")
    ingest_all(settings)
    return settings.home, job_id


@pytest.fixture
def job_id(ended: tuple[Path, str], settings: Settings) -> str:
    """Of the study that has ended in this test's home."""
    shutil.copytree(ended[0], settings.home, dirs_exist_ok=True)
    return ended[1]


def exported(settings: Settings, job_id: str, to: Path) -> list[dict[str, object]]:
    """The comparisons in the export of the study."""
    with open_warehouse(settings.warehouse_file) as con:
        export(settings.bundles, con, job_id, to)
    rows: list[dict[str, object]] = pq.read_table(to / "comparisons.parquet").to_pylist()
    return rows


def test_a_study_that_has_ended_says_the_same_everywhere_whatever_changes(
    job_id: str, settings: Settings, open_page: OpenPage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown, rows = everything_shown(settings, open_page, job_id), ask(settings, ROWS.format(job_id))
    written = exported(settings, job_id, tmp_path / "first")
    gate = ("compare", job_id, "--fail-if-slower", "5%")
    status = new_home(settings.home).ask(*gate).returncode
    assert rows
    measure(settings, "earlier", EARLIER, scatter=0.9, attempt=1)
    measure(settings, "of the same pair", LATER, scatter=0.9)
    import_paths(settings, [SAMPLES / "vllm-bench" / "spec-code-c4.json"], actor=ADMIN)
    ingest_all(settings)
    monkeypatch.setattr(judging, "ANALYSIS_VERSION", 99)
    rebuild(settings)
    assert everything_shown(settings, open_page, job_id) == shown
    assert ask(settings, ROWS.format(job_id)) == rows
    assert exported(settings, job_id, tmp_path / "second") == written
    assert new_home(settings.home).ask(*gate).returncode == status


def test_pages_command_and_sql_name_the_run_that_was_removed(
    job_id: str, settings: Settings, open_page: OpenPage
) -> None:
    shutil.rmtree(bundle_folder(settings.bundles, job_id, f"{job_id}-drafted-1-0"))
    rebuild(settings)
    because = "1 of its 6 runs was removed"
    for page in ("results", "compare"):
        assert f"Changed because: {because}. The stored verdicts are shown." in words(open_page(page, job=job_id))
    home = new_home(settings.home)
    assert f"; changed because: {because}" in home.ask("compare", job_id).stdout
    assert json.loads(home.ask("compare", job_id, "--json").stdout)["standing"]["changed_because"] == because
    assert ask(settings, "SELECT DISTINCT changed_because FROM comparisons") == [(because,)]


def test_judging_again_adds_verdicts_that_are_shown_when_they_are_chosen(
    job_id: str, settings: Settings, open_page: OpenPage
) -> None:
    page = open_page("compare", job=job_id)
    assert "Verdicts as of " in words(page)
    assert "Noise: informed by the earlier study earlier (earlier)." in words(page)
    assert "not corrected for the others." in words(page)
    next(button for button in page.button if button.label == "Judge again").click().run()
    ingest_all(settings)
    page = open_page("compare", job=job_id)
    (judged,) = [box for box in page.selectbox if box.label == "Judged"]
    assert [option.partition(",")[0] for option in judged.options] == ["when the study ended", "judged again"]
    assert f"when the study ended (analysis {ANALYSIS_VERSION})" in words(page)
    judged.set_value(judged.options[1]).run()
    assert f"when it was judged again (analysis {ANALYSIS_VERSION})" in words(page)
    answer = new_home(settings.home).ask("compare", job_id)
    assert f"when the study ended (analysis {ANALYSIS_VERSION})" in answer.stdout
    assert "other verdicts: judged again, " in answer.stdout


def test_a_study_that_moves_to_another_home_takes_its_verdicts_along(
    job_id: str, settings: Settings, tmp_path: Path
) -> None:
    exported(settings, job_id, tmp_path / "moved")
    copy_migrated(tmp_path / "other")
    other = Settings(home=tmp_path / "other")
    import_paths(other, [tmp_path / "moved"], as_measured=True, actor=local_actor())
    ingest_all(other)
    assert ask(other, ROWS.format(job_id)) == ask(settings, ROWS.format(job_id))


def test_another_question_is_computed_and_says_so(job_id: str, settings: Settings) -> None:
    home = new_home(settings.home)

    def said(*arguments: str) -> str:
        return " ".join(home.ask("compare", job_id, *arguments).stdout.split())

    computed = "standing: computed now from the study's runs and the history of when it began"
    assert computed in said("--baseline", "same")
    assert computed in said("--metric", "cost", "--price-per-hour", "2")
    assert computed not in said("--baseline", "plain")
