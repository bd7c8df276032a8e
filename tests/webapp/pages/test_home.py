from __future__ import annotations

import dataclasses
import re
from datetime import UTC, datetime

import pandas as pd

from host.settings import Settings
from jobs.host_report import Finding, HostReport, write_report
from jobs.worker_registry import WorkerInfo
from tests.lab.studies import study
from tests.webapp.conftest import OpenPage
from tests.webapp.homes import failed_job, running_job, tell_worker
from tests.webapp.measured import measure_study
from tests.webapp.page_text import click, words
from tests.webapp.submit_form import submitted_jobs
from webapp.pages.home import page, tables
from webapp.shared.cards import Card

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
    assert "1 waiting" in words(app)
    tell_worker(settings)
    assert "1 free" in words(app.run())


def test_a_demo_that_cannot_run_here_says_why(open_page: OpenPage, settings: Settings) -> None:
    (settings.models_dir / "target" / "config.json").unlink()
    app = click(open_page("home"), DEMO)
    assert "the model 'reference' is not prepared yet" in words(app)
    assert submitted_jobs(settings) == []


def test_the_page_shows_what_runs_what_ended_and_the_headline(open_page: OpenPage, settings: Settings) -> None:
    done = measure_study(settings, study(name="three times", repeats=3))
    failed_job(settings, study(name="hopeless"), "EngineError: no such head")
    running_job(settings, study(name="on its way"))
    app = open_page("home")
    shown = words(app)
    for sentence in ("1 running", "on its way: 1 of 4 runs, about 3 min 20 s left", "112 tok/s", "hopeless"):
        assert sentence in shown
    headlines, ended = (table.value for table in app.dataframe[:2])
    (row,) = headlines.to_dict("records")
    assert (row["target"], row["arm"], row["verdict"], row["cells"]) == ("reference", "draft", "▲ faster", 2)
    assert re.fullmatch(r"1\.\d+× \[1\.\d+, 1\.\d+\]", row["mean"])
    assert re.search(r"draft beats no draft on reference/code/16 at concurrency 1: 1\.4\d+× \[1\.\d+, 1\.\d+\]", shown)
    (over_all,) = re.findall(r"draft over all 2 cells is faster: (\S+× \[\S+, \S+\])", shown)
    assert row["mean"] == over_all
    assert row["cost"] == "price unknown"
    assert row["open"] == f"results?job={done}"
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
    row |= {"hardware": "H200", "submitted_at": datetime(2026, 11, 1, tzinfo=UTC)}
    copied = pd.DataFrame([row | {"runs_completed": 3, "runs_invalid": 1, "runs_failed": 1}])
    (shown,) = tables.ended([], copied).to_dict("records")
    assert (shown["state"], shown["study"], shown["runs"]) == (["elsewhere"], "copied", "3 of 4, 1 failed, 1 invalid")
    assert page.finished_card(tables.ended([], copied)).value == "copied"
    assert page.measured_card(copied) == Card("Measured", "3 runs", "1 study of 1 target; 1 failed, 1 invalid")
    imported = copied.assign(origin="imported", runs_completed=1, runs_failed=0)
    both = page.measured_card(pd.concat([copied, imported]))
    assert (both.value, both.detail) == (
        "3 runs",
        "1 study of 1 target; 1 failed, 1 invalid; besides, 1 imported run",
    )
    assert tables.ended([], imported)["state"].tolist() == [["imported"]]


def test_the_workers_card_counts_free_busy_and_waiting_slots() -> None:
    now = datetime(2026, 11, 21, 4, 12, tzinfo=UTC)
    slots = [
        WorkerInfo(f"w{number}", "host", "NVIDIA H200", 1, (), now, now, None, slot=f"{number}: GPU {number - 1}")
        for number in (1, 2, 3)
    ]
    assert page.workers_card(slots, {"w1", "w3"}, now).value == "1 of 3 slots free"
    assert page.workers_card(slots, {"w1", "w2", "w3"}, now).value == "3 busy"
    kept = [dataclasses.replace(slot, waits_for="GPU 7 is used by python") for slot in slots]
    card = page.workers_card(kept, {"w1"}, now)
    assert card.value == "1 busy, 2 waiting"
    assert card.detail.startswith("2 wait: Jobs says for what; NVIDIA H200; 3 GPUs; ")
    card = page.workers_card([*slots[:2], kept[2]], {"w1"}, now)
    assert card.value == "1 of 3 slots free"
    assert card.detail.startswith("slot 3 of host waits: GPU 7 is used by python; NVIDIA H200; 3 GPUs; ")
