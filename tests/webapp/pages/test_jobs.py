from __future__ import annotations

import json
import re

from streamlit.testing.v1 import AppTest

from jobs import queue
from jobs.table import Job
from tests.lab.studies import study
from tests.webapp.conftest import OpenPage
from tests.webapp.homes import failed_job, finish, running_job, tell_worker
from warehouse.app_db.engine import app_engine
from warehouse.settings import Settings


def words(app: AppTest) -> str:
    kinds = ("markdown", "caption", "subheader", "header", "warning", "info", "error")
    return re.sub(r"\\", "", "\n".join(element.value for kind in kinds for element in getattr(app, kind)))


def click(app: AppTest, label: str) -> AppTest:
    next(found for found in app.button if found.label == label).click().run()
    assert not app.exception
    return app


def stored(settings: Settings, job_id: str) -> Job:
    engine = app_engine(settings.app_database_url)
    try:
        return queue.job(engine, job_id)
    finally:
        engine.dispose()


def test_an_empty_queue_says_so_and_leads_to_the_form(open_page: OpenPage) -> None:
    app = open_page("jobs")
    assert "No jobs yet" in words(app)
    assert [button.label for button in app.button] == ["Submit a study"]


def test_a_running_job_shows_its_phase_its_figures_and_the_time_left(open_page: OpenPage, settings: Settings) -> None:
    running_job(settings, study())
    app = open_page("jobs")
    (bar,) = app.progress
    assert bar.text.replace("\\", "") == "measuring: draft, reference/code/16, c4-n8, repeat 1: 4 of 8 requests"
    assert bar.value == 37  # (1 run + half of the next) of 4
    for figure in ("112 tok/s", "41.7 ms", "1 of 4", "3 min 20 s"):
        assert figure in words(app)


def test_a_queued_job_says_how_many_are_before_it(open_page: OpenPage, settings: Settings) -> None:
    queue.submit(settings, study(name="first"))
    queue.submit(settings, study(name="second"))
    queue.submit(settings, study(name="urgent"), priority=5)
    shown = words(open_page("jobs"))
    assert [shown.index(f"**{name}**") for name in ("urgent", "first", "second")] == sorted(
        shown.index(f"**{name}**") for name in ("urgent", "first", "second")
    )
    assert "2 studies before it" in shown


def places(app: AppTest, *names: str) -> list[str]:
    """The names in the order in which the page shows them."""
    shown = words(app)
    return sorted(names, key=lambda name: shown.index(f"**{name}**"))


def test_a_queued_job_is_moved_up_and_down(open_page: OpenPage, settings: Settings) -> None:
    ids = {name: queue.submit(settings, study(name=name)) for name in ("first", "second", "third")}
    app = open_page("jobs")
    assert app.button(key=f"up-{ids['first']}").disabled
    assert app.button(key=f"down-{ids['third']}").disabled
    app.button(key=f"up-{ids['third']}").click().run()
    assert places(app, *ids) == ["first", "third", "second"]
    app.button(key=f"down-{ids['first']}").click().run()
    assert places(app, *ids) == ["third", "first", "second"]


def test_a_queued_job_is_given_another_priority(open_page: OpenPage, settings: Settings) -> None:
    ids = {name: queue.submit(settings, study(name=name)) for name in ("first", "second")}
    app = open_page("jobs")
    app.number_input(key=f"priority-{ids['second']}-0").set_value(5)
    app.button(key=f"set-priority-{ids['second']}").click().run()
    assert stored(settings, ids["second"]).priority == 5
    assert places(app, *ids) == ["second", "first"]
    assert "priority 5" in words(app)


def test_a_queued_job_says_about_when_it_starts(open_page: OpenPage, settings: Settings) -> None:
    running_job(settings, study(name="running"), remaining_s=200.0)
    tell_worker(settings)
    queue.submit(settings, study(name="next"))
    assert re.search(r"Next in the queue; starts in about 3 min \d\d s \(\d\d:\d\d UTC\)", words(open_page("jobs")))


def test_a_job_that_no_worker_may_take_says_why(open_page: OpenPage, settings: Settings) -> None:
    queue.submit(settings, study(name="on an H200", hardware="H200"))
    assert "no worker is there: `drafthouse up`" in words(open_page("jobs"))
    tell_worker(settings, hardware="AMD EPYC (2 cores)")
    assert "it asks for H200, and the workers that are there have AMD EPYC (2 cores)" in words(open_page("jobs"))


def test_the_workers_are_listed_with_their_hardware_and_engines(open_page: OpenPage, settings: Settings) -> None:
    queue.submit(settings, study())
    tell_worker(settings, "host-1", hardware="2 x NVIDIA H200", gpus=2)
    app = open_page("jobs")
    (listed,) = [frame.value for frame in app.dataframe if "engines" in frame.value]
    told = [listed[column][0] for column in ("hardware", "gpus", "engines")]
    assert told == ["2 x NVIDIA H200", "2", "vllm 0.32.0"]
    assert "No worker has an NVIDIA GPU" not in words(app)


def test_workers_without_a_gpu_are_told_as_such(open_page: OpenPage, settings: Settings) -> None:
    queue.submit(settings, study())
    tell_worker(settings)
    assert "No worker has an NVIDIA GPU" in words(open_page("jobs"))


def test_a_finished_job_can_be_measured_again_from_the_first_run(open_page: OpenPage, settings: Settings) -> None:
    job_id = running_job(settings, study(), runs_done=4)
    finish(settings, job_id, "done")
    app = open_page("jobs", job=job_id)
    assert "Retry" not in [button.label for button in app.button]
    click(app, "Run all again")
    assert stored(settings, job_id).state == "queued"
    assert stored(settings, job_id).reuse_from_attempt == 1


def test_cancelling_asks_once_more_and_then_asks_the_worker_to_stop(open_page: OpenPage, settings: Settings) -> None:
    job_id = running_job(settings, study())
    app = click(open_page("jobs"), "Cancel the study")
    assert stored(settings, job_id).cancel_requested
    assert "Cancel the study" not in [button.label for button in app.button]


def test_a_failed_job_shows_the_engines_own_words_and_can_be_retried(open_page: OpenPage, settings: Settings) -> None:
    error = "EngineError: exit code 1\nValueError: <b>architecture</b> $x$"
    job_id = failed_job(settings, study(), error)
    app = open_page("jobs")
    assert error in [code.value for code in app.code]
    click(app, "Retry")
    assert stored(settings, job_id).state == "queued"
    assert stored(settings, job_id).attempt == 1


def test_a_link_to_a_job_opens_that_job(open_page: OpenPage, settings: Settings) -> None:
    older = queue.submit(settings, study(name="older"))
    queue.submit(settings, study(name="newer"))
    app = open_page("jobs", job=older)
    assert app.selectbox(key="job").value == f"older · {older}"
    assert not app.warning


def test_a_link_to_a_job_that_is_gone_says_so_and_shows_the_newest(open_page: OpenPage, settings: Settings) -> None:
    queue.submit(settings, study(name="older"))
    newest = queue.submit(settings, study(name="newer"))
    app = open_page("jobs", job="20200101-000000-0000")
    assert "asks for the study 20200101-000000-0000, which is not here" in words(app)
    assert app.selectbox(key="job").value == f"newer · {newest}"


def test_the_log_of_the_running_engine_is_shown(open_page: OpenPage, settings: Settings) -> None:
    job_id = running_job(settings, study())
    log = settings.logs_dir / "engines" / f"{job_id}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("INFO Starting vLLM\nINFO <script>ready</script>\n", encoding="utf-8")
    app = open_page("jobs")
    assert "INFO Starting vLLM\nINFO <script>ready</script>" in [code.value for code in app.code]


def test_names_are_shown_letter_by_letter(open_page: OpenPage, settings: Settings) -> None:
    name = "<script>alert(1)</script> $x$ :smile: *b* [a](http://b)"
    queue.submit(settings, study(name=name))
    (head, *_) = [found.value for found in open_page("jobs").markdown if "script" in found.value]
    assert r"\<script\>" in head
    assert r"\$x\$" in head
    assert r"\:smile\:" in head
    assert r"\[a\]\(" in head


def test_a_job_table_of_another_revision_is_a_sentence_on_the_page(open_page: OpenPage, settings: Settings) -> None:
    engine = app_engine(settings.app_database_url)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = 'from-the-future'")
    engine.dispose()
    app = open_page("jobs")
    assert "drafthouse migrate" in words(app) or "newer" in words(app)
    assert json.dumps(app.exception.values if app.exception else []) == "[]"
