"""The Jobs page: progress, the queue and its controls, workers, the history, and one job in detail."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from host.settings import Settings
from jobs import queue
from jobs.engines.capabilities import Capabilities
from jobs.fleet.worker_registry import WorkerInfo
from jobs.table import Job, State
from tests.actors import ADMIN
from tests.lab.studies import study
from tests.warehouse.runs import write_run
from tests.webapp.conftest import OpenPage, ReadStudy
from tests.webapp.homes import add_ended_jobs, failed_job, finish, progress, running_job, tell_worker
from tests.webapp.measured import measure_study
from tests.webapp.page_text import click, ran, words
from warehouse.app_db.engine import open_engine
from warehouse.app_db.schema import jobs as jobs_table
from warehouse.ingest.service import ingest_all
from warehouse.queries.comparing import judging
from webapp.pages.jobs import detail, history, runs, sections, workers
from webapp.pages.jobs.queue_controls import queue_sentence

NOW = datetime(2026, 11, 21, 4, 12, tzinfo=UTC)
HOSTILE = "<script>alert(1)</script> $x$ :smile: *b* [a](http://b)"
VLLM = Capabilities(engine="vllm", kind="vllm", version="0.32.0", methods=(), flags=None, gpus=())
ENDPOINT = Capabilities(engine="endpoint", kind="endpoint", version=None, methods=(), flags=None, gpus=())


def job(number: int = 1, **changes: Any) -> Job:
    values: dict[str, Any] = {
        "job_id": f"job-{number}",
        "study_id": "s",
        "name": "small",
        "study": study(hardware=changes.get("hardware")),
        "state": "queued",
        "priority": 0,
        "submitted_at": NOW + timedelta(seconds=number),
        "started_at": None,
        "finished_at": None,
        "worker": None,
        "lease_expires_at": None,
        "attempt": 0,
        "progress": None,
        "error": None,
        "cancel_requested": False,
    }
    return Job(**(values | changes))


def worker(name: str = "host-1", **changes: Any) -> WorkerInfo:
    values: dict[str, Any] = {
        "worker": name,
        "host": "host",
        "hardware": "AMD EPYC (2 cores)",
        "gpus": 0,
        "engines": (VLLM, ENDPOINT),
        "started_at": NOW,
        "last_seen": NOW,
        "job_id": None,
    }
    return WorkerInfo(**(values | changes))


AWAY = worker("host-2", last_seen=NOW - timedelta(days=1), job_id="job-0")


def test_progress_counts_finished_runs_and_part_of_the_current_one() -> None:
    half = progress(runs_done=1, runs_total=4, requests_done=4, requests_total=8)
    assert sections.share_done(half) == pytest.approx(1.5 / 4)
    assert sections.share_done(progress(runs_done=4, runs_total=4)) == 1.0
    assert sections.share_done(progress(runs_done=0, runs_total=0, requests_total=0)) == 0.0
    assert sections.progress_sentence(half) == "measuring: draft, reference/code/16, c4-n8, repeat 1: 4 of 8 requests"


def test_the_figures_of_a_running_job_have_units_and_name_lost_runs() -> None:
    assert sections.progress_figures(progress(), "2 failed, 1 invalid") == [
        ("Output throughput", "112 tok/s", "current run"),
        ("TTFT", "41.7 ms", "current run"),
        ("Runs", "1 of 4", "2 failed, 1 invalid"),
        ("Time left, estimated", "3 min 20 s", ""),
    ]


@pytest.mark.parametrize(
    ("queued", "position", "left_s", "workers_seen", "sentence"),
    [
        (job(), 1, 200, [worker()], "Next in the queue; starts in about 3 min 20 s (04:15 UTC)."),
        (job(priority=5), 3, 0.5, [worker()], "2 studies ahead in the queue; starting now · priority 5."),
        (
            *(job(), 2, None, [AWAY]),
            "1 study ahead in the queue; no worker is online: start one with `drafthouse up` or `drafthouse worker`.",
        ),
        (
            *(job(), 1, None, [worker(waits_for="GPU 0 is used by python")]),
            "Next in the queue; the workers that could run it are waiting: see below for what.",
        ),
        (
            *(job(), 1, None, [worker(engines=(ENDPOINT,)), AWAY]),
            "Next in the queue; no worker has the engine \\'vllm\\': add it to engines.toml of a host, or cancel.",
        ),
        (
            *(job(hardware="H200"), 1, None, [worker(), AWAY]),
            "Next in the queue; no worker has the hardware \\'H200\\'\\; workers have AMD EPYC \\(2 cores\\).",
        ),
    ],
)
def test_a_queued_job_shows_its_position_and_start_or_what_blocks_it(
    queued: Job, position: int, left_s: float | None, workers_seen: list[WorkerInfo], sentence: str
) -> None:
    start = None if left_s is None else NOW + timedelta(seconds=left_s)
    assert queue_sentence(queued, position, start, workers_seen, NOW) == sentence


def test_workers_are_listed_with_their_state_hardware_and_own_engines() -> None:
    running = {"host-1": job(1, submitted_by="ann"), "host-2": job(0)}
    listed = workers.table([worker(gpus=2), worker("host-3", engines=None, job_id="job-9"), AWAY], NOW, running)
    assert listed["state"].tolist() == [["working"], ["free"], ["away"]]
    assert listed["gpus"].tolist() == ["2", "none", "none"]
    assert listed["engines"].tolist() == ["vllm 0.32.0", "not reported yet", "vllm 0.32.0"]
    assert listed["job_id"].dropna().to_dict() == {0: "job-1"}
    assert listed["study"].dropna().to_dict() == {0: f"{job(1).name} (ann)"}
    assert "slot" not in listed.columns


def test_the_slots_of_a_host_are_listed_in_order() -> None:
    slots = [worker(f"host-{number}", slot=f"{number}: GPU {number - 1}; processors 0-7") for number in (10, 2, 1)]
    listed = workers.table(slots, NOW, {"host-2": job(1)})
    assert listed["slot"].tolist() == ["1: GPU 0", "2: GPU 1", "10: GPU 9"]
    assert listed["state"].tolist() == [["free"], ["working"], ["free"]]


def test_a_worker_whose_gpu_another_program_uses_waits_and_says_for_whom() -> None:
    kept = worker("host-2", slot="2: GPU 1; processors 0-7", waits_for="GPU 1 is used by python (process 17 of ada)")
    listed = [worker("host-1", slot="1: GPU 0; processors 8-15"), kept, worker("away", last_seen=AWAY.last_seen)]
    assert workers.table(listed, NOW, {})["state"].tolist() == [["free"], ["waiting"], ["away"]]
    assert workers.waiting(listed, NOW) == [
        "Slot 2 of host waits: GPU 1 is used by python \\(process 17 of ada\\).",
        "End the program, leave the GPU out (setting `gpus`), or measure beside it (`share_gpus = true`).",
    ]
    assert workers.waiting(listed[:1], NOW) == []


def test_a_worker_says_which_engines_it_keeps_and_until_when() -> None:
    keeps = "2 engines until 14:05 UTC"
    listed = [worker("host-1", keeps=keeps), worker("away", last_seen=AWAY.last_seen, keeps=keeps), worker("host-2")]
    assert workers.keeping(listed, NOW) == ["Host keeps 2 engines until 14:05 UTC for the next study."]
    assert [each.idle_words for each in listed[::2]] == ["free, keeps 2 engines until 14:05 UTC", "free"]


def test_the_history_has_duration_runs_and_first_line_of_the_error() -> None:
    ended = {"started_at": NOW, "finished_at": NOW + timedelta(seconds=200)}
    failed = job(1, state="failed", progress=progress(runs_done=4, runs_failed=2), error="exit code 1\nmore", **ended)
    rows = history.table([job(2), failed])
    assert rows["duration"].tolist() == ["–", "3 min 20 s"]
    assert rows["runs"].tolist() == ["–", "4 of 4, 2 failed"]
    assert rows["error"].fillna("").tolist() == ["", "exit code 1"]


def ended_run(arm: str, repeat: int, tok_per_s: float | None, **changes: Any) -> dict[str, Any]:
    """In the order of measuring, a second after the one before."""
    values = {
        "run_id": f"{arm}-{repeat}",
        "arm": arm,
        "is_baseline": arm == "plain",
        "workload": "code",
        "pattern": "c1-n4",
        "concurrency": 1,
        "repeat": repeat,
        "host": "h1",
        "status": "completed" if tok_per_s else "failed",
        "is_valid": True,
        "output_tok_per_s": tok_per_s,
        "ttft_p50_ms": 41.66,
        "other_cpu_percent": None,
        "error": None if tok_per_s else "ValueError: no\nthe engine ended with exit status 1",
    }
    return values | changes


def test_runs_are_rows_with_the_ratio_so_far_the_last_one_first() -> None:
    measured = [
        ended_run("plain", 0, 100.0),
        ended_run("drafted", 0, 150.0),
        ended_run("broken", 0, None),
        ended_run("drafted", 1, 300.0),  # its baseline comes after it
        ended_run("plain", 1, 100.0),
        ended_run("drafted", 2, 500.0, is_valid=False),
        ended_run("drafted", 3, 400.0, pattern="c8-n4"),
        ended_run("drafted", 4, 900.0),
        ended_run("plain", 4, 300.0, host="h2"),  # no ratio of two hosts
    ]
    frame = pd.DataFrame([{**row, "started_at": NOW + timedelta(seconds=at)} for at, row in enumerate(measured)])
    rows = runs.table(frame).to_dict("records")[::-1]
    assert [row["ratio"] for row in rows] == [
        "baseline",
        "1.50×",
        "–",
        "2.12×",
        "baseline",
        "–",
        "–",
        "2.12×",
        "baseline",
    ]
    assert [row["state"] for row in rows[2:6]] == [["failed"], ["completed"], ["completed"], ["invalid"]]
    assert (rows[1]["tok_per_s"], rows[1]["ttft"], rows[1]["repeat"]) == ("150", "41.7", 1)
    assert (rows[2]["tok_per_s"], rows[2]["error"]) == ("–", "ValueError: no")
    assert "others" not in rows[0]
    busy = runs.table(frame.assign(other_cpu_percent=[80.04, *[float("nan")] * 8])).to_dict("records")[::-1]
    assert [row["others"] for row in busy[:2]] == ["80.0", "–"]


def test_the_page_lists_the_runs_of_its_job(open_page: OpenPage, settings: Settings) -> None:
    job_id = measure_study(settings, study(name="one repeat"))
    app = open_page("jobs", job=job_id)
    (listed,) = [frame.value for frame in app.dataframe if "ratio" in frame.value]
    assert set(listed["arm"]) == {arm.name for arm in stored(settings, job_id).study.arms}
    assert f"{len(listed)} runs ended. " in words(app)


def test_the_number_of_rows_and_the_progress_are_reconciled_in_a_sentence() -> None:
    assert runs.counts_sentence(job(), 0, compares=False) == "No run has ended yet. Each appears here when it ends."
    running = job(state="running", progress=progress(runs_done=3))
    assert runs.counts_sentence(running, 3, compares=True).startswith("3 runs ended. The ratio so far")
    assert runs.counts_sentence(running, 3, compares=False) == "3 runs ended."
    waiting = "3 runs ended; 1 still to be published. The ratio so far"
    assert runs.counts_sentence(running, 2, compares=True).startswith(waiting)


def test_the_page_is_drawn_anew_when_jobs_start_or_runs_end() -> None:
    queued, begun = job(), job(state="running", progress=progress(runs_done=0))
    later = [job(state="running", progress=progress(**more)) for more in ({"runs_done": 0}, {"runs_done": 1})]
    shown = [sections.on_page([state]) for state in (queued, begun, *later)]
    assert shown[0] != shown[1] == shown[2] != shown[3]


def test_a_job_can_be_retried_unless_all_its_runs_completed() -> None:
    assert detail.can_retry(job(state="failed"))
    assert detail.can_retry(job(state="done", progress=progress(runs_failed=1)))
    assert not detail.can_retry(job(state="done", progress=progress()))


def test_an_empty_queue_says_so_and_leads_to_the_form(open_page: OpenPage) -> None:
    app = open_page("jobs")
    assert "No jobs yet" in words(app)
    assert [button.label for button in app.button] == ["Submit a study"]


def stored(settings: Settings, job_id: str) -> Job:
    with open_engine(settings.app_database_url) as engine:
        return queue.job(engine, job_id)


def shown_order(app: AppTest, *names: str) -> list[str]:
    shown = words(app)
    return sorted(names, key=lambda name: shown.index(f"**{name}**"))


def test_running_and_queued_jobs_are_shown_moved_and_cancelled(open_page: OpenPage, settings: Settings) -> None:
    running = running_job(settings, study(name="running"), remaining_s=200.0)
    log = settings.logs_dir / "engines" / f"{running}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("INFO Starting vLLM\nINFO <script>ready</script>\n", encoding="utf-8")
    ids = {name: queue.submit(settings, study(name=name), actor=ADMIN) for name in ("first", "second", "third")}
    tell_worker(settings)
    app = open_page("jobs", job=running)
    assert app.progress[0].value == 37  # (1 run + half of the next) of 4
    assert "INFO Starting vLLM\nINFO <script>ready</script>" in [code.value for code in app.code]
    assert "Next in the queue; starts in about 3 min" in words(app)
    assert "No worker has an NVIDIA GPU" in words(app)
    assert shown_order(app, *ids) == ["first", "second", "third"]
    assert (app.button(key=f"up-{ids['first']}").disabled, app.button(key=f"down-{ids['third']}").disabled) == (
        True,
        True,
    )
    ran(app.button(key=f"up-{ids['third']}").click().run())
    assert shown_order(app, *ids) == ["first", "third", "second"]
    ran(app.button(key=f"down-{ids['first']}").click().run())
    assert shown_order(app, *ids) == ["third", "first", "second"]
    priority = stored(settings, ids["second"]).priority
    app.number_input(key=f"priority-{ids['second']}-{priority}").set_value(50)
    ran(app.button(key=f"set-priority-{ids['second']}").click().run())
    assert stored(settings, ids["second"]).priority == 50
    assert shown_order(app, *ids)[0] == "second"
    ran(app.button(key=f"cancel-{running}").click().run())
    assert stored(settings, running).cancel_requested
    assert f"cancel-{running}" not in [button.key for button in app.button]


@pytest.mark.parametrize(
    ("state", "runs", "word", "outcome"),
    [
        ("done", (12, 0, None), "done", "done"),
        ("done", (12, 5, 0), "some failed", "done, 5 of 12 runs failed"),
        ("done", (12, 0, 1), "some invalid", "done, 1 of 12 runs invalid"),
        ("done", (12, 5, 7), "none valid", "done, 5 of 12 runs failed, 7 invalid"),
        ("done", (1, 0, 1), "none valid", "done, 1 of 1 run invalid"),
        ("cancelled", (3, 1, 2), "cancelled", "cancelled, 1 of 3 runs failed, 2 invalid"),
        ("failed", (0, 0, None), "failed", "failed"),
        ("running", (3, 1, 2), "running", "running"),
    ],
)
def test_the_state_of_a_job_names_what_was_lost(
    state: State, runs: tuple[int, int, int | None], word: str, outcome: str
) -> None:
    ended, failed, invalid = runs
    found = job(state=state, progress=progress(runs_done=ended, runs_failed=failed), runs_invalid=invalid)
    assert (found.state_word, found.outcome) == (word, outcome)


def test_the_error_in_a_table_begins_with_its_cause() -> None:
    ended = job(state="failed", error="2 of 4 runs failed; the first: EngineError: no such head\nTraceback")
    assert list(history.table([ended])["error"]) == ["EngineError: no such head"]


def test_a_done_job_says_how_many_of_its_runs_are_invalid(open_page: OpenPage, read_study: ReadStudy) -> None:
    job_id = read_study(study(), miscounted="draft")
    app = open_page("jobs", job=job_id)
    assert "done, 2 invalid" in words(app)
    assert app.dataframe[0].value["state"].tolist() == [["some invalid"]]
    assert [["some invalid"]] in [table.value["state"].tolist() for table in open_page("home").dataframe[:1]]
    for page in ("results", "compare"):
        shown = words(open_page(page, job=job_id))
        assert "Nothing to compare yet" in shown
        assert "at the same load. No valid run: draft" in shown


def test_a_link_opens_a_job_to_retry_or_run_again(open_page: OpenPage, settings: Settings) -> None:
    error = "EngineError: exit code 1\nValueError: <b>architecture</b> $x$"
    done = running_job(settings, study(name="done"), runs_done=4)
    finish(settings, done, "done")
    failed = failed_job(settings, study(name="failed"), error)
    queue.submit(settings, study(name=HOSTILE, hardware="H200"), actor=ADMIN)
    app = open_page("jobs", job=done)
    assert app.selectbox(key="job").value == f"done · {done}"
    assert "Retry" not in [button.label for button in app.button]
    click(app, "Run all again")
    assert (stored(settings, done).state, stored(settings, done).reuse_from_attempt) == ("queued", 1)
    app = open_page("jobs", job=failed)
    assert error in [code.value for code in app.code]
    click(app, "Retry")
    assert (stored(settings, failed).state, stored(settings, failed).attempt) == ("queued", 1)
    app = open_page("jobs", job="20200101-000000-0000")
    assert "20200101-000000-0000" in words(app)
    assert app.selectbox(key="job").value is None
    (head, *_) = [markdown.value for markdown in app.markdown if "script" in markdown.value]
    assert all(escaped in head for escaped in (r"\<script\>", r"\$x\$", r"\:smile\:", r"\[a\]\("))


def test_what_cannot_be_read_or_judged_is_named_with_tracebacks_beside_the_rest(
    open_page: OpenPage, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = failed_job(settings, study(name="measured"), "the last run failed")
    write_run(settings.bundles, job_id=measured, run_id="a run")
    monkeypatch.setattr(judging, "judge_ended", lambda *_: 1 / 0)
    unreadable, other = (
        queue.submit(settings, study(name=HOSTILE), actor=ADMIN),
        queue.submit(settings, study(name="another"), actor=ADMIN),
    )
    with open_engine(settings.app_database_url) as database, database.begin() as connection:
        connection.execute(jobs_table.update().where(jobs_table.c.job_id == unreadable).values(study_json="{}"))
    broken = write_run(settings.bundles)
    (broken / "requests.parquet").write_bytes(b"<script>no parquet</script>")
    ingest_all(settings)
    app = open_page("jobs")
    shown = words(app)
    assert f"{HOSTILE}** :gray[{unreadable}, queued]" in shown
    assert f"job {unreadable} cannot be read by this Drafthouse (ValidationError: " in shown
    assert "**job-1/run-1** :gray[since " in shown
    assert "requests.parquet cannot be read" in shown
    for error in ("ValidationError", "ZeroDivisionError"):
        assert any("Traceback" in code.value and error in code.value for code in app.code)
    assert "1 bundle cannot be ingested" in shown
    assert "1 study cannot be judged" in shown
    assert "**another**" in shown
    assert f"another · {other}" in app.selectbox(key="job").options
    ran(app.button(key=f"cancel-set-aside-{unreadable}").click().run())
    assert f"{unreadable}, cancelled]" in words(app)


def listed(app: AppTest) -> list[str]:
    (table,) = [frame.value for frame in app.dataframe if {"job_id", "submitted"} <= set(frame.value)]
    return list(table["job_id"])


def test_a_running_job_and_old_links_survive_hundreds_of_newer_jobs(open_page: OpenPage, settings: Settings) -> None:
    running = running_job(settings, study(name="the oldest"))
    ended = add_ended_jobs(settings, study(name="done"), 80)
    app = open_page("jobs", job=ended[0])
    assert app.selectbox(key="job").value == f"done · {ended[0]}"
    assert "does not exist" not in words(app)
    assert f"cancel-{running}" in [button.key for button in app.button]
    assert listed(app) == [*reversed(ended[30:])]
    older = click(app, "Older")
    assert dict(older.query_params)["before"] in (ended[30], [ended[30]])
    assert listed(older) == [*reversed(ended[:30]), running]
    assert [button.disabled for button in older.button if button.label in ("Newest", "Older")] == [False, True]
    gone = open_page("jobs", before="20200101-000000-0000")
    assert "there is no job 20200101-000000-0000" in words(gone)
    assert listed(gone) == [*reversed(ended[30:])]
    assert "the oldest" in words(open_page("home"))


def test_a_long_queue_shows_its_first_jobs_and_any_other_that_is_chosen(
    open_page: OpenPage, settings: Settings
) -> None:
    ids = [queue.submit(settings, study(name=f"study {number}"), actor=ADMIN) for number in range(8)]
    app = open_page("jobs", job=ids[7])
    with_controls = {
        (button.key or "").removeprefix("cancel-") for button in app.button if button.label == "Cancel the study"
    }
    assert with_controls == {*ids[: sections.MOST_QUEUED], ids[7]}
    shown = words(app)
    assert "5 more studies wait" in shown
    assert "7 studies ahead in the queue." in shown
    home = words(open_page("home"))
    assert "8 studies wait in the [queue](jobs?state=queued)" in home


def test_the_list_of_jobs_is_filtered_by_state_text_and_user(open_page: OpenPage, settings: Settings) -> None:
    ids = {name: queue.submit(settings, study(name=name), actor=ADMIN) for name in ("one", "Two 100%", "two")}
    failed = failed_job(settings, study(name="another"), "no")
    assert listed(open_page("jobs", state="failed")) == [failed]
    assert listed(open_page("jobs", find="TWO")) == [ids["two"], ids["Two 100%"]]
    assert listed(open_page("jobs", find="0%")) == [ids["Two 100%"]]
    assert listed(open_page("jobs", find=ids["one"][-9:], by=ADMIN.name)) == [ids["one"]]
    app = open_page("jobs", by="nobody")
    assert "No job is like that." in words(app)
    assert "State" in [box.label for box in app.selectbox]
    assert "The state hung in this link does not exist" in words(open_page("jobs", state="hung"))


def test_a_job_table_of_another_revision_is_a_sentence_on_the_page(open_page: OpenPage, settings: Settings) -> None:
    with open_engine(settings.app_database_url) as engine, engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = 'from-the-future'")
    st.cache_resource.clear()
    shown = words(open_page("jobs"))
    assert "drafthouse migrate" in shown or "newer" in shown
