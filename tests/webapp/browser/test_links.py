"""What only a browser shows: URLs, clicks, what a hostile name becomes, and that nothing is fetched from elsewhere."""

from __future__ import annotations

import json
import re
import urllib.parse
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from jobs import leases, queue
from tests.lab.studies import study
from tests.webapp.browser.clicks import HOSTILE, cancel_by_hand, choose, heading, jobs, parameters, settled
from tests.webapp.browser.conftest import Server
from tests.webapp.homes import failed_job, running_job
from tests.webapp.measured import measure_study
from warehouse.app_db.engine import app_engine

pytestmark = pytest.mark.browser

NGRAM = {"method": "ngram", "num_speculative_tokens": 3}


def test_a_link_to_results_carries_study_category_and_metric(server: Server, page: Page) -> None:
    both = [{"category": "code", "output_tokens": 8}, {"category": "repeat", "output_tokens": 8}]
    first = measure_study(server.settings, study(name="linked", workloads=both))
    measure_study(server.settings, study(name="newer", workloads=both))
    page.goto(f"{server.url}/results")
    heading(page, "Results")
    choose(page, "Study", f"linked · {first}")
    choose(page, "Category", "repeat")
    choose(page, "Metric", "Time per output token p50")
    wanted = {"job": f"linked · {first}", "category": "repeat", "metric": "Time per output token p50"}
    expect(page).to_have_url(re.compile("metric="))
    expect(page.get_by_text(re.compile("^Best ratio of"))).to_be_visible()
    assert parameters(page) == wanted
    other = page.context.new_page()
    other.goto(page.url)
    heading(other, "Results")
    expect(other.get_by_text(re.compile("^Best ratio of"))).to_be_visible()
    expect(other.get_by_role("combobox", name=re.compile("Study"))).to_have_value(f"linked · {first}")
    expect(other.get_by_role("combobox", name=re.compile("Category"))).to_have_value("repeat")
    assert parameters(other) == wanted


def test_a_link_to_a_query_shows_it_with_its_chart_to_somebody_else(server: Server, page: Page) -> None:
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
    other = page.context.new_page()
    other.goto(page.url)
    heading(other, "SQL")
    expect(other.get_by_role("textbox", name="SQL", exact=True)).to_have_value(re.compile("^select arm, concurrency"))
    expect(other.get_by_role("combobox", name=re.compile("^y$"))).to_have_value("runs")
    expect(other.get_by_role("combobox", name=re.compile("Colour"))).to_have_value("concurrency")
    expect(
        other.locator("[data-testid=stVegaLiteChart] canvas, [data-testid=stVegaLiteChart] svg").first
    ).to_be_visible()


def test_a_bare_job_id_is_link_enough_and_the_newest_is_named_in_the_url(server: Server, page: Page) -> None:
    older = measure_study(server.settings, study(name="older"))
    newest = measure_study(server.settings, study(name="newest"))
    page.goto(f"{server.url}/results?job={older}")
    heading(page, "Results")
    expect(page.get_by_role("combobox", name="Study")).to_have_value(f"older · {older}")
    page.goto(f"{server.url}/results")
    heading(page, "Results")
    expect(page).to_have_url(re.compile(re.escape(urllib.parse.quote_plus(f"newest · {newest}"))))


def test_submitting_from_the_form_leads_to_the_job(server: Server, page: Page) -> None:
    page.goto(f"{server.url}/submit")
    heading(page, "Submit a study")
    name = page.get_by_role("textbox", name="Name", exact=True).first
    expect(name).to_have_value("demo")
    name.fill("from the browser")
    name.press("Enter")
    page.get_by_text("TOML", exact=True).click()
    text = page.get_by_role("textbox", name="The study in TOML")
    expect(text).to_have_value(re.compile('name = "from the browser"'))
    text.fill(text.input_value().replace("repeats", "# repeats"))
    page.get_by_text("Form", exact=True).click()
    expect(page.get_by_role("textbox", name="Name", exact=True).first).to_have_value("from the browser")
    page.get_by_role("button", name="Submit study").click()
    expect(page.get_by_text("Submitted as")).to_be_visible()
    page.get_by_role("link", name="Watch it on the Jobs page").click()
    heading(page, "Jobs")
    (job,) = [job for job in jobs(server) if job.name == "from the browser"]
    expect(page.get_by_role("combobox", name=re.compile("Study"))).to_have_value(f"from the browser · {job.job_id}")


def test_a_double_click_on_submit_is_one_job(server: Server, page: Page) -> None:
    page.goto(f"{server.url}/submit")
    heading(page, "Submit a study")
    name = page.get_by_role("textbox", name="Name", exact=True).first
    name.fill("clicked twice")
    name.press("Enter")
    expect(name).to_have_value("clicked twice")
    page.get_by_role("button", name="Submit study").dblclick()
    expect(page.get_by_text("Submitted as")).to_be_visible()
    assert len([job for job in jobs(server) if job.name == "clicked twice"]) == 1


def test_a_pattern_and_a_preset_are_chosen_with_the_mouse(server: Server, page: Page) -> None:
    page.goto(f"{server.url}/submit")
    heading(page, "Submit a study")
    page.get_by_role("button", name="Add a pattern").click()
    page.get_by_text("burstiness_low: 2 requests/s").click()
    expect(page.locator("input[value=burstiness_low]")).to_be_visible()
    choose(page, "Start from", "engines: Which engine serves this model fastest, before any draft model?")
    expect(page.get_by_role("textbox", name="Name", exact=True).first).to_have_value("engines")
    expect(page).to_have_url(re.compile(r"preset=engines$"))
    page.reload()
    expect(page.get_by_role("textbox", name="Name", exact=True).first).to_have_value("engines")


def test_a_job_leads_to_the_form_that_holds_its_study(server: Server, page: Page) -> None:
    job_id = queue.submit(server.settings, study(name="to change"))
    page.goto(f"{server.url}/jobs?job={job_id}")
    heading(page, "Jobs")
    page.get_by_role("link", name="Edit and resubmit").click()
    heading(page, "Submit a study")
    expect(page.get_by_role("textbox", name="Name", exact=True).first).to_have_value("to change")
    expect(page).to_have_url(re.compile(f"from_job={job_id}"))


def test_the_order_of_the_queue_is_changed_with_the_mouse(server: Server, page: Page) -> None:
    first, second = (queue.submit(server.settings, study(name=name), priority=50) for name in ("one", "two"))
    page.goto(f"{server.url}/jobs?job={second}")
    heading(page, "Jobs")
    card = page.locator(f".st-key-active-{second}")
    expect(card.get_by_text("1 study ahead")).to_be_visible()
    page.locator(f".st-key-up-{second}").get_by_test_id("stTooltipHoverTarget").get_by_role("button").click()
    expect(card.get_by_text("Next in the queue")).to_be_visible()
    expect(page.locator(f".st-key-active-{first}").get_by_text("1 study ahead")).to_be_visible()
    for job_id in (first, second):
        cancel_by_hand(server, job_id)


def test_cancelling_asks_once_more(server: Server, page: Page) -> None:
    job_id = queue.submit(server.settings, study(name="to cancel"), priority=100)
    page.goto(f"{server.url}/jobs?job={job_id}")
    heading(page, "Jobs")
    card = page.locator(f".st-key-active-{job_id}")
    card.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Cancel the study").click()
    expect(card).to_have_count(0)
    (job,) = [job for job in jobs(server) if job.job_id == job_id]
    assert job.state == "cancelled"


def test_progress_follows_the_worker_without_a_reload(server: Server, page: Page) -> None:
    job_id = running_job(server.settings, study(name="moving"))
    page.goto(f"{server.url}/jobs?job={job_id}")
    heading(page, "Jobs")
    expect(page.get_by_text("4 of 8 requests")).to_be_visible()
    engine = app_engine(server.settings.app_database_url)
    moved = queue.job(engine, job_id).progress
    assert moved is not None
    leases.heartbeat(engine, job_id, "test-worker", 3600, moved.model_copy(update={"requests_done": 7}))
    expect(page.get_by_text("7 of 8 requests")).to_be_visible()
    leases.finish(engine, job_id, "test-worker", "done")
    engine.dispose()
    expect(page.get_by_text("7 of 8 requests")).to_have_count(0)


def test_names_and_errors_are_never_markup(server: Server, page: Page) -> None:
    arms = [{"name": "no draft"}, {"name": HOSTILE, "speculation": NGRAM}]
    measured = measure_study(server.settings, study(name=HOSTILE, arms=arms))
    failed = failed_job(server.settings, study(name=f"{HOSTILE} too"), f"EngineError: {HOSTILE}")
    for path, title in ((f"/results?job={measured}", "Results"), (f"/jobs?job={failed}", "Jobs")):
        page.goto(server.url + path)
        heading(page, title)
        shown = page.get_by_text("$x$").filter(has_text=":smile:").first
        expect(shown).to_be_visible()
        assert HOSTILE in shown.inner_text().replace("\u2060", "")
        assert page.locator("[data-testid=stMain] script, .katex, a[href='http://b']").count() == 0
        assert page.title() != "owned"


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
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV", exact=True).first.click()
    download.value.save_as(tmp_path / "cells.csv")
    lines = (tmp_path / "cells.csv").read_text(encoding="utf-8").splitlines()
    comments, (header, *rows) = [line for line in lines if line[0] == "#"], [line for line in lines if line[0] != "#"]
    assert comments[0] == "# Each arm, category and load"
    assert f"job={job_id}" in comments[-1]
    assert comments[-1].startswith(f"# {server.url}/results?")
    assert header == "arm,verdict,ratio,low,high,category,pattern,concurrency,value,repeats"
    assert len(rows) == 4
    assert json.dumps(rows).count("no draft") == 2
