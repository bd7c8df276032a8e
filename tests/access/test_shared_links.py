"""Links without a login: what they are for, until when, and whose they are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from access import accounts, shared_links
from access.shared_links import Kind, SharedLink
from jobs import queue
from lab.errors import AccessError
from lab.roles import Actor, Role
from tests.actors import ADMIN, OTHER_SUBMITTER, SUBMITTER, VIEWER
from tests.workers.homes import Home
from warehouse.app_db import schema

DAY, MOST = timedelta(days=1), timedelta(days=30)


def made(home: Home, actor: Actor = VIEWER, lasts: timedelta = DAY, most: timedelta = MOST) -> tuple[SharedLink, str]:
    return shared_links.make_link(home.database, Kind.STUDY, "job-1", "the study", lasts=lasts, most=most, actor=actor)


def test_a_link_opens_what_it_is_for_and_its_use_is_seen(home: Home) -> None:
    link, secret = made(home)
    found = shared_links.opened(home.database, secret)
    assert found is not None
    assert (found.kind, found.subject, found.owner) == (Kind.STUDY, "job-1", "vera")
    (listed,) = shared_links.all_links(home.database, "vera")
    assert listed.link_id == link.link_id
    assert listed.last_used_at is not None
    assert shared_links.all_links(home.database, "sam") == []
    assert shared_links.opened(home.database, secret[:-1]) is None
    assert shared_links.opened(home.database, link.link_id) is None


def test_the_secret_is_not_stored(home: Home) -> None:
    _, secret = made(home)
    with home.database.connect() as connection:
        row = connection.execute(sa.select(schema.shared_links)).one()
    assert len(secret) == 43
    assert secret not in str(row)


def test_a_link_that_has_ended_or_was_revoked_opens_nothing(home: Home) -> None:
    link, secret = made(home)
    shared_links.revoke(home.database, link.link_id, actor=VIEWER)
    shared_links.revoke(home.database, link.link_id, actor=VIEWER)
    assert shared_links.opened(home.database, secret) is None
    other, ended = made(home)
    with home.database.begin() as connection:
        past = schema.shared_links.update().where(schema.shared_links.c.link_id == other.link_id)
        connection.execute(past.values(ends_at=datetime.now(UTC)))
    assert shared_links.opened(home.database, ended) is None
    assert not any(it.works(datetime.now(UTC)) for it in shared_links.all_links(home.database))


def test_links_of_a_user_end_when_the_user_is_disabled(home: Home) -> None:
    accounts.add_user(home.database, "vera", Role.VIEWER, actor=ADMIN)
    _, secret = made(home)
    assert shared_links.opened(home.database, secret) is not None
    accounts.disable(home.database, "vera", actor=ADMIN)
    assert shared_links.opened(home.database, secret) is None


@pytest.mark.parametrize("lasts", [timedelta(0), timedelta(days=31), timedelta(days=-1)])
def test_a_link_lasts_no_longer_than_the_lab_allows(home: Home, lasts: timedelta) -> None:
    with pytest.raises(AccessError, match="more than 0 and at most 30 days"):
        made(home, lasts=lasts)
    with pytest.raises(AccessError, match="turned off in this lab"):
        made(home, most=timedelta(0))


def test_nobody_has_more_links_than_can_be_looked_after(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_links, "MOST_LINKS", 1)
    link, _ = made(home)
    with pytest.raises(AccessError, match="you have 1 links that work"):
        made(home)
    shared_links.revoke(home.database, link.link_id, actor=VIEWER)
    made(home)


def test_the_lab_says_who_may_publish_what(home: Home) -> None:
    def publish(actor: Actor, kind: Kind, owner: str | None, by: shared_links.Sharing) -> None:
        shared_links.make_link(home.database, kind, "it", "it", lasts=DAY, most=MOST, actor=actor, owner=owner, by=by)

    publish(VIEWER, Kind.STUDY, None, "everybody")
    publish(SUBMITTER, Kind.STUDY, "sam", "owners")
    publish(ADMIN, Kind.DASHBOARD, "sam", "administrators")
    for kind, owner in ((Kind.STUDY, "sue"), (Kind.RUN, None), (Kind.DASHBOARD, "sam")):  # it shows others' studies
        with pytest.raises(AccessError, match="only its owner may publish a study or a run"):
            publish(SUBMITTER, kind, owner, "owners")
    with pytest.raises(AccessError, match="only administrators publish anything"):
        publish(SUBMITTER, Kind.STUDY, "sam", "administrators")


def test_owners_see_and_end_links_that_others_made_to_their_studies(home: Home) -> None:
    job_id = queue.submit(home.settings, home.study(), actor=SUBMITTER)
    link, secret = shared_links.make_link(home.database, Kind.STUDY, job_id, "mine", lasts=DAY, most=MOST, actor=VIEWER)
    shared_links.make_link(home.database, Kind.STUDY, job_id, "mine", lasts=DAY, most=MOST, actor=SUBMITTER)
    assert [found.link_id for found in shared_links.others_links_to(home.database, "sam")] == [link.link_id]
    assert shared_links.others_links_to(home.database, "sue") == []
    with pytest.raises(AccessError, match="belongs to vera"):
        shared_links.revoke(home.database, link.link_id, actor=OTHER_SUBMITTER)
    shared_links.revoke(home.database, link.link_id, actor=SUBMITTER)
    assert shared_links.opened(home.database, secret) is None
    assert shared_links.others_links_to(home.database, "sam") == []
