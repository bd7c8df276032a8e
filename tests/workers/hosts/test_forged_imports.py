"""A study is decided by its own worker: no import adds to its job, whatever ids it names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from interchange.store import import_paths
from lab.errors import ForeignFileError
from lab.study.plan import plan
from tests.actors import ADMIN, OTHER_SUBMITTER
from tests.warehouse.asking import ask
from tests.warehouse.exports import forged_export
from tests.workers.homes import Home
from warehouse.ingest.service import ingest_all
from workers.worker import Worker


def forged_runs(home: Home, job_id: str, folder: Path) -> Path:
    job = home.job(job_id)
    planned = [run for launch in plan(job.study) for run in launch.runs]
    run_ids = [f"{run.key(job_id)}-0" for run in planned]
    return forged_export(folder, job_id=job_id, study_id=job.study_id, run_ids=run_ids)


def assert_no_import_adds_to(home: Home, job_id: str, forged: Path) -> None:
    folder = forged_export(forged, job_id=job_id, run_ids=["more-0"])
    before = list((home.settings.bundles / job_id).glob("*"))
    with pytest.raises(ForeignFileError, match=f"{job_id} is a job of this lab, and an import cannot add to it"):
        import_paths(home.settings, [folder], actor=replace(ADMIN, via="command"), as_measured=True)
    import_paths(home.settings, [folder], actor=OTHER_SUBMITTER)
    assert list((home.settings.bundles / job_id).glob("*")) == before


def test_a_queued_study_is_measured_although_somebody_imported_its_runs(home: Home, tmp_path: Path) -> None:
    job_id = home.submit(loads=[{"max_concurrency": 1, "num_prompts": 4}])
    import_paths(home.settings, [forged_runs(home, job_id, tmp_path / "forged")], actor=OTHER_SUBMITTER)
    Worker(home.settings).work()
    assert home.job(job_id).state == "done"
    ingest_all(home.settings)
    measured = ask(home.settings, f"select distinct target from runs where job_id = '{job_id}' and origin = 'measured'")
    assert measured == [(home.study().target,)]
    assert ask(home.settings, "select count(*) from runs where origin = 'measured'") == [(2,)]
    assert ask(home.settings, f"select * from runs where job_id = '{job_id}' and origin <> 'measured'") == []
    assert ask(home.settings, "select * from rejected_bundles") == []
    assert_no_import_adds_to(home, job_id, tmp_path / "more")


def test_no_import_adds_runs_to_a_job_of_this_lab(home: Home, tmp_path: Path) -> None:
    assert_no_import_adds_to(home, home.submit(), tmp_path / "forged")
