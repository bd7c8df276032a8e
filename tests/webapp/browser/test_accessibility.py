"""Every page by axe-core: contrast, names of buttons and fields, structure; light and dark."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from tests.webapp.browser.clicks import heading, settled
from tests.webapp.browser.conftest import Server
from tests.webapp.measured import measure_study
from tests.webapp.three_arms import three_arms

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]

_GRAVE = ("serious", "critical")
#: Half-way from light to dark nothing has its contrast.
_NOTHING_FADES = "() => document.getAnimations().every(animation => animation.playState !== 'running')"
#: As many as the navigation has at least.
_PAGES = 13


def violations(page: Page, name: str) -> list[str]:
    """What axe-core calls serious or critical, each with its first element."""
    found = Axe().run(page).response["violations"]
    return [
        f"{name}: {rule['id']}, {len(rule['nodes'])} times: {first['failureSummary']}: {first['html'][:200]}"
        for rule in found
        if rule["impact"] in _GRAVE and (first := rule["nodes"][0])
    ]


def test_no_page_has_a_serious_violation_light_or_dark(server: Server, page: Page) -> None:
    job_id = measure_study(server.settings, three_arms(name="for everybody"))
    page.goto(f"{server.url}/results?job={job_id}")
    heading(page, "Results")
    settled(page)
    listed = page.get_by_test_id("stSidebar").get_by_test_id("stPageLink-NavLink")
    assert listed.count() >= _PAGES
    grave, grounds = [], set()
    for place in range(listed.count()):
        name, address = listed.nth(place).inner_text().splitlines()[-1], listed.nth(place).get_attribute("href")
        listed.nth(place).click()
        page.wait_for_url(re.compile(f"/{urlsplit(address or '').path}"))
        for mode in ("light", "dark"):
            page.emulate_media(color_scheme=mode)
            settled(page)
            page.wait_for_function(_NOTHING_FADES)
            grave += violations(page, f"{name}, {mode}")
            grounds.add(page.get_by_test_id("stApp").evaluate("it => getComputedStyle(it).backgroundColor"))
    assert grave == []
    assert len(grounds) == 2
