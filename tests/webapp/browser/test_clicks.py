"""How these tests wait for a page."""

from __future__ import annotations

import psutil
import pytest
from playwright.sync_api import Page

from tests.webapp.browser.clicks import heading, settled
from tests.webapp.browser.conftest import Server

pytestmark = [pytest.mark.browser, pytest.mark.timeout(1800)]


def process_of(server: Server) -> psutil.Process:
    (found,) = (
        process
        for process in psutil.process_iter(["cmdline", "environ"])  # without those that end meanwhile
        if "webapp" in (process.info["cmdline"] or [])
        and (process.info["environ"] or {}).get("DRAFTHOUSE_HOME") == str(server.settings.home)
    )
    return found


def test_a_page_whose_server_has_not_heard_of_a_click_is_not_settled(server: Server, page: Page) -> None:
    page.goto(f"{server.url}/submit")
    heading(page, "Submit a study")
    settled(page)
    name = page.get_by_role("textbox", name="Name", exact=True).first
    stopped = process_of(server)
    stopped.suspend()
    try:
        name.fill("late")
        name.press("Enter")
        for _ in range(10):
            page.wait_for_timeout(100)
            assert not page.evaluate("window.conversation.look()")
        assert page.locator("[data-testid=stApp][data-test-script-state=notRunning]").count() == 1  # as if all was done
    finally:
        stopped.resume()
    settled(page)
    assert "edits=" in page.evaluate("location.search")  # the end of the answer
