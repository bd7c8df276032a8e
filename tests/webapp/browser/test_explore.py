"""The Explore page in a real browser: a point leads to its run, and a link shows somebody else the same view."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, WebSocketRoute, expect

from tests.lab.studies import study
from tests.webapp.browser.clicks import (
    becomes,
    choose,
    click_box,
    click_until,
    has_parameters,
    heading,
    open_listed,
    parameters,
    settled,
)
from tests.webapp.browser.conftest import Server
from tests.webapp.measured import measure_study
from tests.webapp.three_arms import three_arms

pytestmark = [pytest.mark.browser, pytest.mark.timeout(1800)]


def test_a_slice_is_chosen_and_shared_and_a_point_opens_its_run(server: Server, page: Page, other: Page) -> None:
    job_id = measure_study(server.settings, three_arms(name="explored"))
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"{server.url}/run")  # another run, which the page of runs remembers
    heading(page, "Run")
    page.get_by_text(re.compile("^no draft, ")).wait_for()
    open_listed(page, "Explore")
    page.get_by_text(re.compile("^12 of .* completed runs")).wait_for()
    choose(page, "Colour", "Method")
    settled(page)
    page.get_by_text("More filters").click()
    for label, option in (("Category", "code (6)"), ("Category", "repeat (6)"), ("Arm", "draft (4)")):
        choose(page, label, option)
        page.keyboard.press("Escape")  # a list of which several may be chosen stays open, and hides the rest
    page.get_by_text(re.compile("^4 of .* Filtered by arm, category")).wait_for()
    page.wait_for_url(re.compile("arms=draft&categories=code&categories=repeat"))
    assert parameters(page)["job"] == f"explored · {job_id}"
    widths = "all => all.map(one => one.scrollWidth <= one.clientWidth)"
    assert all(page.get_by_test_id("stMultiSelectTagsContainer").evaluate_all(widths))  # no choice is cut

    other.goto(page.url)
    heading(other, "Explore")
    other.get_by_text(re.compile("^4 of .* Filtered by arm, category")).wait_for()
    expect(other.get_by_role("combobox", name=re.compile("Colour"))).to_have_value("Method")
    has_parameters(other, parameters(page))

    drawer = page.get_by_role("dialog")
    click_until(page.locator("[data-testid=stVegaLiteChart] .mark-symbol path").first, drawer)
    drawer.get_by_text("Output throughput of this cell").wait_for()
    drawer.get_by_role("link", name="Open this run").click()
    heading(page, "Run")
    page.wait_for_url(re.compile("run="))
    page.get_by_text(re.compile("^draft, ")).wait_for()
    open_listed(page, "Explore")  # as it was left
    page.get_by_text(re.compile("^4 of .* Filtered by arm, category")).wait_for()
    has_parameters(page, parameters(other))
    assert errors == []


def test_a_link_clicked_before_the_url_has_changed_opens_its_own_view(server: Server, page: Page) -> None:
    job_id = measure_study(server.settings, three_arms(name="left"))
    held: list[Callable[[], None]] = []
    is_slow = False

    def over(way: WebSocketRoute) -> None:
        app = way.connect_to_server()
        way.on_message(lambda sent: held.append(lambda: app.send(sent)) if is_slow else app.send(sent))

    page.route_web_socket(re.compile("_stcore/stream"), over)
    page.goto(f"{server.url}/explore?job={job_id}")
    page.get_by_text(re.compile("^12 of .* completed runs")).wait_for()
    choose(page, "Colour", "Method")
    is_slow = True  # from here on nothing that the browser asks arrives
    page.get_by_test_id("stSidebar").get_by_role("link", name="Run", exact=True).click()
    page.wait_for_url(re.compile("explore.*colour=Method"))
    assert held
    is_slow = False
    for send in held:
        send()
    page.get_by_text(re.compile("^no draft, ")).wait_for()
    becomes(page, lambda: sorted(parameters(page)), ["job"])
    assert "/run?" in page.url


def test_runs_are_chosen_by_the_boxes_of_their_rows(server: Server, page: Page) -> None:
    one = {"arms": [{"name": "an arm"}], "loads": [{"max_concurrency": 1, "num_prompts": 8}], "repeats": 1}
    jobs = [measure_study(server.settings, study(name=f"box {n}", **one)) for n in (1, 2)]
    labels = [("study", f"box {n} · {job_id}") for n, job_id in enumerate(jobs, 1)]
    page.goto(f"{server.url}/explore?{urllib.parse.urlencode(labels)}")
    page.get_by_text("Choose runs by the boxes").wait_for()
    rows = page.locator("[class*=st-key-boxes-]")
    for row, shown in ((0, "Compare the arms of this study"), (1, "Compare the 2 chosen runs")):
        click_box(rows, row, page.get_by_role("button", name=shown))
    page.get_by_role("button", name="Compare the 2 chosen runs").click()
    heading(page, "Compare")
    page.wait_for_url(re.compile("compare"))
    assert sum(key == "runs" for key, _ in urllib.parse.parse_qsl(urllib.parse.urlsplit(page.url).query)) == 2
