"""Submit, Explore and SQL without a mouse: Tab walks through the fields in their order, arrows and Enter choose."""

from __future__ import annotations

import contextlib
import re

import pytest
from playwright.sync_api import Page, Route, expect
from playwright.sync_api import TimeoutError as NotInTimeError

from tests.webapp.browser.clicks import TRIES_MS, cancel_by_hand, has_parameters, heading, settled
from tests.webapp.browser.conftest import Server, jobs
from tests.webapp.measured import measure_study
from tests.webapp.screenshots import settle
from tests.webapp.three_arms import three_arms

pytestmark = [pytest.mark.browser, pytest.mark.timeout(1800)]
#: The name of what has the focus, as it is read out; the names of icons go before those of buttons.
_FOCUSED = """() => {
    const it = document.activeElement;
    return (it.ariaLabel || it.labels?.[0]?.innerText || it.innerText || '').replace(/\\s+/g, ' ').trim();
}"""
#: From the first field of the form to its button, for the demo study: three arms, two workloads and three loads.
_MOST_STOPS = 40


def tab_to(page: Page, name: str) -> list[str]:
    """Press Tab until what is so named has the focus; the names of what had it on the way, and of it."""
    passed: list[str] = []
    while not passed or re.search(rf"(^|\b){re.escape(name)}$", passed[-1]) is None:
        assert len(passed) < _MOST_STOPS, f"Tab never came to {name}: {passed}"
        page.keyboard.press("Tab")
        passed.append(page.evaluate(_FOCUSED))
    return passed


def begin(page: Page, url: str, title: str) -> None:
    """With the link that spares the list of pages."""
    page.goto(url)
    heading(page, title)
    settle(page)  # fields are drawn when the browser has loaded what draws them
    settled(page)
    assert tab_to(page, "Skip to main content") == ["Skip to main content"]
    page.keyboard.press("Enter")


def leave_with(page: Page, text: str) -> None:
    """Type over what the field has, and go on."""
    page.keyboard.press("Control+a")
    page.keyboard.type(text)
    page.keyboard.press("Tab")
    settled(page)


def choose_with_arrows(page: Page, option: str) -> None:
    """A list that was closed by a drawing is opened again."""
    wanted = page.get_by_role("option", name=option, exact=True)
    for try_ms in TRIES_MS:
        settled(page)
        page.keyboard.press("ArrowDown")
        with contextlib.suppress(NotInTimeError):
            wanted.wait_for(timeout=try_ms)
            break
    for _ in range(page.get_by_role("option").count()):
        if wanted.get_attribute("data-focused") is None:
            page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    settled(page)


def test_a_study_is_filled_in_and_submitted_by_keyboard(server: Server, page: Page) -> None:
    begin(page, f"{server.url}/submit", "Submit a study")
    to_name = tab_to(page, "Name")
    assert to_name[-2:] == ["Start from", "Name"]
    to_name = to_name[to_name.index("Form") :]  # before it is the bar of studies, once there is one
    leave_with(page, "by keyboard")
    to_k = tab_to(page, "k")
    assert [name for name in to_k if name in ("Repeats", "Baseline")] == ["Repeats", "Baseline"]
    assert to_k[-5:] == ["Name", "Engine", "Method", "Draft model", "k"]
    leave_with(page, "5")
    to_category = tab_to(page, "Category")
    assert to_category[-2:] == ["Dataset", "Category"]
    choose_with_arrows(page, "prose")
    to_submit = tab_to(page, "Submit study")
    typed_and_left = 2
    assert sum(map(len, (to_name, to_k, to_category, to_submit))) + typed_and_left <= _MOST_STOPS
    of_sections = ("Add a workload", "Concurrency", "Add a load", "Priority", "Submit study")
    assert list(dict.fromkeys(word for name in to_submit for word in of_sections if word in name)) == [*of_sections]
    assert not any("Remove" in name for name in to_submit)  # it is among a row's details
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Submitted").wait_for()
    (job,) = (job for job in jobs(server) if job.name == "by keyboard")
    cancel_by_hand(server, job.job_id)
    assert [arm.speculation and arm.speculation.num_speculative_tokens for arm in job.study.arms] == [None, 5, 3]
    assert [workload.category for workload in job.study.workloads] == ["prose", "repeat"]


def test_submit_is_reached_by_a_few_presses_and_help_names_its_field(server: Server, page: Page) -> None:
    begin(page, f"{server.url}/submit", "Submit a study")
    to_arms = tab_to(page, "Skip the arms")
    page.keyboard.press("Enter")
    assert page.evaluate(_FOCUSED) == "Skip workloads and loads"
    page.keyboard.press("Enter")
    assert page.evaluate(_FOCUSED) == "Back to the arms"
    passed = [*to_arms[to_arms.index("Form") :], *tab_to(page, "Submit study")]
    assert len(passed) <= 10, passed
    assert not any(name.startswith("Help") for name in passed)
    names = page.locator("[data-testid=stTooltipHoverTarget] > button").evaluate_all("all => all.map(b => b.ariaLabel)")
    assert "Help for Draft model" in names
    assert "Help" not in names
    page.get_by_role("combobox", name="Method").first.focus()
    page.keyboard.press("F1")
    page.get_by_role("tooltip").wait_for()
    page.keyboard.press("Escape")
    assert page.evaluate(_FOCUSED) == "Method"
    page.keyboard.press("F2")
    expect(page.get_by_role("textbox", name="Flags (TOML, one per line)")).to_be_focused()
    assert tab_to(page, "Remove this arm")[-2:] == ["content_copy Copy this arm", "close Remove this arm"]
    page.keyboard.press("Escape")
    expect(page.get_by_role("combobox", name="Method").first).to_be_focused()
    category = page.get_by_role("combobox", name="Category").first
    category.focus()
    page.keyboard.press("Escape")
    expect(category).to_have_value("")


def test_explore_is_changed_and_left_by_keyboard(server: Server, page: Page) -> None:
    job_id = measure_study(server.settings, three_arms(name="by keyboard"))
    begin(page, f"{server.url}/explore?job={job_id}", "Explore")
    assert tab_to(page, "Metric")[-2:] == ["Mark", "Metric"]
    choose_with_arrows(page, "Acceptance rate")
    page.wait_for_url(re.compile("metric=Acceptance"))
    on_the_way = tab_to(page, "More filters")
    assert [name for name in on_the_way if name in ("x", "Colour", "Panels", "Studies", "Validity")] == [
        *("x", "Colour", "Panels", "Studies", "Validity")
    ]
    page.keyboard.press("Enter")
    page.get_by_role("combobox", name="Arm", exact=True).wait_for()
    settled(page)
    tab_to(page, "Arm")
    choose_with_arrows(page, "draft (4)")
    page.keyboard.press("Escape")
    page.get_by_text(re.compile("^4 of .* Filtered by arm")).wait_for()
    has_parameters(page, {"job": job_id, "metric": "Acceptance rate", "arms": "draft"})
    stops = tab_to(page, "Fullscreen: Runs of this slice")
    assert any(name.startswith("keep Pin “Acceptance rate by concurrency”") for name in stops)
    page.keyboard.press("Tab")  # into the table, which goes from cell to cell
    page.keyboard.press("Escape")
    assert len(tab_to(page, "Parquet")) <= 3


def test_words_are_coloured_in_a_sql_field_drawn_after_its_page(server: Server, page: Page) -> None:
    measure_study(server.settings, three_arms(name="drawn late"))
    held: list[Route] = []
    page.route(re.compile(r"/TextArea\.\w+\.js"), lambda request: held.append(request))  # noqa: PLW0108 - Playwright takes no builtin
    page.goto(f"{server.url}/sql")
    heading(page, "SQL")
    page.get_by_text(re.compile(r"^\d+ rows?, \d+ columns")).wait_for()
    settled(page)
    assert held
    for request in held:
        request.continue_()
    page.locator(".sql-paint .sql-keyword").filter(has_text="SELECT").first.wait_for()
    page.unroute_all()


def test_the_sql_field_completes_names_and_escape_and_tab_leave_it(server: Server, page: Page) -> None:
    measure_study(server.settings, three_arms(name="asked about"))
    begin(page, f"{server.url}/sql", "SQL")
    tab_to(page, "SQL")
    field = page.get_by_role("textbox", name="SQL", exact=True)
    expect(page.locator(".sql-paint .sql-keyword").first).to_have_text("SELECT")
    page.keyboard.press("Control+a")
    page.keyboard.type("select arm, outp")
    offered = page.get_by_role("listbox", name="Names of tables and columns")
    expect(offered).to_contain_text("output_tok_per_s")
    page.keyboard.press("Escape")
    expect(offered).to_be_hidden()
    page.keyboard.type("ut_tok_per_s from valid_lat")
    expect(offered.get_by_role("option", selected=True)).to_have_text("valid_latest_runs table")
    page.keyboard.press("Tab")
    page.keyboard.type(" where valid_latest_runs.is_bas")
    page.keyboard.press("Enter")
    expect(field).to_have_value(
        "select arm, output_tok_per_s from valid_latest_runs where valid_latest_runs.is_baseline"
    )
    expect(page.locator(".sql-paint .sql-table")).to_have_text(["valid_latest_runs", "valid_latest_runs"])
    page.keyboard.press("Escape")
    assert tab_to(page, "Run")[-1] == "play_arrow Run"
    settled(page)
    page.get_by_text(re.compile("^[0-9]+ rows?, 2 columns")).wait_for()
