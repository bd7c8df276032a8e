"""A small version of `make screenshots`."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext

from tests.webapp import screenshots
from tests.webapp.browser.conftest import Server

pytestmark = [pytest.mark.browser, pytest.mark.timeout(1800)]


def test_pages_are_saved_light_and_dark(server: Server, browser: BrowserContext, tmp_path: Path) -> None:
    only = ("jobs", "external-results")
    assert screenshots.take(browser, server.url, tmp_path, widths_px=(1280,), growing_ms=100, only=only) == []
    wanted = {f"{name}-{mode}-1280.png" for name in only for mode in ("light", "dark")}
    assert {file.name for file in tmp_path.iterdir()} == wanted
