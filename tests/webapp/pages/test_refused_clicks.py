"""Whatever is clicked or typed on a page after its visitor may do nothing any more is a sentence, on every page."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from streamlit.runtime.context import ContextProxy
from streamlit.testing.v1 import AppTest

from access import accounts, sessions
from host.settings import Settings
from jobs import queue
from jobs.presets import load_preset
from lab.roles import Actor, Role
from tests.actors import ADMIN
from tests.lab.studies import study
from tests.webapp.conftest import OpenPage, using_home
from tests.webapp.homes import failed_job, make_home
from tests.webapp.measured import measure_study
from tests.webapp.page_text import words
from warehouse.app_db import dashboards, pins, price_book, saved_views
from warehouse.app_db.engine import open_engine
from warehouse.app_db.price_book import price_from
from webapp.pages import PAGES

VISITOR = Actor("vera", Role.ADMINISTRATOR)
_PRICE = {"hardware": "cpu", "valid_from": "2026-01-01", "currency": "USD", "source": "me", "rented_per_hour": 1.0}


@dataclass(frozen=True)
class Lab:
    """A home where an administrator owns something of everything, and what the administrator's browser sends."""

    settings: Settings
    cookie: dict[str, str]
    board: str


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """One for all pages: what is refused changes nothing."""
    settings, demo = make_home(tmp_path_factory.mktemp("owned")), load_preset("demo")
    measure_study(settings, study(name="measured"))
    queue.submit(settings, demo, actor=VISITOR)
    queue.submit(settings, study(name="second"), actor=VISITOR)
    failed_job(settings, demo, "the engine is gone")
    with open_engine(settings.app_database_url) as database:
        accounts.add_user(database, VISITOR.name, VISITOR.role, actor=ADMIN)
        accounts.add_user(database, "viola", Role.VIEWER, actor=ADMIN)
        board = dashboards.create(database, "board", actor=VISITOR)
        for _ in range(2):
            pins.add(database, board, pins.text_card(), "text", actor=VISITOR)
        view = saved_views.save(database, "sql", {"sql": "select 1", "drawn": None}, actor=VISITOR)
        saved_views.name_view(database, "sql", "mine", view, actor=VISITOR)
        price_book.add(database, price_from(_PRICE), actor=VISITOR)
        cookie = {"drafthouse-8501": sessions.begin(database, VISITOR.name, "127.0.0.1")}
    return Lab(settings, cookie, board)


@pytest.fixture
def settings(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    monkeypatch.setenv("DRAFTHOUSE_WEB_LOGIN", "accounts")
    with using_home(lab.settings, monkeypatch):
        yield lab.settings


def changes(app: AppTest) -> list[tuple[str, str, Callable[[Any], object]]]:
    """Each way to change something on a page: the kind of widget, its key, and what a visitor does with it. Of keys
    that differ by a number, as in the rows of a form, the first.
    """
    ways: dict[str, Callable[[Any], object]] = {
        "button": lambda widget: widget.click(),
        "text_input": lambda widget: widget.set_value("changed"),
        "text_area": lambda widget: widget.set_value("select 2"),
        "selectbox": lambda widget: widget.select_index(len(widget.options) - 1),
        "toggle": lambda widget: widget.set_value(not widget.value),
    }
    found = {
        (kind, re.sub(r"\d+", "", widget.key)): (kind, widget.key, way)
        for kind, way in ways.items()
        for widget in reversed(getattr(app, kind))
        if widget.key and not widget.disabled and (kind != "selectbox" or widget.options)
    }
    return list(found.values())


@pytest.mark.parametrize("page", [*PAGES, "dashboards?board", "sql?named"])
def test_what_is_refused_after_the_page_was_opened_is_a_sentence(
    open_page: OpenPage, lab: Lab, monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    """All fields are changed at once, and all buttons clicked: each has its own callback."""
    sent: dict[str, str] = {}
    monkeypatch.setattr(ContextProxy, "cookies", property(lambda _context: sent))
    for clicks in (False, True):
        sent.update(lab.cookie)
        name, _, which = page.partition("?")
        app = open_page(name, **({"dashboard": lab.board} if which == "board" else {}))
        if which == "board":
            app.toggle(key="dashboards-edit").set_value(True).run()
        if which == "named":
            app.selectbox(key="sql-named").select("mine").run()
        for kind, key, way in changes(app):
            if (kind == "button") == clicks:
                way(getattr(app, kind)(key=key))
        sent.clear()
        app.run()
        assert not app.exception, f"{page}: {app.exception}"
        assert "your session has ended: load this page again to sign in" in words(app)
