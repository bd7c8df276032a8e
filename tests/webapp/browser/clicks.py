"""What a person does in a page, waiting as a person does; and the queue behind it.

Tests wait for what they want to see with `wait_for` and `wait_for_url`: at each look an `expect` does not succeed, it
describes the whole page for its message, and on a large one that takes longer than drawing it.
"""

from __future__ import annotations

import contextlib
import re
import time
import urllib.parse
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from playwright.sync_api import Locator, Page
from playwright.sync_api import TimeoutError as NotInTimeError

from jobs import queue
from tests.actors import ADMIN
from tests.chromium import PATIENCE_MS
from tests.webapp.browser.conftest import Server
from warehouse.app_db.engine import open_engine

#: A name that must never become markup.
HOSTILE = "<script>document.title='owned'</script> $x$ :smile: *b* [a](http://b) -> :red[r]"
#: How long a person waits for what a click shows before the next try: a page that is busy may take long.
TRIES_MS = (2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000)
_BETWEEN_LOOKS_MS = 100
#: A table's rows, and the middle of the boxes at their left.
_ROW_PX, _BOX_PX = 31, 16
Read = TypeVar("Read")


def open_listed(page: Page, name: str, title: str = "") -> None:
    """By the list of pages; `title`: its heading, if that is not its name."""
    settled(page)
    page.get_by_test_id("stSidebar").get_by_role("link", name=name, exact=True).click()
    heading(page, title or name)


def heading(page: Page, name: str) -> None:
    page.get_by_role("heading", name=name, exact=True).wait_for()


def parameters(page: Page) -> dict[str, str]:
    return query(page.url)


def query(url: str) -> dict[str, str]:
    return dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(url).query))


def becomes(page: Page, read: Callable[[], Read], wanted: Read) -> None:
    """What is read may change once more after a page has shown what it was asked for: its URL follows at the end."""
    deadline_s = time.monotonic() + PATIENCE_MS / 1000
    while (found := read()) != wanted and time.monotonic() < deadline_s:
        page.wait_for_timeout(_BETWEEN_LOOKS_MS)
    assert found == wanted


def has_parameters(page: Page, wanted: dict[str, str]) -> None:
    becomes(page, lambda: parameters(page), wanted)


def settled(page: Page) -> None:
    """All that was asked of the server has been answered and drawn: a list opened before would be closed by the
    drawing. A page that looks idle may only wait for a server that has not heard of the last click yet.
    """
    page.wait_for_function("() => window.conversation.look()", polling=_BETWEEN_LOOKS_MS)


def enter(page: Page, field: Locator, text: str, key: str = "Enter") -> None:
    """Type into a field of a page that stands still, and leave it."""
    settled(page)
    field.fill(text)
    field.press(key)


def choose(page: Page, label: str, option: str) -> None:
    """As a person does it who clicks again when the list was closed by a drawing."""
    wanted, box = (
        page.get_by_role("option", name=option, exact=True),
        page.get_by_role("combobox", name=re.compile(label)),
    )
    chosen = page.get_by_test_id("stMultiSelect").filter(has=box).get_by_text(option, exact=True)
    for try_ms in TRIES_MS:
        settled(page)
        if chosen.count():  # a click that was slow to be answered
            return
        if not wanted.is_visible():
            box.click()
        with contextlib.suppress(NotInTimeError):
            wanted.click(timeout=try_ms)
            wanted.wait_for(state="hidden", timeout=try_ms)  # else the click met a list that was drawn anew
            return
    pytest.fail(f"{label} never offered {option}")


def click_box(table: Locator, row: int, shown: Locator) -> None:
    """Tick a row, counted from 0 as the table is sorted. The table is a picture, so only the place is known."""
    place = {"x": _BOX_PX, "y": (row + 1.5) * _ROW_PX}
    click_until(table.get_by_test_id("stDataFrame"), shown, position=place)


def click_until(target: Locator, shown: Locator, **how: Any) -> None:
    """For a chart's point or a table's box: one that is drawn anew while it is clicked does not hear of it."""
    for try_ms in TRIES_MS:
        settled(target.page)
        if shown.is_visible():  # a click that was slow to be answered; another would take it back
            return
        with contextlib.suppress(NotInTimeError, AssertionError):
            target.click(timeout=try_ms, **how)
            settled(target.page)
            shown.wait_for(timeout=try_ms)
            return
    pytest.fail(f"{target} never showed {shown}")


def cancel_by_hand(server: Server, job_id: str) -> None:
    """Out of the way of the other tests, which share the queue."""
    with open_engine(server.settings.app_database_url) as engine:
        queue.cancel(engine, job_id, actor=ADMIN)
