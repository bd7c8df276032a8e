"""A study is judged once, when it has ended; its verdicts are stored, and stay as they are."""

from __future__ import annotations

import shutil
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

import lab.comparison
from host.settings import Settings
from jobs import queue
from jobs.fleet import leases
from lab.comparison import verdict
from tests.actors import ADMIN
from tests.lab.studies import study
from tests.lab.validity.healthy import healthy
from tests.warehouse.asking import ask
from tests.warehouse.ingest.processes import ingester, log, until
from tests.webapp.homes import WORKER, claimed_job, finish, make_home
from tests.webapp.test_finished_study import BEGAN, EARLIER, LATER, everything_said, measure
from warehouse.app_db.engine import open_engine
from warehouse.app_db.schema import studies
from warehouse.bundles.judgements import Judgement, read_judgement, stored_ids, write_judgement
from warehouse.bundles.run_bundle import REQUESTS_FILE, bundle_folder
from warehouse.ingest import judgements
from warehouse.ingest.rebuild import rebuild
from warehouse.ingest.service import ingest_all
from warehouse.queries.comparing import judging
from warehouse.queries.comparing.comparisons import compare_study, compute_study
from warehouse.queries.comparing.stored import NOT_STORED, fields_of, judgings
from warehouse.queries.connect import open_warehouse
from warehouse.queries.point_in_time import as_of

ROWS = "SELECT * EXCLUDE (changed_because) FROM comparisons WHERE is_default ORDER BY ALL"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return make_home(tmp_path)


def measured_study(settings: Settings) -> str:
    """A study of three arms and repeats that has ended, after one that informs its noise; neither is ingested."""
    measure(settings, "earlier", EARLIER)
    job_id = claimed_job(settings, study(name="asked"))
    measure(settings, job_id, BEGAN)
    finish(settings, job_id, "done")
    return job_id


def ended_study(settings: Settings) -> str:
    job_id = measured_study(settings)
    ingest_all(settings)
    return job_id


def test_the_ingesters_own_process_stores_and_publishes_the_verdicts(settings: Settings) -> None:
    """It does without libraries that this process has imported."""
    job_id = measured_study(settings)
    with ingester(settings):
        until(lambda: log(settings).exists() and (are_published(settings) or b"ERROR" in log(settings).read_bytes()))
    assert b"ERROR" not in log(settings).read_bytes(), log(settings).read_text()
    assert {row[0] for row in ask(settings, "SELECT DISTINCT job_id FROM answers")} == {job_id}


def are_published(settings: Settings) -> bool:
    return settings.warehouse_file.exists() and bool(ask(settings, ROWS))


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The home of `ended_study`, only to be copied, and its job."""
    settings = make_home(tmp_path_factory.mktemp("ended"))
    return settings.home, ended_study(settings)


@pytest.fixture
def job_id(ended: tuple[Path, str], settings: Settings) -> str:
    """Of the study that has ended in this test's home."""
    shutil.copytree(ended[0], settings.home, dirs_exist_ok=True)
    return ended[1]


def changed_because(settings: Settings) -> list[tuple[Any, ...]]:
    return ask(settings, "SELECT DISTINCT changed_because FROM comparisons")


def test_a_stored_comparison_is_the_computed_one_to_the_last_digit(settings: Settings, job_id: str) -> None:
    with open_warehouse(settings.warehouse_file) as con:
        for metric in ("output_tok_per_s", "ttft_p99_ms", "tpot_p50_ms"):
            for strict in (False, True):
                stored = compare_study(con, job_id, metric, strict=strict)
                computed = compute_study(con, [job_id], metric, strict=strict)
                assert stored.stored is not None
                assert stored.history_jobs == computed.history_jobs == ("earlier",)
                for ours, theirs in zip(stored.pairs, computed.pairs, strict=True):
                    assert fields_of(ours.comparison) == fields_of(theirs.comparison)
                    assert (ours.verdict, ours.strictly) == (theirs.verdict, theirs.strictly)
                    assert ours.candidate.cell == theirs.candidate.cell


def test_a_finished_study_says_the_same_after_later_runs_a_rebuild_and_another_analysis(
    settings: Settings, job_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said, rows = everything_said(settings, job_id), ask(settings, ROWS)
    assert len(rows) == 2 * 9 * 4  # two readings of nine metrics, in one cell and over all, of two arms
    measure(settings, "later", LATER, scatter=0.9)
    measure(settings, "earlier", EARLIER, scatter=0.9, attempt=1)  # which decision 10 alone does not withstand
    ingest_all(settings)
    monkeypatch.setattr(verdict, "_LEVEL", 1e-9)  # an analysis that calls nothing
    monkeypatch.setattr(judging, "ANALYSIS_VERSION", lab.comparison.ANALYSIS_VERSION + 1)
    for file in (settings.master_file, settings.warehouse_file):
        file.unlink()
    rebuild(settings)
    assert (everything_said(settings, job_id), ask(settings, ROWS)) == (said, rows)
    ingest_all(settings)
    assert (everything_said(settings, job_id), ask(settings, ROWS)) == (said, rows)
    with open_warehouse(settings.warehouse_file) as con:
        assert {pair.verdict.word for pair in compute_study(con, [job_id], "output_tok_per_s").pairs} == {
            "inconclusive"
        }


def test_a_run_that_is_removed_is_named_as_the_reason_of_a_change(settings: Settings, job_id: str) -> None:
    rows = ask(settings, ROWS)
    assert changed_because(settings) == [(None,)]
    shutil.rmtree(bundle_folder(settings.bundles, job_id, f"{job_id}-drafted-1-0"))
    rebuild(settings)
    assert ask(settings, ROWS) == rows
    assert changed_because(settings) == [("1 of its 9 runs was removed",)]
    with open_warehouse(settings.warehouse_file) as con:
        comparison = compare_study(con, job_id)
    assert "changed because: 1 of its 9 runs was removed" in comparison.standing
    assert [len(pair.candidate.runs) for pair in comparison.pairs] == [3, 3]


def test_a_run_that_is_found_invalid_later_is_named_with_why(settings: Settings, job_id: str) -> None:
    rows, after = ask(settings, ROWS), healthy().run.counters_after
    assert after is not None
    wrong = after.model_copy(update={"generation_tokens": 10.0 * (after.generation_tokens or 0)})
    shutil.rmtree(bundle_folder(settings.bundles, job_id, f"{job_id}-drafted-1-0"))
    measure(settings, job_id, BEGAN, repeats=range(1, 2), counters_after=wrong)
    rebuild(settings)
    assert ask(settings, ROWS) == rows
    ((because,),) = changed_because(settings)
    assert because.startswith("1 of its 9 runs was found invalid: ")


def test_runs_that_appear_later_are_named_as_the_reason_of_a_change(settings: Settings, job_id: str) -> None:
    measure(settings, job_id, BEGAN, repeats=range(3, 4))
    ingest_all(settings)
    assert changed_because(settings) == [("3 runs were measured or restored since",)]


def test_a_study_judged_again_has_both_verdicts_and_shows_the_first(settings: Settings, job_id: str) -> None:
    measure(settings, "later", LATER, scatter=0.9)
    ingest_all(settings)
    rows = ask(settings, ROWS)
    with open_warehouse(settings.warehouse_file) as con:
        first = compare_study(con, job_id)
        again = judging.judge_again(con, job_id)
    write_judgement(settings.bundles, again)
    ingest_all(settings)
    assert ask(settings, ROWS) == rows
    with open_warehouse(settings.warehouse_file) as con:
        assert repr(compare_study(con, job_id).pairs) == repr(first.pairs)
        assert [judged.cause for judged in judgings(con, [job_id])] == ["ended", "asked"]
        asked = compare_study(con, job_id, judgement=again.judgement_id)
    assert asked.history_jobs == ("later", "earlier")
    assert asked.standing.startswith("verdicts as of ")
    assert "when it was judged again" in asked.standing


def test_a_job_that_is_measured_again_gets_its_verdict_when_it_ends_again(settings: Settings, job_id: str) -> None:
    with open_engine(settings.app_database_url) as engine:
        queue.retry(engine, job_id, actor=ADMIN, everything=True)
    ingest_all(settings)
    assert ask(settings, "SELECT count(*) FROM comparisons WHERE is_default") == [(0,)]
    with open_warehouse(settings.warehouse_file) as con:
        assert compare_study(con, job_id).standing == NOT_STORED
    measure(settings, job_id, LATER, attempt=1, scatter=0.05)
    assert claimed_again(settings) == job_id
    finish(settings, job_id, "done")
    ingest_all(settings)
    assert stored_ids(settings.bundles) == [f"{job_id}~ended-0", f"{job_id}~ended-1"]
    assert ask(settings, "SELECT DISTINCT judgement_id FROM comparisons WHERE is_default") == [(f"{job_id}~ended-1",)]


def test_a_job_is_not_judged_before_its_last_bundle_is_in(settings: Settings) -> None:
    job_id = claimed_job(settings, study(name="asked"))
    measure(settings, job_id, BEGAN)
    late = bundle_folder(settings.bundles, job_id, f"{job_id}-drafted-1-0") / REQUESTS_FILE
    late.rename(settings.home / "late")
    finish(settings, job_id, "done")
    ingest_all(settings)
    assert stored_ids(settings.bundles) == []
    (settings.home / "late").rename(late)
    ingest_all(settings)
    ((runs,),) = ask(settings, "SELECT DISTINCT len(run_ids) FROM comparisons")
    assert runs == 9


def test_jobs_are_judged_although_one_of_them_cannot_be(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = []
    for name in ("one", "two"):
        ids.append(claimed_job(settings, study(name=name)))
        measure(settings, ids[-1], BEGAN)
        finish(settings, ids[-1], "done")
    judge = judging.judge_ended

    def fails_for_one(con: duckdb.DuckDBPyConnection, job_id: str, tries: int, ended_at: datetime) -> Judgement:
        if job_id == ids[0]:
            raise ZeroDivisionError
        return judge(con, job_id, tries, ended_at)

    monkeypatch.setattr(judging, "judge_ended", fails_for_one)
    ingest_all(settings)
    assert stored_ids(settings.bundles) == [f"{ids[1]}~ended-0"]
    [(path, error)] = ask(settings, "SELECT path, error FROM rejected_bundles")
    assert path == ids[0]
    assert error.startswith("its verdicts are not stored: ZeroDivisionError")
    monkeypatch.undo()
    ingest_all(settings)
    assert len(stored_ids(settings.bundles)) == 2
    assert ask(settings, "SELECT * FROM rejected_bundles") == []


def claimed_again(settings: Settings) -> str:
    with open_engine(settings.app_database_url) as engine:
        claimed = leases.claim(engine, WORKER, 3600)
    assert claimed is not None
    return claimed.job_id


def test_a_price_that_is_no_number_stops_no_ingester(settings: Settings) -> None:
    job_id = claimed_job(settings, study(name="asked"))
    measure(settings, job_id, BEGAN)
    finish(settings, job_id, "done")
    with open_engine(settings.app_database_url) as database, database.begin() as connection:
        of_a_newer_version = {"study_id": "newer", "name": "newer", "toml": "", "created_at": EARLIER}
        connection.execute(studies.insert().values(**of_a_newer_version, json='{"price_usd_per_hour": "2 EUR"}'))
    ingest_all(settings)
    assert ask(settings, "SELECT count(*) > 0 FROM runs") == [(True,)]
    assert ask(settings, "SELECT * FROM judgements") == []


def test_a_verdict_that_was_written_and_not_read_is_kept_after_a_kill(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(judgements, "add_judgement", killed)
        with pytest.raises(KeyboardInterrupt):
            ended_study(settings)
    (judgement_id,) = stored_ids(settings.bundles)
    first = read_judgement(settings.bundles, judgement_id)
    monkeypatch.setattr(judging, "ANALYSIS_VERSION", 99)
    ingest_all(settings)
    assert read_judgement(settings.bundles, judgement_id) == first
    assert ask(settings, "SELECT DISTINCT analysis_version FROM comparisons") == [(first.analysis_version,)]


def test_a_point_in_time_before_the_study_was_judged_has_no_stored_verdict(settings: Settings, job_id: str) -> None:
    with as_of(LATER), open_warehouse(settings.warehouse_file) as con:
        assert compare_study(con, job_id).standing == NOT_STORED
