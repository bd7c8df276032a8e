"""One page server, with one home, and one browser for all tests here: each takes seconds of a processor to start.

The home is empty at first, and fills with what the tests measure: each looks at studies of its own. Nothing waits in
the queue when a test ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.chromium import chromium
from tests.webapp.homes import environment, make_home
from tests.webapp.served import served
from warehouse.settings import Settings

#: A shared machine may stand still for a minute.
PATIENCE_MS = 100_000
expect.set_options(timeout=PATIENCE_MS)


@dataclass(frozen=True)
class Server:
    """`python -m webapp` on a home of its own."""

    settings: Settings
    url: str


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    settings = make_home(tmp_path_factory.mktemp("served"))
    with served(environment(settings)) as url:
        yield Server(settings, url)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with chromium() as it:
        yield it


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 1000})
    context.set_default_timeout(PATIENCE_MS)
    yield context.new_page()
    context.close()
