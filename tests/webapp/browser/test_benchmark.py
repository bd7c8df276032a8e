"""A small version of the benchmark's part pages."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from playwright.sync_api import BrowserContext

from benchmarks.reading import pages
from benchmarks.reading.pages import from_link, from_page_list
from benchmarks.reading.visitors import all_at_once
from tests.chromium import without_profile
from tests.webapp.browser.conftest import Server

pytestmark = pytest.mark.browser


def test_pages_are_timed_by_link_by_page_list_and_by_many_visitors(
    server: Server, browser: BrowserContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "_DRAWING_MS", 300.0)  # these pages have no chart to wait for
    chromium = without_profile(browser)
    by_link = from_link(chromium, server.url, {"home": ""}, 1)
    listed = from_page_list(chromium, server.url, {"jobs": "jobs"}, 1, "dashboards")
    for times in (by_link, listed):
        ((_, (seconds,)),) = times.items()
        assert 0 < seconds < 600
    with ThreadPoolExecutor(1) as visitors:  # the browser of the other tests runs an event loop in this thread
        assert len(visitors.submit(asyncio.run, all_at_once(server.url, "", 2)).result()) == 2
