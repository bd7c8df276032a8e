"""The job table in a real PostgreSQL, which a deployment with several hosts uses."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from datetime import UTC, date, datetime
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from access import accounts, sessions
from host.settings import Settings
from jobs import order, queue
from jobs.fleet import leases
from jobs.series import bisects, nightly, store
from jobs.series.bisects import About, Version
from lab.cost import Price
from lab.errors import AccessError, RevisionError
from lab.roles import Actor, Role
from lab.series.alarm import MEASURES
from lab.series.bisect import End
from tests.actors import ADMIN
from tests.jobs.greedy_worker import claimed_by
from tests.jobs.series.nights import NIGHT, add_series, measure, remember
from tests.postgresql import Server, running_server
from tests.workers.homes import Home, new_home, until, worker_environment
from warehouse.app_db import audit, dashboards, pins, price_book, stored_objects
from warehouse.app_db.engine import DATABASE_ERRORS, app_engine, open_engine
from warehouse.app_db.schema import APP
from warehouse.app_db.schema import jobs as jobs_table
from warehouse.ingest.app_tables import AppReader
from warehouse.migrate import migrate
from warehouse.schema import revisions
from workers.worker import Worker


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running_server() as it:
        yield it


def _name_for(request: pytest.FixtureRequest) -> str:
    return f"t{abs(hash(request.node.name))}"


@pytest.fixture
def database_url(server: Server, request: pytest.FixtureRequest) -> str:
    """A database of its own for each test."""
    name = _name_for(request)
    with server.administration() as admin:
        admin.execute(sa.text(f"CREATE DATABASE {name}"))
    return server.url.format(name=name)


@pytest.fixture(scope="module")
def migrated_database(server: Server, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of a database that `drafthouse migrate` has set up, to be copied."""
    with server.administration() as admin:
        admin.execute(sa.text("CREATE DATABASE migrated"))
    migrate(Settings(home=tmp_path_factory.mktemp("once"), database_url=server.url.format(name="migrated")))
    return "migrated"


@pytest.fixture
def home(
    tmp_path: Path, migrated: Path, server: Server, migrated_database: str, request: pytest.FixtureRequest
) -> Iterator[Home]:
    name = _name_for(request)
    with server.administration() as admin:
        admin.execute(sa.text(f"CREATE DATABASE {name} TEMPLATE {migrated_database}"))
    database_url = server.url.format(name=name)
    with new_home(tmp_path, migrated, database_url=database_url) as it:
        yield it


def test_migrations_make_what_the_tables_declare_and_can_be_reverted(database_url: str) -> None:
    engine = sa.create_engine(database_url)
    for revision in ("head", "base", "head"):
        with engine.begin() as connection:
            config = revisions.alembic_config("app", connection, APP)
            (command.downgrade if revision == "base" else command.upgrade)(config, revision)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        assert compare_metadata(context, APP) == []
    engine.dispose()


def test_one_never_set_up_names_the_command(tmp_path: Path, database_url: str) -> None:
    with pytest.raises(RevisionError, match="never set up: run `drafthouse migrate`"):
        app_engine(Settings(home=tmp_path, database_url=database_url).app_database_url)


def test_prices_are_added_once_and_withdrawn(home: Home) -> None:
    price = Price(hardware="H200", valid_from=date(2026, 1, 1), currency="USD", source="a list", rented_per_hour=3.5)
    number = price_book.add(home.database, price, actor=ADMIN)
    assert price_book.add(home.database, price, actor=ADMIN) == number
    price_book.withdraw(home.database, number, actor=ADMIN)
    (entry,) = price_book.entries(home.database)
    assert (entry.price, entry.withdrawn_at is None) == (price, False)


def test_who_has_seen_a_serial_of_the_object_store_has_missed_none_below_it(home: Home) -> None:
    def store(writer: int) -> None:
        for number in range(10):
            stored_objects.record(home.database, f"job-{writer}/run-{number}", "digest")

    seen, last = list[str](), 0
    with ThreadPoolExecutor(4) as pool:
        writers = [pool.submit(store, writer) for writer in range(4)]
        while not all(writer.done() for writer in writers) or stored_objects.newer_than(home.database, last):
            for row in stored_objects.newer_than(home.database, last):
                assert row.serial is not None
                seen.append(row.path)
                last = row.serial
    assert sorted(seen) == sorted(f"job-{writer}/run-{number}" for writer in range(4) for number in range(10))
    assert [writer.result() for writer in writers] == [None] * 4


def test_what_several_people_pin_at_once_stands_on_one_dashboard(home: Home) -> None:
    def pin(person: int) -> None:
        board = dashboards.create(home.database, "shared", actor=ADMIN)
        for number in range(5):
            shown = pins.PinnedFigure("results", {"job": (f"{person}-{number}",)}, "speedup", datetime.now(UTC))
            pins.move(
                home.database, pins.add(home.database, board, shown, f"by {person}", actor=ADMIN), None, actor=ADMIN
            )

    threads = [threading.Thread(target=pin, args=(person,)) for person in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (board,) = dashboards.all_dashboards(home.database)
    pinned = {pin.shown.parameters_json for pin in pins.pins_on(home.database, board.dashboard_id)}
    assert len(pinned) == board.pins == 20


def test_a_series_is_queued_once_measured_again_and_raises_its_alarm(home: Home) -> None:
    add_series(home)
    remember(home)
    for _ in range(2):
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: nightly.tend(home.settings, home.database, NIGHT), range(4)))
        measure(home, slower=1.3)
    nightly.tend(home.settings, home.database, NIGHT)
    night, again = store.nights(home.database, "nightly", 2)[1:]
    assert (night.speedup_finding, again.again_of) == ("fall", night.night_id)
    (alarm,) = store.alarms(home.database)
    store.acknowledge(home.database, alarm.alarm_id, "known", actor=ADMIN)
    store.silence(home.database, "nightly", NIGHT, actor=ADMIN)
    store.annotate(home.database, "nightly", "driver 580", NIGHT, actor=ADMIN)
    about = About("drafted", MEASURES[0], "wheels in a folder")
    versions = [Version("1.0", "a"), Version("1.1", "b")]
    begun = bisects.begin(home.database, store.named(home.database, "nightly"), about, versions, actor=ADMIN)
    job_id = bisects.measure_version(home.settings, begun, 0, "vllm", actor=ADMIN)
    bisects.failed(home.database, begun, 1, "it cannot be built")
    assert [(step.version, step.job_id) for step in bisects.steps(home.database, begun)] == [(0, job_id), (1, None)]
    bisects.store_end(home.database, begun, End("nothing can be told"))
    ended = bisects.last(home.database, store.named(home.database, "nightly"), about)
    assert ended is not None
    assert ended.end == End("nothing can be told")


def test_a_job_is_submitted_claimed_beaten_for_cancelled_and_retried(home: Home) -> None:
    job_id = home.submit()
    claimed = leases.claim(home.database, "me", 600.0)
    assert claimed is not None
    assert claimed.study == home.study()
    assert leases.heartbeat(home.database, job_id, "me", 600.0, None)
    queue.cancel(home.database, job_id, actor=ADMIN)
    assert not leases.heartbeat(home.database, job_id, "me", 600.0, None)
    leases.finish(home.database, job_id, "me", "cancelled")
    queue.retry(home.database, job_id, actor=ADMIN)
    assert (home.job(job_id).state, home.job(job_id).attempt) == ("queued", 1)
    assert home.event_kinds(job_id) == ["submitted", "claimed", "cancel requested", "cancelled", "retried"]


@pytest.mark.parametrize("ahead_s", [-3600, 3600])
def test_leases_go_by_the_servers_clock(home: Home, monkeypatch: pytest.MonkeyPatch, ahead_s: float) -> None:
    job_id = home.submit()
    right_s = time.time
    monkeypatch.setattr("time.time", lambda: right_s() + ahead_s)
    leases.claim(home.database, "me", 600.0)
    assert leases.requeue_expired(home.database) == []
    leases.heartbeat(home.database, job_id, "me", -0.01, None)
    assert leases.requeue_expired(home.database) == [job_id]


def test_a_job_that_cannot_be_read_is_set_aside(home: Home) -> None:
    first, second = home.submit(), home.submit()
    with home.database.begin() as connection:
        connection.execute(jobs_table.update().where(jobs_table.c.job_id == first).values(study_json="{"))
    claimed = leases.claim(home.database, "me", 600.0)
    assert claimed is not None
    assert claimed.job_id == second
    assert [job.job_id for job in queue.set_aside(home.database)] == [first]


def test_a_study_submitted_by_several_at_once_is_stored_once(home: Home) -> None:
    """All of them have looked for the study before any of them has stored it."""
    people = 4
    ready = threading.Barrier(people)

    def submit(_person: int) -> str:
        ready.wait()
        return home.submit()

    with home.database.connect() as first:  # whose transaction is open while the others look
        may_pause(first)
        queue._store_study(first, home.study(), "{}", datetime.now(UTC))
        with ThreadPoolExecutor(people) as pool:
            submitted = [pool.submit(submit, person) for person in range(people)]
            until(lambda: waiting_for_a_lock(home) == people, "all of them have come to the study")
            first.commit()
            ids = {future.result() for future in submitted}
    assert {job.job_id for job in queue.jobs(home.database)} == ids
    assert len(ids) == people


def may_pause(connection: sa.Connection) -> None:
    """Let its transaction stay open however long others take meanwhile: by default the server ends it after 10 s."""
    connection.execute(sa.text("SET LOCAL idle_in_transaction_session_timeout = '10min'"))


def waiting_for_a_lock(home: Home) -> int:
    with home.database.connect() as connection:
        return int(connection.scalar(sa.text("SELECT count(*) FROM pg_locks WHERE NOT granted")) or 0)


def test_the_historys_first_page_has_all_active_jobs(home: Home) -> None:
    ids = sorted((home.submit() for _ in range(5)), key=lambda job_id: (home.job(job_id).submitted_at, job_id))
    leases.claim(home.database, "me", 600.0)
    for job_id in ids[2:]:
        queue.cancel(home.database, job_id, actor=ADMIN)
    first = queue.page(home.database, 2)
    second = queue.page(home.database, 2, first.older)
    assert [job.job_id for job in first.jobs] == [ids[4], ids[3], ids[1], ids[0]]
    assert [job.job_id for job in second.jobs] == [ids[2], ids[1]]
    assert [job.job_id for job in queue.page(home.database, 2, second.older).jobs] == [ids[0]]
    assert [job.job_id for job in queue.ended(home.database, 2)] == [ids[4], ids[3]]


def test_a_change_that_becomes_visible_after_a_later_one_is_read(home: Home) -> None:
    early, late = home.submit(), home.submit()
    with closing(AppReader(home.database)) as reader, home.database.connect() as slow:
        reader.changed()
        may_pause(slow)
        order._set_priority(slow, early, 7, ADMIN)
        order.reprioritise(home.database, late, 9, actor=ADMIN)
        assert _priorities(reader)[late] == 9
        order.reprioritise(home.database, late, 8, actor=ADMIN)
        assert _priorities(reader) == {late: 8}
        slow.commit()
        assert _priorities(reader)[early] == 7


def _priorities(reader: AppReader) -> dict[str, int]:
    return {row["job_id"]: row["priority"] for row in reader.changed()["jobs"].rows.to_pylist()}


def test_no_two_of_four_workers_get_the_same_job(home: Home) -> None:
    ids = [home.submit() for _ in range(30)]
    assert Counter(claimed_by(4, worker_environment(home), home.folder)) == Counter(ids)


def test_users_sign_in_are_throttled_and_leave_rows_in_the_audit_table(home: Home) -> None:
    accounts.add_user(home.database, "bob", Role.SUBMITTER, actor=ADMIN)
    accounts.set_password(home.database, accounts.new_link(home.database, "bob", actor=ADMIN), "a long password")
    session = sessions.sign_in(home.database, "bob", "a long password", "here")
    assert sessions.actor_of(home.database, session) == Actor("bob", Role.SUBMITTER)
    with ThreadPoolExecutor(8) as pool:
        tries = [pool.submit(sessions.sign_in, home.database, "bob", "wrong", "here") for _ in range(8)]
        refusals = Counter(str(tried.exception()).partition(":")[0] for tried in tries)
    assert set(refusals) <= {"the name or the password is wrong", "too many wrong passwords"}
    with pytest.raises(AccessError, match="too many wrong passwords"):
        sessions.sign_in(home.database, "bob", "a long password", "here")
    sessions.end(home.database, session)
    assert sessions.actor_of(home.database, session) is None
    last, *_, first = audit.newest(home.database, 100)
    assert (first.action, last.action, last.actor) == ("user.change", "session.end", "bob")


def test_a_session_that_has_gone_in_a_transaction_holds_no_job(home: Home) -> None:
    job_id = home.submit()
    leases.claim(home.database, "gone", 0.0)
    limit = sa.text("SELECT current_setting('idle_in_transaction_session_timeout')")
    url = f"{home.settings.app_database_url}&options=-c%20idle_in_transaction_session_timeout%3D5min"
    with open_engine(url) as other, other.connect() as connection:
        assert connection.scalar(limit) == "5min"
        connection.execute(jobs_table.update().values(error="not committed"))
        assert leases.requeue_expired(home.database) == []  # the row is locked
        connection.execute(sa.text("SET idle_in_transaction_session_timeout = '0.1s'"))
        until(lambda: leases.requeue_expired(home.database) == [job_id], "the server ends the session")
        with pytest.raises(DATABASE_ERRORS):
            connection.execute(sa.select(1))
    with home.database.connect() as connection:
        assert connection.scalar(limit) == "10s"  # unless the URL sets another one


def test_a_migration_may_pause_on_a_busy_host(database_url: str, tmp_path: Path) -> None:
    noted = (
        "CREATE TABLE seen (pause_limit text)",
        (
            "CREATE FUNCTION note() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN"
            " INSERT INTO public.seen VALUES (current_setting('idle_in_transaction_session_timeout')); END $$"
        ),
        "CREATE EVENT TRIGGER note ON ddl_command_end EXECUTE FUNCTION note()",
    )
    engine = sa.create_engine(database_url)
    with engine.begin() as connection:
        for statement in noted:
            connection.execute(sa.text(statement))
    migrate(Settings(home=tmp_path, database_url=database_url))
    with engine.connect() as connection:
        assert set(connection.scalars(sa.text("SELECT pause_limit FROM seen"))) == {"10min"}
    engine.dispose()


def test_a_connection_that_the_server_has_ended_is_made_anew_unnoticed(home: Home) -> None:
    home.submit()
    with home.database.connect() as connection:
        ended = connection.scalar(sa.text("SELECT pg_backend_pid()"))
    with open_engine(home.settings.app_database_url) as other, other.connect() as connection:
        connection.execute(sa.text("SELECT pg_terminate_backend(:pid)"), {"pid": ended})
    assert len(queue.jobs(home.database)) == 1


def test_a_worker_holds_one_connection_whatever_its_threads_do(home: Home) -> None:
    database = Worker(home.settings)._database

    def session(_thread: int) -> object:
        with database.connect() as connection:
            return connection.scalar(sa.text("SELECT pg_backend_pid() FROM pg_sleep(0.05)"))

    with ThreadPoolExecutor(4) as threads:
        assert len(set(threads.map(session, range(8)))) == 1
    database.dispose()


def test_a_worker_keeps_no_connection_while_its_server_has_few_left(home: Home, server: Server) -> None:
    """Its role sees that others have sessions, and not what they do, as that of an enrolled host."""
    with server.administration() as admin, ExitStack() as others:
        admin.execute(sa.text("CREATE ROLE a_host LOGIN IN ROLE pg_read_all_data"))
        url = home.settings.app_database_url.replace("postgres@", "a_host@")
        database = Worker(home.settings.model_copy(update={"database_url": url}))._database

        def keeps_its_connection() -> bool:
            numbers = set[object]()
            for _ in range(2):
                with database.connect() as connection:
                    numbers.add(connection.scalar(sa.text("SELECT pg_backend_pid()")))
            return len(numbers) == 1

        assert keeps_its_connection()
        database.dispose()
        most = int(admin.scalar(sa.text("SHOW max_connections")) or 0)
        for _ in range(most * 2 // 3):
            others.enter_context(psycopg.connect(url.replace("+psycopg", "")))
        assert not keeps_its_connection()
        others.close()
        until(keeps_its_connection, "the server has ended the other sessions")
        database.dispose()
        admin.execute(sa.text("DROP ROLE a_host"))
