"""Every page of the navigation in a real browser: it draws, complains of nothing, and asks no other machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext

from tests.lab.studies import study
from tests.webapp import screenshots
from tests.webapp.browser.conftest import Server
from tests.webapp.measured import measure_study

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]


def test_every_page_is_drawn_light_and_dark_without_an_error_or_a_request_to_elsewhere(
    server: Server, browser: BrowserContext, tmp_path: Path
) -> None:
    measure_study(server.settings, study(name="to look at", repeats=2))
    assert screenshots.take(browser, server.url, tmp_path, widths_px=(1280,), growing_ms=100) == []
    pages = {file.name.removesuffix("-light-1280.png") for file in tmp_path.glob("*-light-1280.png")}
    assert {"home", "results", "submit", "jobs", "run", "sql", "external-results"} <= pages
    assert pages == {file.name.removesuffix("-dark-1280.png") for file in tmp_path.glob("*-dark-1280.png")}
