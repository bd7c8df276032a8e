"""The page Account: one's own links, tokens and password; and the users, for an administrator."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from argon2 import PasswordHasher
from streamlit.runtime.context import ContextProxy
from streamlit.testing.v1 import AppTest

from access import accounts, passwords, sessions, shared_links, tokens
from access.shared_links import Kind
from lab.errors import AccessError
from lab.roles import Actor, Role
from tests.actors import ADMIN, SUBMITTER, VIEWER
from tests.webapp.conftest import OpenPage, forget_everything
from tests.webapp.page_text import ran, words

PASSWORD, NEW = "correct horse battery", "a better battery"
SignIn = Callable[[Actor], None]


@pytest.fixture
def sign_in(database: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> SignIn:
    """Makes the actor a user with a password, whose browser opens the pages. Their hashes are cheap."""
    cheap = PasswordHasher(time_cost=1, memory_cost=8 * 1024, parallelism=1)
    monkeypatch.setattr(passwords, "_hasher", lambda: cheap)
    monkeypatch.setenv("DRAFTHOUSE_WEB_LOGIN", "accounts")
    cookie: dict[str, str] = {}
    monkeypatch.setattr(ContextProxy, "cookies", property(lambda _context: cookie))
    forget_everything()

    def sign(actor: Actor) -> None:
        accounts.add_user(database, actor.name, actor.role, actor=ADMIN)
        accounts.set_password(database, accounts.new_link(database, actor.name, actor=ADMIN), PASSWORD)
        cookie["drafthouse-8501"] = sessions.begin(database, actor.name, "here")

    return sign


def tabs(app: AppTest) -> list[str]:
    return [tab.label for tab in app.tabs]


def named(widgets: Any, label: str) -> Any:
    (widget,) = [widget for widget in widgets if widget.label == label]
    return widget


def press(app: AppTest, label: str) -> AppTest:
    return ran(named(app.button, label).click().run())


def share(database: sa.Engine, actor: Actor, title: str, kind: Kind = Kind.STUDY) -> None:
    day = timedelta(days=1)
    shared_links.make_link(database, kind, "thing-1", title, lasts=day, most=day, actor=actor)


@pytest.mark.parametrize("actor", [VIEWER, SUBMITTER, ADMIN])
def test_each_has_their_own_tabs_and_only_an_administrator_has_users(
    open_page: OpenPage, sign_in: SignIn, actor: Actor
) -> None:
    sign_in(actor)
    own = ["Shared links", "Tokens", "Password"]
    assert tabs(open_page("account")) == own + ["Users"] * (actor is ADMIN)


def test_where_nobody_signs_in_there_are_links_alone(open_page: OpenPage) -> None:
    assert tabs(open_page("account")) == ["Shared links"]


def test_my_links_are_listed_and_end_by_a_click(open_page: OpenPage, sign_in: SignIn, database: sa.Engine) -> None:
    sign_in(VIEWER)
    share(database, VIEWER, "mine")
    share(database, SUBMITTER, "somebody's")
    app = open_page("account")
    assert "made" in words(app)
    assert "somebody" not in words(app)
    ended = words(press(app, "End it"))
    assert "The link to “mine” no longer shows anything" in ended.replace("\\", "")
    assert [link.revoked_at is None for link in shared_links.all_links(database, "vera")] == [False]


@pytest.mark.parametrize(
    ("kind", "query"), [(Kind.DASHBOARD, "dashboard=thing-1"), (Kind.STUDY, "job=thing-1"), (Kind.RUN, "run=thing-1")]
)
def test_a_shared_link_leads_to_the_page_with_the_same(
    open_page: OpenPage, sign_in: SignIn, database: sa.Engine, kind: Kind, query: str
) -> None:
    sign_in(VIEWER)
    share(database, VIEWER, "mine", kind)
    (link,) = [element.proto for element in open_page("account").get("page_link") if "mine" in element.proto.label]
    assert link.query_string == query


def test_an_administrator_ends_anybodys_link(open_page: OpenPage, sign_in: SignIn, database: sa.Engine) -> None:
    sign_in(ADMIN)
    share(database, SUBMITTER, "somebody's")
    app = open_page("account")
    app = ran(named(app.toggle, "Everybody's").set_value(True).run())
    press(app, "End it")
    assert shared_links.all_links(database)[0].revoked_at is not None


def test_a_token_is_shown_once_and_ends_by_a_click(open_page: OpenPage, sign_in: SignIn, database: sa.Engine) -> None:
    sign_in(SUBMITTER)
    app = open_page("account", account_tab="Tokens")
    assert named(app.selectbox, "What it may do at most").options == ["viewer", "submitter"]
    named(app.text_input, "What it is for").set_value("my notebook")
    app = press(app, "Make a token")
    (secret,) = [code.value for code in app.code if code.value.startswith("drafthouse_")]
    assert tokens.actor_of(database, secret) == Actor("sam", Role.VIEWER, "api")
    app = ran(app.run())
    assert not [code for code in app.code if code.value.startswith("drafthouse_")]
    assert "last used" in words(app)
    press(app, "End it")
    assert tokens.actor_of(database, secret) is None


def test_a_password_is_changed_by_whoever_knows_it(open_page: OpenPage, sign_in: SignIn, database: sa.Engine) -> None:
    sign_in(VIEWER)
    cases = (
        ("wrong", NEW, NEW, "The name or the password is wrong"),
        (PASSWORD, NEW, PASSWORD, "The two new passwords differ"),
        (PASSWORD, "short", "short", "A password has 10 to 256 characters"),
        (PASSWORD, NEW, NEW, "The password was changed"),
    )
    for old, new, again, sentence in cases:
        app = open_page("account", account_tab="Password")
        named(app.text_input, "Your password").set_value(old)
        named(app.text_input, "The new one").set_value(new)
        named(app.text_input, "The new one again").set_value(again)
        assert sentence in words(press(app, "Change the password")).replace("\\", "")
    with pytest.raises(AccessError):
        sessions.sign_in(database, "vera", PASSWORD, "here")
    sessions.sign_in(database, "vera", NEW, "here")
    forget_everything()  # for a second an answer about a session is used again
    assert "your session has ended" in words(open_page("account"))


def test_an_administrator_adds_a_user_gives_a_role_and_disables(
    open_page: OpenPage, sign_in: SignIn, database: sa.Engine
) -> None:
    sign_in(ADMIN)
    app = open_page("account", account_tab="Users")
    named(app.text_input, "Name of a new user").set_value("bob")
    app = press(app, "Add the user")
    (link,) = [code.value for code in app.code if "/login/link/" in code.value]
    assert accounts.user_of_link(database, link.rpartition("/")[2]) == "bob"
    assert named(app.selectbox, "User").options == ["bob"], "nobody gives up their own role here"
    assert named(app.text_input, "Name of a new user").value == ""
    app = ran(named(app.selectbox, "Their role").set_value("submitter").run())
    app = press(app, "Give the role")
    app = press(app, "Disable")
    bob = {user.name: user for user in accounts.all_users(database)}["bob"]
    assert (bob.role, bob.disabled_at is None) == (Role.SUBMITTER, False)
    app = press(app, "Enable")
    named(app.text_input, "Name of a new user").set_value("bob")
    assert "User bob already exists" in words(press(app, "Add the user")).replace("\\", "")


def test_what_each_role_may_do_is_said(open_page: OpenPage) -> None:
    shown = words(open_page("account"))
    assert "**submitter**: submit a study, cancel a job" in shown
    assert "change what belongs to others" in shown
