"""A file of the lab that is gone or broken while the page runs is a sentence on every page, and in every answer."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from streamlit.runtime.context import ContextProxy

from access import accounts, sessions
from access.web.gate import gate
from host.settings import Settings
from lab.roles import Role
from tests.actors import ADMIN
from tests.webapp.conftest import OpenPage, forget_everything
from tests.webapp.page_text import words
from warehouse.app_db.engine import open_engine
from webapp.pages import PAGES

NOT_TOML = "this is [not TOML"


def broken_policy(settings: Settings) -> None:
    (settings.home / "policy.toml").write_text(NOT_TOML)


def broken_engines(settings: Settings) -> None:
    settings.engines_file.write_text(NOT_TOML)


def open_secrets(settings: Settings) -> None:
    (settings.home / "secrets.toml").write_text(NOT_TOML)


def no_warehouse(settings: Settings) -> None:
    settings.warehouse_file.unlink()


def no_database(settings: Settings) -> None:
    database = settings.app_database_file
    assert database is not None
    for file in database.parent.glob(f"{database.name}*"):
        file.write_bytes(b"no database" * 1000)


def test_an_open_page_says_that_the_database_is_gone(
    open_page: OpenPage, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_engine(settings.app_database_url) as database:
        accounts.add_user(database, "vera", Role.ADMINISTRATOR, actor=ADMIN)
        cookie = {"drafthouse-8501": sessions.begin(database, "vera", "127.0.0.1")}
    monkeypatch.setenv("DRAFTHOUSE_WEB_LOGIN", "accounts")
    monkeypatch.setattr(ContextProxy, "cookies", property(lambda _context: cookie))
    forget_everything()
    app = open_page("sql")
    gate().forget(cookie["drafthouse-8501"])
    gate().engine.dispose()
    no_database(settings)
    app.text_area(key="sql-text").set_value("select 2").run()
    assert not app.exception
    assert "job table does not answer" in words(app) or "drafthouse doctor" in words(app)


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("break_it", [broken_policy, broken_engines, open_secrets, no_warehouse, no_database])
def test_a_page_says_what_is_wrong_instead_of_a_traceback(
    open_page: OpenPage,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    page: str,
    break_it: Callable[[Settings], None],
) -> None:
    engines_file = settings.home / "engines.toml"
    monkeypatch.setenv("DRAFTHOUSE_ENGINES_FILE", str(engines_file))
    break_it(settings.model_copy(update={"engines_file": engines_file}))
    forget_everything()
    open_page(page)
