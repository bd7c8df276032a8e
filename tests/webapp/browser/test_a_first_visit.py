"""A first visit from the empty Home to a priced study, as a person clicks through it."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.chromium import another_person
from tests.lab.studies import study
from tests.webapp.browser.clicks import cancel_by_hand, choose, enter, has_parameters, heading, settled
from tests.webapp.browser.conftest import Server, jobs
from tests.webapp.measured import measure_study
from tests.webapp.screenshots import listen

pytestmark = [pytest.mark.browser, pytest.mark.timeout(1800)]


def test_an_empty_home_leads_to_the_demo_and_a_headline_that_prints(empty_server: Server, page: Page) -> None:
    complaints: list[str] = []
    listen(page, empty_server.url, complaints)
    page.goto(empty_server.url)
    heading(page, "Home")
    page.get_by_text("Start here: nothing has been measured yet").wait_for()
    settled(page)
    page.get_by_role("button", name="Run the demo study").dblclick()
    page.get_by_text("1 study waits in the").wait_for()
    settled(page)  # the second click has been answered too
    (demo,) = jobs(empty_server)
    cancel_by_hand(empty_server, demo.job_id)
    measure_study(empty_server.settings, study(name="first measured", repeats=2))
    page.get_by_text("Throughput at concurrency").first.wait_for()
    page.get_by_text("Measured here: 8 runs").wait_for()
    settled(page)
    page.get_by_role("link", name="Results").first.click()
    heading(page, "Results")
    page.wait_for_url(re.compile(r"/results\?job=first"))
    settled(page)
    page.emulate_media(media="print")
    expect(page.locator("[data-testid=stSidebar]")).to_be_hidden()
    expect(page.get_by_text("Throughput at concurrency").first).to_be_visible()
    page.emulate_media(media="screen")
    assert complaints == []


def test_a_link_carries_the_price_and_the_book_takes_it(server: Server, page: Page, other: Page) -> None:
    complaints: list[str] = []
    listen(page, server.url, complaints)
    job_id = measure_study(server.settings, study(name="priced", repeats=2))
    page.goto(f"{server.url}/cost?job={job_id}")
    heading(page, "Cost")
    page.get_by_text("No price is recorded for AMD EPYC 7B13").wait_for()
    price = page.get_by_role("textbox", name=re.compile("^Price of an hour .USD"))
    enter(page, price, "cheap")
    page.get_by_text("'cheap' is not a valid price").wait_for()
    enter(page, price, "3.60")
    page.get_by_text("Hourly price: 3.60 USD").wait_for()
    choose(page, "^Cost", "Per request")
    page.get_by_text("Cost per request (USD) by load", exact=True).wait_for()
    wanted = {"job": job_id, "price": "3.60", "per": "Per request"}
    has_parameters(page, wanted)
    other.goto(page.url)
    heading(other, "Cost")
    other.get_by_text("Cost per request (USD) by load", exact=True).wait_for()
    other.get_by_text("Hourly price: 3.60 USD").wait_for()
    has_parameters(other, wanted)
    enter(page, price, "")
    page.get_by_text("No price is recorded for AMD EPYC 7B13").wait_for()
    settled(page)
    page.get_by_text("Add an entry").click()
    source, an_hour = page.get_by_role("textbox", name="Source"), page.get_by_role("spinbutton", name="Price per hour")
    source.wait_for()
    for field, text in ((source, "a list"), (an_hour, "7.2")):
        enter(page, field, text, key="Tab")
    settled(page)
    page.get_by_role("button", name="Add to the price book").click()
    page.get_by_text("Entry 1 was added").wait_for()
    settled(page)
    page.get_by_role("button", name="Undo").click()
    page.get_by_text("Entry 1 was withdrawn").wait_for()
    assert complaints == []


def test_a_first_visit_loads_little_before_its_first_chart(server: Server, browser: BrowserContext) -> None:
    job_id = measure_study(server.settings, study(name="on a slow line", repeats=2))
    stranger, loaded_bytes = another_person(browser), [0]
    page = stranger.new_page()
    network = stranger.new_cdp_session(page)
    network.send("Network.enable")
    network.on("Network.loadingFinished", lambda part: loaded_bytes.append(part["encodedDataLength"]))
    page.goto(f"{server.url}/results?job={job_id}", wait_until="commit")
    page.locator("[data-testid=stVegaLiteChart] :is(canvas, svg)").first.wait_for()
    stranger.close()
    assert 500_000 < sum(loaded_bytes) < 1_600_000  # Streamlit's own page with a chart: 4 MB
