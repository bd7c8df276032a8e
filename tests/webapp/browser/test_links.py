"""What only a browser shows: URLs, clicks, what a hostile name becomes, and that nothing is fetched from elsewhere."""

from __future__ import annotations

import json
import re
import urllib.parse
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from jobs import leases, queue
from tests.actors import ADMIN
from tests.lab.studies import study
from tests.webapp import screenshots
from tests.webapp.browser.clicks import (
    HOSTILE,
    becomes,
    cancel_by_hand,
    choose,
    has_parameters,
    heading,
    jobs,
    open_listed,
    query,
    settled,
)
from tests.webapp.browser.conftest import Server
from tests.webapp.homes import failed_job, running_job
from tests.webapp.measured import measure_study
from warehouse.app_db.engine import app_engine

pytestmark = pytest.mark.browser

NGRAM = {"method": "ngram", "num_speculative_tokens": 3}
BOTH = [{"category": "code", "output_tokens": 8}, {"category": "repeat", "output_tokens": 8}]
LISTED = "[data-testid=stSidebar] [data-testid=stPageLink-NavLink]"
#: Of pages whose heading is not their name in the list.
HEADINGS = {"Submit": "Submit a study"}


def test_study_and_views_stay_from_every_page_to_every_other_all_drawn_without_an_error_or_a_request_to_elsewhere(
    server: Server, page: Page, other: Page
) -> None:
    """Dark by the list of pages, light by their links."""
    complaints: list[str] = []
    page.emulate_media(color_scheme="dark")
    for tab in (page, other):
        screenshots.listen(tab, server.url, complaints)
    chosen = measure_study(server.settings, study(name="chosen", workloads=BOTH, repeats=2))
    newest = measure_study(server.settings, study(name="newest"))
    label = f"chosen · {chosen}"
    page.goto(f"{server.url}/results")
    heading(page, "Results")
    expect(bar(page)).to_have_value(f"newest · {newest}")
    page.goto(f"{server.url}/explore?job={chosen}&mark=Bar")  # a bare id is enough
    heading(page, "Explore")
    expect(bar(page)).to_have_value(label)
    open_listed(page, "Results")
    choose(page, "Category", "repeat")
    choose(page, "Metric", "Time per output token p50")
    expect(page).to_have_url(re.compile("metric="))
    open_listed(page, "Home")
    names = list(listed_links(page))
    assert len(names) == 14
    results = {"job": label, "category": "repeat", "metric": "Time per output token p50"}
    views = {key: {"job": label} for key in names} | {"Results": results, "Explore": {"job": label, "mark": "Bar"}}
    for name in names:
        listed(page, name).click()
        shows(page, name, label)
        screenshots.settle(page)
        becomes(page, lambda: {title: query(link) for title, link in listed_links(page).items()}, views)
        has_parameters(page, views[name])
    for name in reversed(names[:-1]):
        page.go_back()
        shows(page, name, label)
        has_parameters(page, views[name])
    page.go_forward()
    shows(page, names[1], label)
    for name, link in listed_links(page).items():
        other.goto(link)  # a session of its own, as a reload has
        shows(other, name, label)
        screenshots.settle(other)
        has_parameters(other, views[name])
    with page.context.expect_page() as opened:
        listed(page, "Explore").click(button="middle")
    shows(opened.value, "Explore", label)
    has_parameters(opened.value, views["Explore"])
    opened.value.close()
    assert complaints == []


def listed_links(page: Page) -> dict[str, str]:
    """The link of each page in the list."""
    links = page.locator(LISTED).evaluate_all("all => all.map(a => [a.innerText.trim().split('\\n').pop(), a.href])")
    return dict(links)


def listed(page: Page, name: str) -> Locator:
    return page.locator(LISTED).filter(has_text=re.compile(f"{name}$"))


def shows(page: Page, name: str, study: str) -> None:
    expect(page.get_by_role("heading", level=1)).to_have_text(HEADINGS.get(name, name))
    expect(bar(page)).to_have_value(study)


def bar(page: Page) -> Locator:
    return page.locator(".st-key-study-bar").get_by_role("combobox", name="Study")


def test_a_link_to_a_query_shows_it_with_its_chart_to_somebody_else(server: Server, page: Page, other: Page) -> None:
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
    expect(
        other.locator("[data-testid=stVegaLiteChart] canvas, [data-testid=stVegaLiteChart] svg").first
    ).to_be_visible()


def test_submitting_from_the_form_leads_to_the_job(server: Server, page: Page) -> None:
    page.goto(f"{server.url}/submit")
    heading(page, "Submit a study")
    name = page.get_by_role("textbox", name="Name", exact=True).first
    expect(name).to_have_value("demo")
    settled(page)
    name.fill("from the browser")
    name.press("Enter")
    expect(page).to_have_url(re.compile("edits="))
    page.reload()
    expect(name).to_have_value("from the browser")
    page.get_by_text("TOML", exact=True).click()
    text = page.get_by_role("textbox", name="The study in TOML")
    expect(text).to_have_value(re.compile('name = "from the browser"'))
    text.fill(text.input_value().replace("repeats", "# repeats"))
    text.press("Control+Enter")
    settled(page)
    page.get_by_text("Form", exact=True).click()
    expect(page.get_by_role("textbox", name="Name", exact=True).first).to_have_value("from the browser")
    settled(page)
    page.get_by_role("button", name="Submit study").click()
    expect(page.get_by_text("Submitted as")).to_be_visible()
    page.get_by_role("link", name=re.compile("watch it")).click()
    heading(page, "Jobs")
    (job,) = [job for job in jobs(server) if job.name == "from the browser"]
    expect(page.get_by_role("combobox", name=re.compile("Study"))).to_have_value(f"from the browser · {job.job_id}")


def test_a_double_click_on_submit_is_one_job(server: Server, page: Page) -> None:
    page.goto(f"{server.url}/submit")
    heading(page, "Submit a study")
    before = {job.job_id for job in jobs(server)}
    name = page.get_by_role("textbox", name="Name", exact=True).first
    expect(name).to_have_value("demo")
    settled(page)
    name.fill("clicked twice")
    name.press("Enter")
    expect(page).to_have_url(re.compile("edits="))
    settled(page)
    page.get_by_role("button", name="Submit study").dblclick()
    expect(page.get_by_text("Submitted as")).to_be_visible()
    settled(page)  # the second click has been answered too
    assert [job.name for job in jobs(server) if job.job_id not in before] == ["clicked twice"]


def test_a_pattern_and_a_preset_are_chosen_with_the_mouse(server: Server, page: Page) -> None:
    page.goto(f"{server.url}/submit")
    heading(page, "Submit a study")
    settled(page)
    page.get_by_role("button", name="Add a pattern").click()
    page.get_by_text("burstiness_low: 2 requests/s").click()
    expect(page.locator("input[value=burstiness_low]")).to_be_visible()
    choose(page, "Start from", "engines: Which engine serves this model fastest, before any draft model?")
    expect(page.get_by_role("textbox", name="Name", exact=True).first).to_have_value("engines")
    expect(page).to_have_url(re.compile(r"\?preset=engines$"))
    page.reload()
    expect(page.get_by_role("textbox", name="Name", exact=True).first).to_have_value("engines")


def test_the_order_of_the_queue_is_changed_by_mouse_and_cancelling_asks_once_more(server: Server, page: Page) -> None:
    first, second = (
        queue.submit(server.settings, study(name=name), priority=50, actor=ADMIN) for name in ("one", "two")
    )
    page.goto(f"{server.url}/jobs?job={second}")
    heading(page, "Jobs")
    card = page.locator(f".st-key-active-{second}")
    expect(card.get_by_text("1 study ahead")).to_be_visible()
    page.locator(f".st-key-up-{second}").get_by_test_id("stTooltipHoverTarget").get_by_role("button").click()
    expect(card.get_by_text("Next in the queue")).to_be_visible()
    expect(page.locator(f".st-key-active-{first}").get_by_text("1 study ahead")).to_be_visible()
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
