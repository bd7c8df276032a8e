from __future__ import annotations

import re
from datetime import UTC, datetime

import pandas as pd

from host.settings import Settings
from jobs.host_report import Finding, HostReport, write_report
from tests.lab.studies import study
from tests.webapp.conftest import OpenPage
from tests.webapp.homes import failed_job, running_job, tell_worker
from tests.webapp.measured import measure_study
from tests.webapp.page_text import click, words
from tests.webapp.submit_form import submitted_jobs
from webapp.pages.home import page, tables

DEMO = "Run the demo study"


def test_an_empty_home_says_how_to_begin_and_queues_the_demo_once(open_page: OpenPage, settings: Settings) -> None:
    app = open_page("home")
    shown = words(app)
    assert "Start here: nothing has been measured yet" in shown
    assert "No worker is running: the study will wait" in shown
    assert re.search(r"36 runs, about \d+ min", shown)
    click(app, DEMO)
    (job,) = submitted_jobs(settings)
    assert (job.name, job.state) == ("demo", "queued")
    assert DEMO not in [button.label for button in app.button]
    assert "the study will wait" not in words(app)
    tell_worker(settings)
    assert "free" in app.run().dataframe[-1].value.to_string()


def test_a_demo_that_cannot_run_here_says_why(open_page: OpenPage, settings: Settings) -> None:
    (settings.models_dir / "target" / "config.json").unlink()
    app = click(open_page("home"), DEMO)
    assert "the model 'reference' is not prepared yet" in words(app)
    assert submitted_jobs(settings) == []


def test_the_page_shows_the_newest_answer_what_runs_and_what_failed(open_page: OpenPage, settings: Settings) -> None:
    done = measure_study(settings, study(name="three times", repeats=3))
    failed_job(settings, study(name="hopeless"), "EngineError: no such head")
    running_job(settings, study(name="on its way"))
    app = open_page("home")
    shown = words(app)
    for sentence in ("on its way", "3 min 20 s", "112 tok/s"):
        assert sentence in shown
    assert re.search(
        r"\*\*Throughput at concurrency 1:\*\* 4\d(\.\d)? % higher \(strict 95 % CI \S+ to \S+ %\), draft on ", shown
    )
    assert f"[three times](results?job={done})" in shown
    assert "No hourly price for this hardware, so no cost: [set one on Cost](cost)." in shown
    assert len(app.get("vega_lite_chart")) == 1
    ended = next(table.value for table in app.dataframe if "took" in table.value)
    assert list(ended["study"]) == ["hopeless", "three times"]
    assert list(ended["error"].fillna("")) == ["EngineError: no such head", ""]
    assert list(ended["runs"]) == ["none", "12"]


def test_the_hosts_verification_is_shown_with_what_is_wrong_first(open_page: OpenPage, settings: Settings) -> None:
    findings = (Finding("engine vllm", ok=True, found="started"), Finding("telemetry", ok=False, found="no power"))
    write_report(settings.home, HostReport(datetime(2026, 11, 23, 12, tzinfo=UTC), None, findings))
    app = open_page("home")
    assert app.expander[0].label == "This host, verified 2026-11-23 12:00 UTC: 1 of 2 lines wrong"
    assert app.expander[0].table[0].value["What"].tolist() == ["telemetry", "engine vllm"]


def test_a_study_measured_elsewhere_is_shown() -> None:
    row = {"job_id": "theirs", "study_name": "copied", "target": "big", "origin": "measured", "is_in_queue": False}
    row |= {"is_hidden": False, "hardware": "H200", "submitted_at": datetime(2026, 11, 1, tzinfo=UTC)}
    copied = pd.DataFrame([row | {"runs_completed": 3, "runs_invalid": 1, "runs_failed": 1}])
    (shown,) = tables.ended([], copied).to_dict("records")
    assert (shown["state"], shown["study"], shown["runs"]) == (["elsewhere"], "copied", "3 of 4, 1 failed, 1 invalid")
    assert page.measured_sentence(copied) == "Measured here: 3 runs in 1 study of 1 target; 1 failed, 1 invalid."
    imported = copied.assign(origin="imported", runs_completed=1, runs_failed=0)
    assert page.measured_sentence(pd.concat([copied, imported])).endswith("; besides, 1 imported run.")
    assert tables.ended([], imported)["state"].tolist() == [["imported"]]
