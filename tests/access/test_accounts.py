"""Users, one-time links, passwords and sessions in a real database."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from access import accounts, passwords, sessions
from lab.errors import AccessError
from lab.roles import Actor, Role
from tests.actors import ADMIN, SUBMITTER
from tests.workers.homes import Home, until
from warehouse.app_db import audit
from warehouse.app_db.schema import login_addresses, login_failures, login_links, users
from warehouse.app_db.schema import sessions as sessions_table

PASSWORD = "correct horse battery"
HERE, THERE = "10.0.0.1", "10.0.0.2"


@pytest.fixture
def database(home: Home) -> sa.Engine:
    """With the submitter bob, who has a password."""
    accounts.add_user(home.database, "bob", Role.SUBMITTER, actor=ADMIN)
    accounts.set_password(home.database, accounts.new_link(home.database, "bob", actor=ADMIN), PASSWORD)
    return home.database


def signed_in(database: sa.Engine, address: str = HERE) -> str:
    return sessions.sign_in(database, "bob", PASSWORD, address)


def refused(database: sa.Engine, name: str, password: str, address: str = HERE) -> str:
    with pytest.raises(AccessError) as error:
        sessions.sign_in(database, name, password, address)
    return str(error.value)


def test_a_session_is_its_user_with_the_role_of_the_moment(database: sa.Engine) -> None:
    session = signed_in(database)
    assert sessions.actor_of(database, session) == Actor("bob", Role.SUBMITTER)
    accounts.set_role(database, "bob", Role.VIEWER, actor=ADMIN)
    assert sessions.actor_of(database, session) == Actor("bob", Role.VIEWER)
    assert sessions.actor_of(database, "") is None
    assert sessions.actor_of(database, passwords.new_secret()) is None


def test_a_session_ends_by_signing_out_a_new_password_and_disabling(database: sa.Engine) -> None:
    out, other = signed_in(database), signed_in(database)
    sessions.end(database, out)
    sessions.end(database, out)
    assert (sessions.actor_of(database, out), sessions.actor_of(database, other)) != (None, None)
    accounts.set_password(database, accounts.new_link(database, "bob", actor=ADMIN), PASSWORD + "!")
    assert sessions.actor_of(database, other) is None
    third = sessions.sign_in(database, "bob", PASSWORD + "!", HERE)
    accounts.disable(database, "bob", actor=ADMIN)
    assert sessions.actor_of(database, third) is None
    assert refused(database, "bob", PASSWORD + "!") == "the name or the password is wrong"
    accounts.enable(database, "bob", actor=ADMIN)
    assert sessions.actor_of(database, third) is None
    assert sessions.sign_in(database, "bob", PASSWORD + "!", HERE)


def test_no_session_begins_with_a_password_that_was_changed_meanwhile(database: sa.Engine) -> None:
    """The change comes while the old password is compared, which waits for the places of others' hashes."""
    changes = (
        lambda: sessions.sign_in(database, "bob", PASSWORD, HERE),
        lambda: sessions.change_password(database, "bob", PASSWORD, "of a thief, too", HERE),
    )
    with ThreadPoolExecutor() as threads:
        for number, change in enumerate(changes):
            changed = passwords.hash_password(f"{PASSWORD} {number}")
            with ExitStack() as others:
                for _ in range(passwords.MOST_AT_ONCE):
                    others.enter_context(passwords._HASHING)
                meanwhile = threads.submit(change)
                until(lambda: passwords._HASHING._cond._waiters, "the comparison to wait")  # type: ignore[attr-defined]
                with database.begin() as connection:
                    connection.execute(sa.update(users).values(password_hash=changed))
            with pytest.raises(AccessError, match="the name or the password is wrong"):
                meanwhile.result()
            with database.begin() as connection:
                assert connection.execute(sa.select(sessions_table)).all() == []
                assert connection.scalar(sa.select(users.c.password_hash)) == changed
                connection.execute(sa.update(users).values(password_hash=passwords.hash_password(PASSWORD)))


@pytest.mark.parametrize(
    ("column", "age"),
    [("ends_at", timedelta(0)), ("last_seen", sessions.LASTS_UNUSED)],
)
def test_a_session_ends_by_itself(database: sa.Engine, column: str, age: timedelta) -> None:
    session = signed_in(database)
    with database.begin() as connection:
        connection.execute(sa.update(sessions_table).values({column: datetime.now(UTC) - age}))
    assert sessions.actor_of(database, session) is None


def test_no_secret_stands_in_the_database(database: sa.Engine) -> None:
    session, link = signed_in(database), accounts.new_link(database, "bob", actor=ADMIN)
    with database.connect() as connection:
        dump = repr([connection.execute(sa.select(table)).all() for table in (users, sessions_table, login_links)])
    assert all(secret not in dump for secret in (PASSWORD, session, link))
    assert "$argon2id$" in dump


def test_a_link_sets_one_password_once(database: sa.Engine) -> None:
    earlier = accounts.new_link(database, "bob", actor=ADMIN)
    link = accounts.new_link(database, "bob", actor=ADMIN)
    assert accounts.user_of_link(database, link) == "bob"
    with pytest.raises(AccessError, match=r"^a password has 10 to 256 characters$"):
        accounts.set_password(database, link, "short")
    assert accounts.set_password(database, link, "another password") == "bob"
    for used in (earlier, link, "", "nonsense"):
        with pytest.raises(
            AccessError, match="this link was already used or has expired: ask an administrator for a new one"
        ):
            accounts.set_password(database, used, "a third password")
    assert refused(database, "bob", PASSWORD) == refused(database, "bob", "a third password")


def test_a_link_ends(database: sa.Engine) -> None:
    link = accounts.new_link(database, "bob", actor=ADMIN)
    with database.begin() as connection:
        connection.execute(sa.update(login_links).values(ends_at=datetime.now(UTC)))
    with pytest.raises(AccessError, match="was already used or has expired"):
        accounts.user_of_link(database, link)


def test_every_reason_not_to_come_in_reads_the_same(database: sa.Engine) -> None:
    accounts.add_user(database, "new", Role.VIEWER, actor=ADMIN)
    sentences = {refused(database, name, PASSWORD) for name in ("nobody", "new", "")} | {refused(database, "bob", "x")}
    assert sentences == {"the name or the password is wrong"}
    assert [entry.action for entry in audit.newest(database, 4)] == ["session.refused"] * 4


def test_wrong_passwords_of_one_address_wait_and_other_addresses_do_not(database: sa.Engine) -> None:
    for _ in range(sessions.MOST_PAIR):
        assert refused(database, "bob", "wrong") == "the name or the password is wrong"
    assert refused(database, "bob", PASSWORD) == "too many wrong passwords: wait 15 minutes, then try again"
    assert signed_in(database, THERE)
    with database.begin() as connection:
        connection.execute(sa.update(login_failures).values(at=datetime.now(UTC) - sessions.WINDOW))
    assert signed_in(database)


def test_signing_in_once_more_ends_the_session_that_was_used_longest_ago(
    database: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MOST_SESSIONS", 3)
    accounts.add_user(database, "carol", Role.VIEWER, actor=ADMIN)
    other = sessions.begin(database, "carol", HERE)
    earlier = [signed_in(database) for _ in range(3)]
    used = datetime.now(UTC) - timedelta(minutes=4)
    with database.begin() as connection:
        first = sessions_table.c.token_hash == passwords.digest(earlier[1])
        connection.execute(sa.update(sessions_table).where(first).values(last_seen=used))
    latest = signed_in(database)
    assert [sessions.actor_of(database, session) is not None for session in (*earlier, latest, other)] == [
        *(True, False, True),
        *(True, True),
    ]
    ended = [entry for entry in audit.newest(database, 10) if entry.action == "session.end"]
    assert [(entry.actor, entry.subject) for entry in ended] == [("bob", "bob")]


@pytest.mark.parametrize(
    ("key", "most"), [("name:bob", sessions.MOST_NAME), (f"address:{HERE}", sessions.MOST_ADDRESS)]
)
def test_tries_are_limited_by_name_and_by_address_too(database: sa.Engine, key: str, most: int) -> None:
    failed(database, key, most - 1)
    assert refused(database, "bob", "wrong") == "the name or the password is wrong"
    assert "too many" in refused(database, "bob", PASSWORD)


@pytest.mark.parametrize(
    ("key", "most"), [("name:bob", sessions.MOST_NAME), (f"address:{HERE}", sessions.MOST_ADDRESS)]
)
def test_others_cannot_lock_a_user_out_where_the_user_came_in_before(database: sa.Engine, key: str, most: int) -> None:
    assert signed_in(database)
    failed(database, key, most)
    assert signed_in(database)
    for _ in range(sessions.MOST_PAIR):
        refused(database, "bob", "wrong")
    assert "too many" in refused(database, "bob", PASSWORD)  # tries there are few, whoever makes them
    with database.begin() as connection:
        connection.execute(login_failures.delete().where(login_failures.c.key.startswith("pair:")))
        connection.execute(sa.update(login_addresses).values(came_in_at=datetime.now(UTC) - sessions.KNOWN_FOR))
    assert "too many" in refused(database, "bob", PASSWORD)


def test_a_user_is_known_at_a_few_addresses_the_last_ones(database: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MOST_KNOWN", 2)
    for address in (HERE, "2001:db8::1", THERE):
        signed_in(database, address)
    known = [sessions.is_known(database, "bob", address) for address in (HERE, "2001:db8::2", THERE)]
    assert known == [False, True, True]


def failed(database: sa.Engine, key: str, times: int) -> None:
    """Count as many wrong passwords."""
    with database.begin() as connection:
        connection.execute(login_failures.insert(), [{"key": key, "at": datetime.now(UTC)}] * times)


def test_only_administrators_manage_users(database: sa.Engine) -> None:
    for change in (
        lambda: accounts.add_user(database, "eve", Role.ADMINISTRATOR, actor=SUBMITTER),
        lambda: accounts.new_link(database, "bob", actor=SUBMITTER),
        lambda: accounts.set_role(database, "sam", Role.ADMINISTRATOR, actor=SUBMITTER),
        lambda: accounts.disable(database, "bob", actor=SUBMITTER),
        lambda: accounts.enable(database, "bob", actor=SUBMITTER),
    ):
        with pytest.raises(AccessError, match="you may not manage users: sam is a submitter"):
            change()
    (bob,) = accounts.all_users(database)
    assert (bob.name, bob.role, bob.has_password, bob.disabled_at) == ("bob", Role.SUBMITTER, True, None)


def test_a_name_that_is_taken_unknown_or_none_is_refused(database: sa.Engine) -> None:
    with pytest.raises(AccessError, match="user bob already exists: `drafthouse user link bob` makes a new link"):
        accounts.add_user(database, "bob", Role.VIEWER, actor=ADMIN)
    for name in ("", "-x", "a b", "x" * 101, "a\nb"):
        with pytest.raises(AccessError, match="cannot be a user's name"):
            accounts.add_user(database, name, Role.VIEWER, actor=ADMIN)
    with pytest.raises(AccessError, match="there is no user eve: `drafthouse user list` lists them"):
        accounts.disable(database, "eve", actor=ADMIN)
