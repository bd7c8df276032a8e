"""One page server, with one home, and one browser for all tests here: each takes seconds of a processor to start.

The home is empty at first, and fills with what the tests measure: each looks at studies of its own. Nothing waits in
the queue when a test ends.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page

from host.settings import Settings
from jobs import queue
from jobs.table import Job
from tests.chromium import chromium
from tests.webapp.homes import environment, make_home
from tests.webapp.served import served
from warehouse.app_db.engine import open_engine


@dataclass(frozen=True)
class Server:
    """`python -m webapp` on a home of its own."""

    settings: Settings
    url: str


def jobs(server: Server) -> list[Job]:
    with open_engine(server.settings.app_database_url) as engine:
        return queue.jobs(engine)


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    settings = make_home(tmp_path_factory.mktemp("served"))
    with served(environment(settings)) as url:
        yield Server(settings, url)


@pytest.fixture
def empty_server(server: Server, tmp_path: Path) -> Iterator[Server]:
    """A home where nothing was ever measured: that of all tests, if none of them has measured yet."""
    if not jobs(server):
        yield server
        return
    settings = make_home(tmp_path)
    with served(environment(settings)) as url:
        yield Server(settings, url)


@pytest.fixture(scope="package")
def browser() -> Iterator[BrowserContext]:
    with chromium() as it:
        yield it


@pytest.fixture(scope="package")
def tabs(browser: BrowserContext) -> list[Page]:
    """A page opened in a tab that was used before takes half as much of a processor as one in a new tab, and its
    session is as new.
    """
    return [browser.new_page(), browser.new_page()]


@pytest.fixture
def page(tabs: list[Page]) -> Iterator[Page]:
    with used(tabs, 0) as it:
        yield it


@pytest.fixture
def other(tabs: list[Page]) -> Iterator[Page]:
    """Of somebody who was sent a link."""
    with used(tabs, 1) as it:
        yield it


@contextmanager
def used(tabs: list[Page], place: int) -> Iterator[Page]:
    """Ends the app in the tab, its session on the server too."""
    tab = tabs[place]
    yield tab
    tab.emulate_media(color_scheme="light")
    if tab.url.startswith("http"):
        tab.goto(urllib.parse.urljoin(tab.url, "/healthz"))
