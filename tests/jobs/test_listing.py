"""Lists of jobs however long the queue is, and what tells that one of them has changed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest

from jobs import listing, order, queue
from jobs.fleet import leases
from jobs.listing import Wanted
from lab.errors import UserError
from tests.actors import ADMIN
from tests.jobs.test_queue import many_jobs, progress
from tests.workers.homes import Home
from warehouse.ingest.app_tables import AppReader, AppTables, read_app_tables


def test_filtered_lists_have_pages_without_gaps(home: Home) -> None:
    ids = many_jobs(home, 9)
    done, listed, before = Wanted(state="done"), [], None
    while True:
        page = listing.page(home.database, done, 3, before)
        listed.append([job.job_id for job in page.jobs])
        if (before := page.older) is None:
            break
    assert listed == [ids[8:5:-1], ids[5:2:-1], [ids[2]]]
    assert listing.counts(home.database) == {"running": 1, "queued": 1, "done": 7}
    with pytest.raises(UserError, match="there is no job gone"):
        listing.page(home.database, done, 3, "gone")


@pytest.mark.parametrize("text", ["Über", "ÜBER", "über", "überstudie 1"])
def test_capital_and_small_letters_of_any_alphabet_are_the_same(either_home: Home, text: str) -> None:
    job_id = either_home.submit(name="Überstudie 1")
    assert [job.job_id for job in listing.page(either_home.database, Wanted(text=text), 9).jobs] == [job_id]
    assert listing.page(either_home.database, Wanted(text="uber"), 9).jobs == ()


def rows_of(tables: AppTables) -> dict[str, dict[str, object]]:
    return {str(row["job_id"]): row for row in tables["jobs"].rows.to_pylist()} if "jobs" in tables else {}


def test_every_change_of_a_job_is_read_by_its_event_and_no_heartbeat(home: Home) -> None:
    first, second = home.submit(), home.submit()
    database = home.database
    changes: list[Callable[[], object]] = [
        lambda: order.reprioritise(database, second, 3, actor=ADMIN),
        lambda: order.move_up(database, first, actor=ADMIN),
        lambda: leases.claim(database, "w", 30.0),
        lambda: leases.release(database, first, "w"),
        lambda: leases.claim(database, "w", 0.0),
        lambda: leases.requeue_expired(database),
        lambda: leases.claim(database, "w", 30.0),
        lambda: leases.finish(database, first, "w", "failed", error="no"),
        lambda: queue.retry(database, first, actor=ADMIN),
        lambda: queue.cancel(database, second, actor=ADMIN),
        home.submit,
    ]
    with closing(AppReader(database)) as reader:
        known = rows_of(reader.changed())
        for change in changes:
            before = listing.newest_event(database)
            change()
            assert listing.newest_event(database) > before
            known |= rows_of(reader.changed())
            assert known == rows_of(read_app_tables(database))
        leases.claim(database, "w", 30.0)
        reader.changed()
        (running,) = listing.running(database)
        newest = listing.newest_event(database)
        leases.heartbeat(database, running.job_id, "w", 30.0, progress(1))
        assert listing.newest_event(database) == newest
        assert "jobs" not in reader.changed()
