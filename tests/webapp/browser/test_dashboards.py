"""What only a browser shows of dashboards: the way from a figure to a link for others, and the file on its own."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import pytest
from playwright.sync_api import BrowserContext, ConsoleMessage, Page, Request, expect

from tests.actors import ADMIN
from tests.chromium import another_person
from tests.lab.studies import study
from tests.webapp import screenshots
from tests.webapp.browser.clicks import HOSTILE, becomes, choose, enter, heading, open_listed, settled
from tests.webapp.browser.conftest import Server
from tests.webapp.homes import failed_job
from tests.webapp.measured import measure_study
from warehouse.app_db import dashboards, pins
from warehouse.app_db.engine import open_engine
from webapp.charts import compare, custom
from webapp.charts.panels import Figure
from webapp.charts.theme import Mode
from webapp.pages.dashboards.html_export import Sheet, html
from webapp.shared.downloads import About

pytestmark = [pytest.mark.browser, pytest.mark.timeout(1800)]

NGRAM = {"method": "ngram", "num_speculative_tokens": 3}
#: The beginning of it: invisible letters keep the rest of it from being replaced.
NAME = HOSTILE[:50]
#: However often it was drawn: one that is drawn anew may hold its former drawing for a while.
CHART = "[data-testid=stVegaLiteChart]:is(:has(canvas), :has(svg))"


def menu_button(page: Page, name: str) -> None:
    """A button that has a tooltip lies within what shows it."""
    settled(page)
    page.locator(f".st-key-{name}").get_by_role("button").first.click()


def never_markup(page: Page) -> None:
    """What the page shows of a hostile name: a table's cell is for screen readers, and counts as hidden."""
    shown = page.get_by_text("$x$").filter(has_text=":smile:").filter(visible=True).first
    shown.wait_for()
    assert HOSTILE in shown.inner_text().replace("\u2060", "")
    assert page.locator("[data-testid=stMain] script, .katex, a[href='http://b']").count() == 0
    assert page.title() != "owned"


def test_names_and_errors_are_never_markup_and_a_pin_exports(
    server: Server, page: Page, other: Page, browser: BrowserContext, tmp_path: Path
) -> None:
    arms = [{"name": "no draft"}, {"name": HOSTILE, "speculation": NGRAM}]
    measure_study(server.settings, study(name=HOSTILE, arms=arms))
    page.goto(f"{server.url}/jobs")
    heading(page, "Jobs")
    page.get_by_role("link", name="Results", exact=True).first.click()
    heading(page, "Results")
    settled(page)
    never_markup(page)
    pin(page, "speedup", HOSTILE, f"caption {HOSTILE}")
    page.get_by_role("dialog").get_by_label("Close").click()
    open_listed(page, "SQL")
    settled(page)
    pin(page, "chart", HOSTILE, "")
    page.get_by_role("link", name="Open the dashboard").click()
    page.get_by_role("heading", name=NAME).wait_for()
    page.wait_for_url(re.compile(r"/dashboards\?dashboard=[0-9a-f]{12}$"))
    page.locator(CHART).nth(1).wait_for()
    settled(page)
    screenshots.settle(page)
    charts = page.locator(CHART).count()  # a figure has one for each category of what was measured last
    other.goto(page.url)
    for shown in (page, other):
        shown.get_by_role("heading", name=NAME).wait_for()
        expect(shown.locator(CHART)).to_have_count(charts)
        shown.get_by_text(f"caption {HOSTILE[:20]}").wait_for()
        assert shown.locator("[data-testid=stMain] script, .katex, a[href='http://b']").count() == 0
        assert shown.title() != "owned"
    settled(page)
    with page.expect_download() as download:
        menu_button(page, "dashboards-export")
    download.value.save_as(tmp_path / "dashboard.html")
    opens_on_its_own(browser, tmp_path / "dashboard.html", charts)
    failed = failed_job(server.settings, study(name=f"{HOSTILE} too"), f"EngineError: {HOSTILE}")
    page.goto(f"{server.url}/jobs?job={failed}")
    heading(page, "Jobs")
    never_markup(page)


#: Of each chart's picture: the texts that lie outside of it, and pairs of texts that lie on each other.
_DRAWN = """() => [...document.querySelectorAll("svg.marks")].map((svg) => {
    const frame = svg.getBoundingClientRect();
    const boxes = [...svg.querySelectorAll("text")]
        .filter((text) => text.textContent.trim() && getComputedStyle(text).opacity !== "0")
        .map((text) => ({ text: text.textContent, box: text.getBoundingClientRect() }));
    const outside = boxes.filter(({ box }) => box.bottom > frame.bottom + 1 || box.right > frame.right + 1);
    const over = boxes.flatMap((one, place) => boxes.slice(place + 1).filter(({ box }) =>
        one.box.left + 1 < box.right && box.left + 1 < one.box.right
        && one.box.top + 3 < box.bottom && box.top + 3 < one.box.bottom).map((other) => `${one.text} | ${other.text}`));
    return [outside.map(({ text }) => text), over];
})"""


def test_in_a_file_on_a_phone_no_figure_is_cut_or_lies_on_another(browser: BrowserContext, tmp_path: Path) -> None:
    loads = [f"c{load}-n16" for load in (1, 4, 16)]
    cells = pd.DataFrame(
        [
            {"arm": "draft", "row": row, "column": load, "is_mean": False, "ratio": ratio, "verdict": "faster"}
            for row in ("reference/code/8", "reference/repeat/8")
            for load, ratio in zip(loads, (1.3632, 1.0652, 1.1391), strict=True)
        ]
    ).assign(low=lambda frame: frame["ratio"] - 0.0004, high=lambda frame: frame["ratio"] + 0.0004, basis="3 repeats")
    rows, columns = compare.Side("workload", tuple(cells["row"].unique())), compare.Side("load", tuple(loads))
    arms = [f"draft k={k}" for k in range(1, 7)]
    answer = pd.DataFrame([{"arm": arm, "x": x, "tok_per_s": x * k} for k, arm in enumerate(arms) for x in (1, 4, 16)])
    spec = custom.ChartSpec("line", "x", "tok_per_s", "arm")
    width, sheets = compare.heat_width(cells, rows, columns), []
    modes: tuple[Mode, ...] = ("light", "dark")
    for mode in modes:
        heat = compare.heat_panel(cells, rows, columns, 1.0, mode, higher=True)
        sheets.append(
            (
                Figure("heat", "Speed-up", "", (), (("draft", heat),), cells, width),
                Figure("chart", "Throughput", "", (), custom.panels(answer, spec, mode), answer),
            )
        )
    about = About("of a phone", as_of=datetime(2026, 11, 21, tzinfo=UTC))
    (tmp_path / "file.html").write_bytes(
        html(about, [Sheet(about, "", "", light, dark, is_wide=False) for light, dark in zip(*sheets, strict=True)])
    )
    context = another_person(browser, viewport={"width": 390, "height": 844})
    shown = context.new_page()
    shown.goto((tmp_path / "file.html").as_uri())
    expect(shown.locator("svg.marks")).to_have_count(2)
    becomes(shown, lambda: shown.evaluate(_DRAWN), [[[], []], [[], []]])
    assert shown.evaluate("document.documentElement.scrollWidth") == 390
    context.close()


def test_a_pin_leads_to_its_own_view_whatever_its_page_showed_since(server: Server, page: Page) -> None:
    arms = [{"name": "no draft"}, {"name": "n-gram", "speculation": NGRAM}]
    newest = measure_study(server.settings, study(name="newest", arms=arms))
    page.goto(f"{server.url}/results")
    heading(page, "Results")
    expect(page.get_by_role("combobox", name="Study")).to_have_value(f"newest · {newest}")
    settled(page)
    metric = page.get_by_role("combobox", name=re.compile("^Metric"))
    pinned = metric.input_value()
    pin(page, "throughput", "from a view", "")
    page.get_by_role("dialog").get_by_label("Close").click()
    choose(page, "Metric", "Request throughput")
    page.wait_for_url(re.compile("metric="))
    settled(page)
    open_listed(page, "Dashboards")
    settled(page)
    page.get_by_role("link", name="from a view").click()
    page.wait_for_url(re.compile("dashboard=[0-9a-f]{12}"))
    settled(page)
    page.get_by_role("link", name="Source page").click()
    heading(page, "Results")
    expect(metric).to_have_value(pinned)


def pin(page: Page, figure: str, dashboard: str, caption: str) -> None:
    menu_button(page, f"pin-{figure}")
    dialog = page.get_by_role("dialog")
    name = dialog.get_by_role("combobox")
    name.wait_for()
    enter(page, name, dashboard)
    if caption:
        enter(page, dialog.get_by_label("Caption"), caption, key="Control+Enter")
    settled(page)
    dialog.get_by_role("button", name="Pin", exact=True).click()
    dialog.get_by_text("Pinned to").wait_for()
    settled(page)


def opens_on_its_own(browser: BrowserContext, file: Path, charts: int) -> None:
    """Without a network it draws everything, asks for nothing but itself, and nothing in it is markup."""
    context = another_person(browser, offline=True, color_scheme="dark")
    shown, requests, errors = context.new_page(), list[str](), list[str]()

    def note_request(request: Request) -> None:
        requests.append(request.url)

    def note_console(message: ConsoleMessage) -> None:
        if message.type == "error":
            errors.append(message.text)

    shown.on("request", note_request)
    shown.on("console", note_console)
    shown.on("pageerror", lambda error: errors.append(str(error)))
    shown.goto(file.as_uri())
    shown.get_by_role("heading", name=HOSTILE, exact=True).wait_for()
    expect(shown.locator("svg.marks")).to_have_count(charts)
    shown.get_by_text(f"caption {HOSTILE}", exact=True).wait_for()
    expect(shown.get_by_text(re.compile("Drafthouse, data of 20"))).to_have_count(2)
    assert (shown.title(), errors) == (HOSTILE, [])
    assert [url for url in requests if not url.startswith(("file://", "blob:", "data:"))] == []
    shown.emulate_media(color_scheme="light")
    expect(shown.locator("svg.marks")).to_have_count(charts)
    context.close()


def key(page: Page, name: str) -> None:
    """Once nothing is drawn any more: until then the button may be there twice, as it was and as it will be."""
    settled(page)
    page.locator(f".st-key-{name}").get_by_role("button").first.press("Enter")


def test_cards_are_edited_by_keyboard_or_drag_and_removed_ones_restored(server: Server, page: Page) -> None:
    job_id = measure_study(server.settings, study(name="to arrange"))
    with open_engine(server.settings.app_database_url) as engine:
        board = dashboards.create(engine, "to arrange", actor=ADMIN)
        first, second = (
            pins.add(engine, board, pins.PinnedFigure("results", {"job": (job_id,)}, figure), "", actor=ADMIN)
            for figure in ("speedup", "acceptance")
        )
        page.goto(f"{server.url}/dashboards?dashboard={board}")
        heading(page, "to arrange")
        expect(page.locator(CHART)).to_have_count(2)
        settled(page)
        page.get_by_role("switch", name="Edit").or_(page.get_by_role("checkbox", name="Edit")).first.press("Space")
        key(page, f"down-{first}")
        expect(page.locator(f".st-key-up-{second}").get_by_role("button").first).to_be_disabled()
        key(page, f"remove-{second}")
        page.get_by_text("was removed").wait_for()
        settled(page)
        page.get_by_role("button", name="Undo").press("Enter")
        page.locator(f".st-key-card-{second}").first.wait_for()
        assert [pin.pin_id for pin in pins.pins_on(engine, board)] == [second, first]
        settled(page)
        drag(page, f".st-key-card-{second} .arranging-grip", *middle(page, f".st-key-card-{first}", share=0.8))
        expect(page.locator(f".st-key-up-{first}").get_by_role("button").first).to_be_disabled()
        assert [pin.pin_id for pin in pins.pins_on(engine, board)] == [first, second]
        settled(page)
        wide_px = middle(page, "[data-testid=stMainBlockContainer]", share=0.6)[0]
        drag(page, f".st-key-card-{first} .arranging-edge", wide_px, middle(page, f".st-key-card-{first}")[1])
        page.locator(f".st-key-narrower-{first}").wait_for()
        page.reload()
        heading(page, "to arrange")
        settled(page)
        box = page.locator(f".st-key-card-{first}").bounding_box()
        assert box is not None
        assert box["x"] + box["width"] > wide_px
        assert [pin.is_wide for pin in pins.pins_on(engine, board)] == [True, None]


def middle(page: Page, selector: str, share: float = 0.5) -> tuple[float, float]:
    """Of what is shown of an element, in pixels; `share`: how far to the right."""
    box = page.locator(selector).first.bounding_box()
    assert box is not None
    return box["x"] + share * box["width"], box["y"] + min(100, box["height"] / 2)


def drag(page: Page, selector: str, x: float, y: float) -> None:
    page.mouse.move(*middle(page, selector))
    page.mouse.down()
    page.mouse.move(x, y, steps=5)
    page.mouse.up()
