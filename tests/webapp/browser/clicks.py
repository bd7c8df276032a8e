"""What a person does in a page, waiting as a person does; and the queue behind it."""

from __future__ import annotations

import contextlib
import re
import urllib.parse

import pytest
from playwright.sync_api import Page, expect
from playwright.sync_api import TimeoutError as NotInTimeError

from jobs import queue
from jobs.table import Job
from tests.actors import ADMIN
from tests.webapp.browser.conftest import PATIENCE_MS, Server
from warehouse.app_db.engine import app_engine

#: A name that must never become markup.
HOSTILE = "<script>document.title='owned'</script> $x$ :smile: *b* [a](http://b) -> :red[r]"
_TRIES = 10


def open_listed(page: Page, title: str) -> None:
    """By the list of pages."""
    page.get_by_test_id("stSidebar").get_by_role("link", name=title, exact=True).click()
    heading(page, title)


def heading(page: Page, name: str) -> None:
    expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()


def parameters(page: Page) -> dict[str, str]:
    return dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(page.url).query))


def settled(page: Page) -> None:
    """Nothing is drawn any more: a list opened before would be closed by the drawing."""
    expect(page.locator("[data-testid=stApp][data-test-script-state=notRunning]")).to_be_visible()


def choose(page: Page, label: str, option: str) -> None:
    """As a person does it who clicks again when the list was closed by a drawing."""
    wanted = page.get_by_role("option", name=option, exact=True)
    for _ in range(_TRIES):
        settled(page)
        page.get_by_role("combobox", name=re.compile(label)).click()
        with contextlib.suppress(NotInTimeError):
            wanted.click(timeout=PATIENCE_MS / _TRIES)
            return
    pytest.fail(f"{label} never offered {option}")


def jobs(server: Server) -> list[Job]:
    engine = app_engine(server.settings.app_database_url)
    try:
        return queue.jobs(engine)
    finally:
        engine.dispose()


def cancel_by_hand(server: Server, job_id: str) -> None:
    """Out of the way of the other tests, which share the queue."""
    engine = app_engine(server.settings.app_database_url)
    queue.cancel(engine, job_id, actor=ADMIN)
    engine.dispose()
