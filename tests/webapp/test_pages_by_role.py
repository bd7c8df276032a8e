"""What pages offer to each role: nothing that would be refused, and nothing less."""

from __future__ import annotations

import pytest
from streamlit.runtime.context import ContextProxy

from access import accounts, sessions
from host.settings import Settings
from jobs import queue
from lab.roles import Role
from lab.study import Study
from tests.actors import ADMIN
from tests.webapp.conftest import OpenPage, forget_everything
from tests.webapp.homes import failed_job
from tests.webapp.page_text import words
from warehouse.app_db.engine import open_engine

PAGES = ("home", "submit", "jobs", "cost", "external_results", "dashboards", "sql")
#: Labels of buttons that change something, and the least role to which they are offered here.
OFFERED = {
    "Create": Role.VIEWER,
    "Save under this name": Role.VIEWER,
    "Submit study": Role.SUBMITTER,
    "Import": Role.SUBMITTER,
    "Cancel the study": Role.ADMINISTRATOR,
    "Retry": Role.ADMINISTRATOR,
    "Run all again": Role.ADMINISTRATOR,
    "Set the priority": Role.ADMINISTRATOR,
}


@pytest.mark.parametrize("role", Role)
def test_a_page_offers_what_its_visitor_may_do(
    settings: Settings, demo: Study, open_page: OpenPage, monkeypatch: pytest.MonkeyPatch, role: Role
) -> None:
    """The jobs are another's. What a browser sends along is set where Streamlit reads it."""
    queue.submit(settings, demo, actor=ADMIN)
    failed_job(settings, demo, "the engine is gone")
    with open_engine(settings.app_database_url) as database:
        accounts.add_user(database, "vera", role, actor=ADMIN)
        cookie = {"drafthouse-8501": sessions.begin(database, "vera", "here")}
    monkeypatch.setenv("DRAFTHOUSE_WEB_LOGIN", "accounts")
    monkeypatch.setattr(ContextProxy, "cookies", property(lambda _context: cookie))
    forget_everything()
    seen = set[str]()
    for page in PAGES:
        app = open_page(page)
        seen |= {button.label for button in app.button}
    assert seen & set(OFFERED) == {label for label, least in OFFERED.items() if role.rank >= least.rank}
    cookie.clear()
    assert "your session has ended: load this page again to sign in" in words(open_page("jobs"))
