"""Hosts that put jobs back: which are set aside, until when, and who lets them work again."""

from __future__ import annotations

from datetime import timedelta

import pytest
import sqlalchemy as sa

from jobs.fleet import hosts
from lab.errors import UserError
from tests.actors import ADMIN
from tests.workers.homes import Home
from warehouse.app_db.clock import database_now
from warehouse.app_db.schema import hosts as hosts_table


def aside(home: Home) -> list[str]:
    return [host.host for host in hosts.set_aside_hosts(home.database)]


def fail(home: Home, host: str, times: int = hosts.MOST_IN_A_ROW) -> None:
    for number in range(times):
        hosts.record_failure(home.database, host, f"no disk {number}\nand more")


def let_time_pass(home: Home) -> None:
    with home.database.begin() as connection:
        earlier = database_now(connection) - hosts.TRY_AGAIN_AFTER - timedelta(seconds=1)
        connection.execute(hosts_table.update().values(set_aside_at=earlier))


def test_the_third_failure_in_a_row_sets_only_its_host_aside(either_home: Home) -> None:
    home = either_home
    fail(home, "w1", 2)
    fail(home, "w2", 2)
    hosts.record_success(home.database, "w1")
    fail(home, "w1", 2)
    assert aside(home) == []
    fail(home, "w1", 1)
    assert aside(home) == ["w1"]
    host = hosts.set_aside_host(home.database, "w1")
    assert host is not None
    assert not host.is_due
    begin = (
        "it is set aside, because it had to put back 3 studies in a row, the last with: no disk 0 (it tries again at "
    )
    assert host.sentence.startswith(begin)
    assert host.sentence.endswith(" UTC, or at once after `drafthouse workers --mended w1`)")
    assert hosts.set_aside_host(home.database, "w2") is None


def test_a_person_who_mended_a_host_frees_all_its_slots(either_home: Home) -> None:
    home = either_home
    for name in ("w1", "slot 2 of w1", "slot 1 of ww1", "w10"):
        fail(home, name)
    hosts.mend(home.database, "w1", actor=ADMIN)
    assert aside(home) == ["slot 1 of ww1", "w10"]
    with pytest.raises(UserError, match="no host 'w1' is set aside"):
        hosts.mend(home.database, "w1", actor=ADMIN)


def test_a_host_that_tried_itself_takes_one_study_and_falls_back_at_once(either_home: Home) -> None:
    home = either_home
    fail(home, "w1")
    let_time_pass(home)
    due = hosts.set_aside_host(home.database, "w1")
    assert due is not None
    assert due.is_due
    hosts.try_again(home.database, "w1", "no share")
    waits = hosts.set_aside_host(home.database, "w1")
    assert waits is not None
    assert (waits.is_due, waits.reason) == (False, "no share")
    hosts.try_again(home.database, "w1", None)
    assert aside(home) == []
    fail(home, "w1", 1)
    assert aside(home) == ["w1"]
    with home.database.begin() as connection:
        assert connection.scalar(sa.select(hosts_table.c.failures)) == hosts.MOST_IN_A_ROW
