"""What a question is told about the run that is measured before it."""

from __future__ import annotations

import re
import time
from pathlib import Path

from host import quiet
from host.quiet import Work
from tests.lab.studies import study
from tests.webapp.homes import make_home, running_job
from warehouse.app_db.engine import open_engine
from warehouse.sandbox.measuring import _left_s, measured_now


def test_a_question_is_told_how_long_the_run_before_it_takes(tmp_path: Path) -> None:
    settings = make_home(tmp_path)
    assert measured_now(settings) == ""
    job_id = running_job(settings, study(), requests_done=6, requests_total=8)
    with quiet.announced(settings.home, "window", job_id):
        told = measured_now(settings)
        assert re.search(r"^a run is being measured on this host for about \d+ (s|min) more and has", told), told
        with open_engine(settings.app_database_url) as database, database.begin():  # somebody writes
            assert " for about " in measured_now(settings)
    with quiet.announced(settings.home, "window", "of another lab"):
        assert measured_now(settings) == "a run is being measured on this host and has its processors first"
    begun = [Work("window", "window", job_id, time.monotonic() - seconds) for seconds in (3, 30)]
    left_s = _left_s(settings, begun)  # a third of what the longer one has taken
    assert left_s is not None
    assert left_s >= 10
