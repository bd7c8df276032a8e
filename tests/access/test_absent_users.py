"""Users who have not come in at their provider for a while: their tokens and links wait until they do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from access import accounts, sessions, shared_links, tokens
from access.shared_links import Kind
from host.settings import Settings
from lab.roles import Actor, Role
from tests.actors import ADMIN
from tests.workers.homes import Home
from warehouse.app_db.schema import users

BOB = Actor("bob", Role.SUBMITTER)
AFTER = timedelta(days=30)


@pytest.fixture
def secrets(home: Home) -> tuple[str, str]:
    """A token and a link of bob, who never came in."""
    accounts.add_user(home.database, "bob", Role.SUBMITTER, actor=ADMIN)
    _, token = tokens.add_token(home.database, "bob", "tests", Role.VIEWER, actor=ADMIN)
    lasts, most = timedelta(days=30), timedelta(days=90)
    _, link = shared_links.make_link(home.database, Kind.RUN, "run", "run", lasts=lasts, most=most, actor=BOB)
    return token, link


def opens(database: sa.Engine, secrets: tuple[str, str], after: timedelta | None) -> list[bool]:
    token, link = secrets
    user = tokens.actor_of(database, token, absent_after=after)
    return [user is not None, shared_links.opened(database, link, absent_after=after) is not None]


def test_tokens_and_links_wait_for_a_user_who_has_left(home: Home, secrets: tuple[str, str]) -> None:
    assert opens(home.database, secrets, AFTER) == [True, True]  # an administrator's business
    sessions.begin(home.database, "bob", "10.0.0.1")
    assert opens(home.database, secrets, AFTER) == [True, True]
    with home.database.begin() as connection:
        connection.execute(sa.update(users).values(came_in_at=datetime.now(UTC) - AFTER))
    assert opens(home.database, secrets, AFTER) == [False, False]
    assert opens(home.database, secrets, None) == [True, True]
    sessions.begin(home.database, "bob", "10.0.0.1")
    assert opens(home.database, secrets, AFTER) == [True, True]


def test_only_a_provider_can_let_users_go() -> None:
    assert Settings(web_login="accounts").absent_after is None
    assert Settings(web_login="oidc").absent_after == timedelta(days=30)
    assert Settings(web_login="oidc", web_oidc_absent_days=0).absent_after is None


def test_the_links_to_one_thing_are_found_with_their_makers(home: Home, secrets: tuple[str, str]) -> None:
    assert secrets
    (link,) = shared_links.working_links_to(home.database, Kind.RUN, "run")
    assert link.owner == "bob"
    shared_links.revoke(home.database, link.link_id, actor=BOB)
    assert shared_links.working_links_to(home.database, Kind.RUN, "run") == []
