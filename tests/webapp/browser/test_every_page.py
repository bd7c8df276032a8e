"""Every page, dark by the list of pages and light by its link: what its link holds, what the browser complains of, and
what axe-core says of contrast, names of buttons and fields, and structure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Locator, Page, expect

from tests.lab.studies import study
from tests.webapp import screenshots
from tests.webapp.browser.clicks import becomes, choose, has_parameters, heading, open_listed, query, settled
from tests.webapp.browser.conftest import Server, used
from tests.webapp.measured import measure_study
from tests.webapp.three_arms import three_arms
from webapp.charts.theme import INKS
from webapp.pages import PAGES

pytestmark = [pytest.mark.browser, pytest.mark.timeout(1800)]

LISTED = "[data-testid=stSidebar] [data-testid=stPageLink-NavLink]"
#: Its link is opened by a middle click, the others' by their address.
IN_A_NEW_TAB = "Explore"
#: Of pages whose heading is not their name in the list.
HEADINGS = {"Submit": "Submit a study"}
_GRAVE = ("serious", "critical")
#: axe-core's own rules, without those that never find anything grave: they take a fifth of its time.
_FIND = """async ([grave, tag]) => {
    const rules = axe._audit.rules.filter(
        rule => rule.enabled && grave.includes(rule.impact) && (!tag || rule.tags.includes(tag))).map(rule => rule.id);
    return [rules, (await axe.run({resultTypes: ["violations"], runOnly: rules})).violations];
}"""
#: Of the rules that a page may break in one mode and keep in the other.
_OF_COLOURS = "cat.color"
#: Half-way from light to dark nothing has its contrast.
_NOTHING_FADES = "() => document.getAnimations().every(animation => animation.playState !== 'running')"


@dataclass
class Walk:
    """One way over all pages with a study chosen, and what was found on it."""

    label: str  # of the study
    views: Mapping[str, Mapping[str, str]]  # of each page: the parameters that its link must have
    complaints: list[str] = field(default_factory=list)  # of the browser
    grave: list[str] = field(default_factory=list)  # what axe-core calls serious or critical
    grounds: dict[str, set[str]] = field(default_factory=dict)  # of each page: its colours
    inks: set[str] = field(default_factory=set)  # of charts that were drawn light, after it became dark


@pytest.fixture(scope="module")
def walk(server: Server, tabs: list[Page]) -> Iterator[Walk]:
    """The views stay all the way: a page that loses them, or shows another study, ends it."""
    with used(tabs, 0) as page, used(tabs, 1) as other:
        yield _walk(server, page, other)


def _walk(server: Server, page: Page, other: Page) -> Walk:
    chosen = measure_study(server.settings, three_arms(name="chosen", repeats=2))
    measure_study(server.settings, study(name="newest"))
    label = f"chosen · {chosen}"
    complaints: list[str] = []
    page.emulate_media(color_scheme="dark")
    for tab in (page, other):
        screenshots.listen(tab, server.url, complaints)
    page.goto(f"{server.url}/explore?job={chosen}&mark=Bar")  # a bare id is enough
    heading(page, "Explore")
    expect(_bar(page)).to_have_value(label)
    open_listed(page, "Results")
    choose(page, "Category", "repeat")
    choose(page, "Metric", "Time per output token p50")
    page.wait_for_url(re.compile("metric="))
    open_listed(page, "Home")
    names = list(_listed_links(page))
    assert len(names) == len(PAGES)
    results = {"job": label, "category": "repeat", "metric": "Time per output token p50"}
    views = {key: {"job": label} for key in names} | {"Results": results, "Explore": {"job": label, "mark": "Bar"}}
    walk = Walk(label, views, complaints)
    _by_the_list(page, names, walk)
    _back_and_forward(page, names, walk)
    _by_links(page, other, walk)
    _in_a_new_tab(page, server.url, walk)
    return walk


def _by_the_list(page: Page, names: list[str], walk: Walk) -> None:
    for name in names:
        _listed(page, name).click()
        _shows(page, name, walk)
        _look(page, name, walk)
        becomes(page, lambda: {title: query(link) for title, link in _listed_links(page).items()}, walk.views)
        has_parameters(page, dict(walk.views[name]))


def _back_and_forward(page: Page, names: list[str], walk: Walk) -> None:
    for name in reversed(names[:-1]):
        page.go_back()
        _shows(page, name, walk)
        has_parameters(page, dict(walk.views[name]))
    for name in names[1:]:
        page.go_forward()
        _shows(page, name, walk)


def _by_links(page: Page, other: Page, walk: Walk) -> None:
    """Each in a session of its own, as a reload has."""
    links = _listed_links(page)
    del links[IN_A_NEW_TAB]
    for name, link in links.items():
        other.goto(link)
        _shows(other, name, walk)
        _look(other, name, walk)
        has_parameters(other, dict(walk.views[name]))
        if name == "Results":
            _by_night(other, walk)


def _in_a_new_tab(page: Page, url: str, walk: Walk) -> None:
    """By a middle click, and once more by a reload."""
    with page.context.expect_page() as opened:
        _listed(page, IN_A_NEW_TAB).click(button="middle")
    tab = opened.value
    screenshots.listen(tab, url, walk.complaints)
    _shows(tab, IN_A_NEW_TAB, walk)
    has_parameters(tab, dict(walk.views[IN_A_NEW_TAB]))
    tab.reload()
    _shows(tab, IN_A_NEW_TAB, walk)
    _look(tab, IN_A_NEW_TAB, walk)
    has_parameters(tab, dict(walk.views[IN_A_NEW_TAB]))
    tab.close()


def _by_night(page: Page, walk: Walk) -> None:
    """The system's colours change while the page is open, and nobody touches it. The next page is light again."""
    texts = {ink.text for ink in INKS.values()}
    becomes(page, lambda: _inks(page) & texts, {INKS["light"].text})
    page.emulate_media(color_scheme="dark")
    becomes(page, lambda: _inks(page) & texts, {INKS["dark"].text})
    walk.inks = _inks(page)
    page.emulate_media(color_scheme="light")


def _inks(page: Page) -> set[str]:
    """The colours of what is written in charts."""
    written = page.locator("[data-testid=stVegaLiteChart] svg text[fill]")
    return set(written.evaluate_all("all => all.map(text => text.getAttribute('fill'))"))


def _look(page: Page, name: str, walk: Walk) -> None:
    """At the page when all of it is drawn."""
    screenshots.settle(page)
    settled(page)
    page.wait_for_function(_NOTHING_FADES)
    ground = page.get_by_test_id("stApp").evaluate("it => getComputedStyle(it).backgroundColor")
    grounds = walk.grounds.setdefault(name, set())
    walk.grave.extend(_violations(page, f"{name}, {ground}", of_colours=bool(grounds)))
    grounds.add(ground)


def _violations(page: Page, name: str, *, of_colours: bool) -> list[str]:
    """Each with its first element; of all rules, or of those of colours alone."""
    if page.evaluate("window.axe === undefined"):  # it stays until the app is loaded anew
        page.evaluate(AXE_SCRIPT)
    rules, found = page.evaluate(_FIND, [_GRAVE, _OF_COLOURS if of_colours else ""])
    assert "color-contrast" in rules
    assert of_colours or {"button-name", "label", "aria-required-children", "list"} <= set(rules)
    return [
        f"{name}: {rule['id']}, {len(rule['nodes'])} times: {first['failureSummary']}: {first['html'][:200]}"
        for rule in found
        if rule["impact"] in _GRAVE and (first := rule["nodes"][0])
    ]


def _listed_links(page: Page) -> dict[str, str]:
    """The link of each page in the list."""
    links = page.locator(LISTED).evaluate_all("all => all.map(a => [a.innerText.trim().split('\\n').pop(), a.href])")
    return dict(links)


def _listed(page: Page, name: str) -> Locator:
    return page.locator(LISTED).filter(has_text=re.compile(f"{name}$"))


def _shows(page: Page, name: str, walk: Walk) -> None:
    expect(page.get_by_role("heading", level=1)).to_have_text(HEADINGS.get(name, name))
    expect(_bar(page)).to_have_value(walk.label)


def _bar(page: Page) -> Locator:
    return page.locator(".st-key-study-bar").get_by_role("combobox", name="Study")


def test_study_and_views_stay_from_every_page_to_every_other(walk: Walk) -> None:
    assert len(walk.grounds) == len(walk.views) == len(PAGES)  # each was looked at, and the way went on


def test_every_page_is_drawn_without_an_error_or_a_request_to_elsewhere(walk: Walk) -> None:
    assert len(walk.grounds) == len(PAGES)
    assert walk.complaints == []


def test_charts_follow_when_the_colours_change_while_the_page_is_open(walk: Walk) -> None:
    light, dark = INKS["light"], INKS["dark"]
    assert walk.inks >= {dark.text, dark.muted}
    assert not walk.inks & {light.text, light.muted}


def test_no_page_has_a_serious_violation_light_or_dark(walk: Walk) -> None:
    assert len(set(map(frozenset, walk.grounds.values()))) == 1
    assert {len(both) for both in walk.grounds.values()} == {2}
    assert walk.grave == []
