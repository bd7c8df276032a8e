"""What only a browser shows: links, clicks, and what a hostile name becomes."""

from __future__ import annotations

import csv
import json
import re
import urllib.parse
from itertools import dropwhile
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from jobs import queue
from jobs.fleet import leases
from tests.actors import ADMIN
from tests.lab.studies import study
from tests.webapp.browser.clicks import cancel_by_hand, choose, click_until, enter, heading, settled
from tests.webapp.browser.conftest import Server, jobs
from tests.webapp.homes import running_job
from tests.webapp.measured import measure_study
from warehouse.app_db.engine import open_engine

pytestmark = pytest.mark.browser


def test_a_link_to_a_query_shows_others_the_query_and_its_chart(server: Server, page: Page, other: Page) -> None:
    measure_study(server.settings, study(name="asked about"))
    page.goto(f"{server.url}/sql")
    heading(page, "SQL")
    settled(page)
    editor = page.get_by_role("textbox", name="SQL", exact=True)
    editor.fill(
        "select arm, concurrency, count(*) as runs from results where origin = 'measured' group by all order by all"
    )
    editor.press("Control+Enter")
    choose(page, "^y$", "runs")
    settled(page)
    before = page.url
    choose(page, "Colour", "concurrency")
    expect(page).not_to_have_url(before)
    settled(page)
    other.goto(page.url)
    heading(other, "SQL")
    expect(other.get_by_role("textbox", name="SQL", exact=True)).to_have_value(re.compile("^select arm, concurrency"))
    expect(other.get_by_role("combobox", name=re.compile("^y$"))).to_have_value("runs")
    expect(other.get_by_role("combobox", name=re.compile("Colour"))).to_have_value("concurrency")
    other.locator("[data-testid=stVegaLiteChart] canvas, [data-testid=stVegaLiteChart] svg").first.wait_for()


def test_a_double_click_on_submit_makes_one_job_and_leads_there(server: Server, page: Page) -> None:
    page.goto(f"{server.url}/submit")
    heading(page, "Submit a study")
    before = {job.job_id for job in jobs(server)}
    name = page.get_by_role("textbox", name="Name", exact=True).first
    expect(name).to_have_value("demo")
    settled(page)
    name.fill("from the browser")
    name.press("Enter")
    page.wait_for_url(re.compile("edits="))
    page.reload()
    expect(name).to_have_value("from the browser")
    settled(page)
    page.get_by_text("TOML", exact=True).click()
    text = page.get_by_role("textbox", name="The study in TOML")
    expect(text).to_have_value(re.compile('name = "from the browser"'))
    enter(page, text, text.input_value().replace("repeats", "# repeats"), key="Control+Enter")
    settled(page)
    page.get_by_text("Form", exact=True).click()
    expect(page.get_by_role("textbox", name="Name", exact=True).first).to_have_value("from the browser")
    settled(page)
    page.get_by_role("button", name="Submit study").dblclick()
    page.get_by_text("Submitted as").wait_for()
    settled(page)  # the second click has been answered too
    page.get_by_role("link", name=re.compile("watch it")).click()
    heading(page, "Jobs")
    (job,) = [job for job in jobs(server) if job.job_id not in before]
    assert job.name == "from the browser"
    expect(page.get_by_role("combobox", name=re.compile("Study"))).to_have_value(f"from the browser · {job.job_id}")
    cancel_by_hand(server, job.job_id)


def test_a_pattern_and_a_preset_are_chosen_with_the_mouse(server: Server, page: Page) -> None:
    page.goto(f"{server.url}/submit")
    heading(page, "Submit a study")
    settled(page)
    page.get_by_role("button", name="Add a load").click()
    page.get_by_text("burstiness_low: 2 requests/s").click()
    page.get_by_text("burstiness_low · 2 requests/s, burstiness 4").wait_for()
    choose(page, "Start from", "engines: Which engine serves this model fastest, before any draft model?")
    expect(page.get_by_role("textbox", name="Name", exact=True).first).to_have_value("engines")
    page.wait_for_url(re.compile(r"\?preset=engines$"))
    page.reload()
    expect(page.get_by_role("textbox", name="Name", exact=True).first).to_have_value("engines")


def test_the_queue_is_reordered_by_mouse_and_cancelling_asks_again(server: Server, page: Page) -> None:
    first, second = (
        queue.submit(server.settings, study(name=name), priority=50, actor=ADMIN) for name in ("one", "two")
    )
    page.goto(f"{server.url}/jobs?job={second}")
    heading(page, "Jobs")
    card = page.locator(f".st-key-active-{second}")
    card.get_by_text("1 study ahead").wait_for()
    settled(page)
    page.locator(f".st-key-up-{second}").get_by_test_id("stTooltipHoverTarget").get_by_role("button").click()
    card.get_by_text("Next in the queue").wait_for()
    page.locator(f".st-key-active-{first}").get_by_text("1 study ahead").wait_for()
    settled(page)
    card.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Cancel the study").click()
    expect(card).to_have_count(0)
    (job,) = [job for job in jobs(server) if job.job_id == second]
    assert job.state == "cancelled"
    cancel_by_hand(server, first)


def test_progress_follows_the_worker_without_a_reload(server: Server, page: Page) -> None:
    job_id = running_job(server.settings, study(name="moving"))
    page.goto(f"{server.url}/jobs?job={job_id}")
    heading(page, "Jobs")
    page.get_by_text("4 of 8 requests").wait_for()
    with open_engine(server.settings.app_database_url) as engine:
        moved = queue.job(engine, job_id).progress
        assert moved is not None
        leases.heartbeat(engine, job_id, "test-worker", 3600, moved.model_copy(update={"requests_done": 7}))
        page.get_by_text("7 of 8 requests").wait_for()
        leases.finish(engine, job_id, "test-worker", "done")
    expect(page.get_by_text("7 of 8 requests")).to_have_count(0)


def test_another_host_name_gets_no_session(server: Server, page: Page) -> None:
    """A page of elsewhere that resolves its own name to this machine must not reach the server (DNS rebinding)."""
    port = urllib.parse.urlsplit(server.url).port
    refused = page.context.request.get(f"{server.url}/healthz")
    assert refused.json() == {"status": "ok"}
    page.goto(f"{server.url}/results")
    heading(page, "Results")
    closed = page.evaluate(
        """async (port) => await new Promise((done) => {
            const socket = new WebSocket(`ws://rebound.localhost:${port}/_stcore/stream`);
            socket.onopen = () => done("open");
            socket.onerror = () => done("refused");
        })""",
        port,
    )
    assert closed == "refused"


def test_the_results_download_as_csv(server: Server, page: Page, tmp_path: Path) -> None:
    job_id = measure_study(server.settings, study(name="to download"))
    page.goto(f"{server.url}/results?job={job_id}")
    heading(page, "Results")
    settled(page)
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV", exact=True).first.click()
    download.value.save_as(tmp_path / "cells.csv")
    lines = (tmp_path / "cells.csv").read_text(encoding="utf-8").splitlines()
    comments, (header, *rows) = [line for line in lines if line[0] == "#"], [line for line in lines if line[0] != "#"]
    assert comments[0] == "# Each arm, category and load"
    assert f"job={job_id}" in comments[-1]
    assert comments[-1].startswith(f"# {server.url}/results?")
    assert header == "arm,verdict,ratio,low,high,value,repeats,category,pattern,concurrency"
    assert len(rows) == 4
    assert json.dumps(rows).count("no draft") == 2


def test_a_request_is_read_in_full_and_files_have_every_column(server: Server, page: Page, tmp_path: Path) -> None:
    job_id = measure_study(server.settings, study(name="requests"))
    page.goto(f"{server.url}/run?job={job_id}&run_tab=Requests")
    heading(page, "Run")
    settled(page)
    prompt = page.get_by_text("Prompt of request 0")
    click_until(page.get_by_test_id("stDataFrame").first, prompt, position={"x": 15, "y": 55})
    page.get_by_text("Output, in ").wait_for()
    settled(page)
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV", exact=True).last.click()
    download.value.save_as(tmp_path / "requests.csv")
    lines = (tmp_path / "requests.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    (row, *_) = csv.DictReader(dropwhile(lambda line: line.startswith("#"), lines))
    assert row["prompt"]
    assert page.get_by_test_id("stCode").get_by_text(row["prompt"], exact=True).count() == 1
    assert len(row["chunk_s"].split()) > 1
