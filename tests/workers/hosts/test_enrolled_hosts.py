"""A worker host with keys of its own measures whole studies, and can do nothing to anybody else's."""

from __future__ import annotations

import contextlib
import platform
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import celery
import kombu
import pytest
import redis
import sqlalchemy as sa

from access import accounts
from cli.verbs.operate import worker as worker_verb
from host.settings import Settings
from jobs import queue
from jobs.fleet import blocks, leases
from jobs.fleet.enrolment import Way, enroll, revoke
from jobs.table import FINISHED
from lab.errors import SettingsError, UserError
from lab.roles import Actor, Role
from services.valkey import answers
from tests import processes
from tests.actors import ADMIN
from tests.postgresql import Server, running_server
from tests.tls import Authority, door
from tests.workers.homes import REPOSITORY, Home, new_home, until, worker_environment
from tests.workers.valkey import Broker
from warehouse.app_db import audit, stored_objects
from warehouse.app_db.engine import app_engine, migrate_app, open_engine
from workers.worker import Worker

HERE, THERE = platform.node(), "elsewhere"
SMALL: dict[str, Any] = {"arms": [{"name": "plain"}], "loads": [{"max_concurrency": 1, "num_prompts": 4}]}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """It asks everybody but its own superuser for a password."""
    with running_server() as it:
        it.ask_for_passwords()
        with it.administration() as admin:
            admin.execute(sa.text("CREATE ROLE lab LOGIN CREATEROLE PASSWORD 'of the lab'"))
            admin.execute(sa.text("CREATE DATABASE migrated OWNER lab"))
        migrate_app(url_of(it, "migrated"))
        yield it


def url_of(server: Server, database: str) -> str:
    """As the lab reaches it, whose role owns the tables and is no superuser."""
    return server.url.replace("postgres@", "lab:of%20the%20lab@").format(name=database)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    it = Broker(tmp_path_factory.mktemp("broker") / "valkey")
    it.start()
    yield it
    it.stop()


@contextlib.contextmanager
def new_lab(folder: Path, migrated: Path, server: Server, broker: Broker) -> Iterator[Home]:
    name = f"lab{abs(hash(folder))}"
    with server.administration() as admin:
        admin.execute(sa.text(f"CREATE DATABASE {name} TEMPLATE migrated OWNER lab"))
    with new_home(folder, migrated, database_url=url_of(server, name), broker_url=broker.url) as it:
        yield it


@pytest.fixture
def lab(tmp_path: Path, migrated: Path, server: Server, broker: Broker) -> Iterator[Home]:
    with new_lab(tmp_path, migrated, server, broker) as it:
        yield it


def keys(settings: Settings, host: str) -> dict[str, str]:
    """Enroll a host, and return what its file sets."""
    text, _ = enroll(settings, host, Way(), actor=ADMIN)
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {
        name.removeprefix("DRAFTHOUSE_").lower(): value for name, _, value in (line.partition("=") for line in lines)
    }


@contextlib.contextmanager
def signed_in(url: str) -> Iterator[sa.Engine]:
    with open_engine(url) as engine:
        yield engine


@pytest.mark.engine
def test_a_real_worker_measures_with_its_file_alone_until_it_is_revoked(
    lab: Home, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    accounts.add_user(lab.database, ADMIN.name, ADMIN.role, actor=ADMIN)  # its role is looked up
    environment = worker_environment(lab.leased_for(60.0))
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    file, output = lab.folder / "keys.env", lab.folder / "worker.log"
    worker_verb.enroll(HERE, to=file)
    assert file.stat().st_mode & 0o777 == 0o600
    without = {name: value for name, value in environment.items() if name not in _ADDRESSES}
    started = ("worker", "--enrolled", str(file))
    stop = threading.Event()
    with redis.Redis.from_url(broker.url) as client:
        client.acl_log_reset()
    worker = processes.start("cli", *started, environment=without, folder=lab.folder, output=output)
    try:
        spread = {"spread": True, "alone": False, "repeats": 2}
        first = [lab.submit(**SMALL), lab.submit(**SMALL, **spread)]
        until(lambda: all(lab.job(job_id).state in FINISHED for job_id in first), "two studies are measured")
        assert [(lab.job(job_id).state, lab.job(job_id).host) for job_id in first] == [("done", HERE)] * 2
        assert [lab.event_kinds(job_id) for job_id in first] == [["submitted", "claimed", "done"]] * 2
        assert [run.status for run in lab.runs()] == ["completed"] * 3
        with redis.Redis.from_url(broker.url) as client:
            assert client.acl_log() == []  # nothing was refused to it
        second = lab.submit(
            **SMALL | {"workloads": [{"output_tokens": 100_000} | lab.prompts]}, engine_flags={"token_s": 0.05}
        )
        until(lab.engine_processes, "it measures another one")
        assert revoke(lab.settings, HERE, actor=ADMIN) == []
        page = threading.Thread(target=leases.requeue_until, args=(stop, lab.settings.app_database_url))
        page.start()
        until(lambda: lab.job(second).state == "queued", "the page's process puts its study back")
        until(lambda: not lab.engine_processes(), "it has stopped measuring")
    finally:
        stop.set()
        worker.kill()
        worker.wait()
    page.join()
    assert lab.event_kinds(second) == ["submitted", "claimed", "requeued"]
    changes = [
        (entry.subject, entry.detail) for entry in audit.newest(lab.database, 100) if entry.action == "host.change"
    ]
    assert changes == [(HERE, {"revoked": True}), (HERE, {"enrolled": True})]


_ADDRESSES = ("DRAFTHOUSE_DATABASE_URL", "DRAFTHOUSE_BROKER_URL")


@dataclass(frozen=True)
class Attacked:
    lab: Home
    database: sa.Engine
    broker: redis.Redis


@pytest.fixture(scope="module")
def attacked(
    tmp_path_factory: pytest.TempPathFactory, migrated: Path, server: Server, broker: Broker
) -> Iterator[Attacked]:
    """A lab with a queued job, and one that runs and one that has ended elsewhere; and a host of it that signed in."""
    with new_lab(tmp_path_factory.mktemp("attacked"), migrated, server, broker) as lab:
        accounts.add_user(lab.database, "ada", Role.SUBMITTER, actor=ADMIN)
        accounts.set_password(lab.database, accounts.new_link(lab.database, "ada", actor=ADMIN), "a long password")
        ended, _running, _queued = (lab.submit(name=name) for name in ("ended", "running", "queued"))
        leases.claim(lab.database, f"{THERE}/1/x/2", 3600.0)
        leases.finish(lab.database, ended, f"{THERE}/1/x/2", "done")
        leases.claim(lab.database, f"{THERE}/1/x/2", 3600.0)
        stored_objects.record(lab.database, f"{ended}/run", "a digest")
        with lab.database.begin() as connection:
            connection.execute(sa.text("UPDATE stored_objects SET host = 'elsewhere'"))
            connection.execute(sa.text(_ITS_WORKER))
            connection.execute(sa.text("INSERT INTO hosts VALUES ('elsewhere', 3, 'no disk', now())"))
        its = keys(lab.settings, HERE)
        with signed_in(its["database_url"]) as engine, redis.Redis.from_url(its["broker_url"]) as client:
            yield Attacked(lab, engine, client)


def test_the_health_check_of_its_container_may_read_what_it_lists(attacked: Attacked) -> None:
    database_url = attacked.database.url.render_as_string(hide_password=False)
    environment = worker_environment(attacked.lab) | {"DRAFTHOUSE_DATABASE_URL": database_url}
    command = [sys.executable, "-m", "cli", "workers"]
    done = subprocess.run(command, env=environment, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("No worker has registered yet")  # none of its own


_ITS_WORKER = (
    "INSERT INTO workers (worker, host, hardware, gpus, started_at, last_seen) "
    "VALUES ('elsewhere/1/x/2', 'elsewhere', 'none', 0, now(), now())"
)
_ANOTHERS_JOB = "(SELECT job_id FROM job_events LIMIT 1)"


@pytest.mark.parametrize(
    "attack",
    [
        "COPY (SELECT 1) TO PROGRAM 'touch pwned'",
        "COPY alembic_version TO '/tmp/pwned'",
        "SELECT pg_read_file('PG_VERSION')",
        "INSERT INTO users (name, role, created_at) VALUES ('eve', 'administrator', now())",
        "UPDATE users SET role = 'administrator'",
        "SELECT password_hash FROM users",
        *(
            f"SELECT * FROM {table}"
            for table in ("api_tokens", "sessions", "login_links", "studies", "audit", "prices")
        ),
        "DELETE FROM audit",
        "INSERT INTO audit (at, actor, role, via, action, subject, detail_json) VALUES (now(), '', '', '', '', '', '')",
        "DROP TABLE pins",
        "ALTER TABLE jobs DISABLE ROW LEVEL SECURITY",
        "DROP POLICY workers_select ON jobs",
        "CREATE TABLE mine (a int)",
        "CREATE ROLE eve SUPERUSER",
        "SET ROLE lab",
        "SET SESSION AUTHORIZATION lab",
        "UPDATE jobs SET study_json = '{}'",
        "UPDATE jobs SET priority = 9",
        "UPDATE jobs SET submitted_by = NULL",
        "UPDATE jobs SET error = 'spoilt' WHERE state = 'queued'",
        "UPDATE jobs SET state = 'running', worker = 'elsewhere/1/x/2', host = 'elsewhere'",
        "INSERT INTO jobs (job_id) VALUES ('mine')",
        "DELETE FROM jobs",
        f"INSERT INTO job_events (job_id, at, kind, detail) VALUES ({_ANOTHERS_JOB}, now(), 'done', '')",
        f"INSERT INTO job_blocks VALUES ({_ANOTHERS_JOB}, 0, 0, '{HERE}/1/x/2', 0, true, NULL, NULL)",
        _ITS_WORKER.replace("/1/", "/3/"),
        "INSERT INTO hosts VALUES ('another', 3, 'spoilt', now())",
        f"INSERT INTO stored_objects VALUES ('any/run', 'any', 99, 'forged', '{HERE}', now())",
        "UPDATE workers SET drains = true",
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'lab'",
    ],
)
def test_a_host_is_refused(attacked: Attacked, attack: str) -> None:
    with attacked.database.connect() as connection:
        with pytest.raises(sa.exc.DBAPIError) as refused:
            connection.execute(sa.text(attack))
        assert refused.value.orig.sqlstate == "42501"  # type: ignore[union-attr]


def test_a_host_neither_sees_nor_changes_what_is_anothers(attacked: Attacked) -> None:
    """What it may do in a table does not reach their rows."""
    with attacked.database.begin() as connection:
        rows = [
            connection.execute(sa.text(text)).fetchall()
            for text in (
                "SELECT name, state FROM jobs",
                "SELECT * FROM workers",
                "SELECT * FROM hosts",
                "SELECT * FROM stored_objects",
                "SELECT kind FROM job_events",
            )
        ]
        assert rows == [[("queued", "queued")], [], [], [], [("submitted",)]]
        changed = [
            connection.execute(sa.text(text)).rowcount
            for text in (
                f"UPDATE jobs SET state = 'done', host = '{HERE}' WHERE state <> 'queued'",
                "UPDATE job_blocks SET is_done = true",
                "DELETE FROM workers",
                "DELETE FROM hosts",
                "UPDATE stored_objects SET manifest_sha256 = 'forged'",
            )
        ]
        assert changed == [0] * 5
    for act in (leases.heartbeat, _finish):
        with pytest.raises(leases.LeaseLost):
            act(attacked.database, _running(attacked.lab), f"{THERE}/1/x/2", 30.0, None)


def _finish(engine: sa.Engine, job_id: str, worker: str, *_: object) -> None:
    leases.finish(engine, job_id, worker, "done")


def _running(lab: Home) -> str:
    return next(job.job_id for job in queue.active(lab.database) if job.state == "running")


def test_a_host_records_bundles_of_jobs_that_it_had(lab: Home) -> None:
    others, own = lab.submit(), lab.submit()
    leases.claim(lab.database, f"{THERE}/1/x/2", 3600.0)
    stored_objects.record(lab.database, f"{others}/run", "a digest")
    with signed_in(keys(lab.settings, HERE)["database_url"]) as engine:
        leases.claim(engine, f"{HERE}/1/x/2", 600.0)
        stored_objects.announce(engine, [f"{own}/first"])
        leases.release(engine, own, f"{HERE}/1/x/2")
        leases.claim(lab.database, f"{THERE}/1/x/2", 3600.0)  # another host goes on, and this one uploads what it has
        stored_objects.record(engine, f"{own}/first", "a digest")
        stored_objects.record(engine, f"{own}/second", "a digest")
        with pytest.raises(sa.exc.ProgrammingError, match="row-level security"):
            stored_objects.record(engine, f"{others}/forged", "a digest")
    rows = [(row.path, row.serial) for row in stored_objects.newer_than(lab.database, 0)]
    assert rows == [(f"{others}/run", 1), (f"{own}/first", 2), (f"{own}/second", 3)]


def test_a_host_takes_free_blocks_of_studies_over_hosts_and_no_others(lab: Home) -> None:
    shared, closed = (lab.submit(**SMALL, repeats=3, alone=False, spread=spread) for spread in ("hosts", True))
    me, its = f"{HERE}/1/x/2", f"{THERE}/1/x/2"
    for worker in (its, f"{THERE}/3/x/4"):
        assert leases.claim(lab.database, worker, 3600.0) is not None
    with signed_in(keys(lab.settings, HERE)["database_url"]) as engine:
        (job,) = blocks.shared_jobs(engine, me)
        assert job.job_id == shared
        parts: dict[str, Any] = {"contents": [None] * 3, "is_dead": lambda _: False, "likeness": {"hardware": "H200"}}
        assert blocks.claim_block(lab.database, job, its, 3600.0, **parts) == 0
        assert blocks.claim_block(lab.database, job, its, -1.0, **parts) == 1
        assert [blocks.claim_block(engine, job, me, 600.0, **parts) for _ in range(3)] == [1, 2, None]
        assert blocks.helping(engine, job, me, 600.0)
        stored_objects.announce(engine, [f"{shared}/run"])
        stored_objects.record(engine, f"{shared}/run", "a digest")
        blocks.finish_block(engine, job, 1, me)
        with engine.begin() as connection:
            changed = [
                connection.execute(sa.text(text)).rowcount
                for text in (
                    f"UPDATE jobs SET state = 'queued', worker = NULL, host = '{HERE}' WHERE state = 'running'",
                    f"UPDATE jobs SET worker = '{me}', host = '{HERE}' WHERE state = 'running'",
                    f"UPDATE job_blocks SET worker = '{me}' WHERE worker <> '{me}'",
                )
            ]
        assert changed == [0, 0, 0]
        with pytest.raises(sa.exc.ProgrammingError, match="row-level security"), engine.begin() as connection:
            connection.execute(
                sa.text(f"INSERT INTO job_blocks VALUES ('{closed}', 0, 0, '{me}', 0, false, NULL, NULL)")
            )
        leases.finish(lab.database, shared, its, "cancelled")
        with pytest.raises(leases.LeaseLost, match="has ended"):
            blocks.helping(engine, job, me, 600.0)
        stored_objects.record(engine, f"{shared}/late", "a digest")  # what it had measured by then


def test_turns_count_jobs_that_run_elsewhere(lab: Home) -> None:
    accounts.add_user(lab.database, "bob", Role.SUBMITTER, actor=ADMIN)
    for _ in range(2):
        lab.submit()
    leases.claim(lab.database, f"{THERE}/1/x/2", 3600.0)
    his = queue.submit(lab.settings, lab.study(), actor=Actor("bob", Role.SUBMITTER))
    with signed_in(keys(lab.settings, HERE)["database_url"]) as engine:
        first = leases.claim(engine, f"{HERE}/1/x/2", 600.0)
    assert first is not None
    assert first.job_id == his


@pytest.mark.parametrize(
    "attack",
    [
        "FLUSHALL",
        "SHUTDOWN NOSAVE",
        "CONFIG SET dir /tmp",
        "CONFIG GET requirepass",
        "KEYS *",
        "MODULE LIST",
        "MONITOR",
        "ACL LIST",
        "ACL SETUSER eve on nopass +@all",
        "CLIENT LIST",
        "CLIENT KILL TYPE normal",
        "SAVE",
        "EVAL return(1) 0",
        "FUNCTION LIST",
        "REPLICAOF 127.0.0.1 1",
        "GET another",
        "DEL another",
        "PUBLISH another it",
    ],
)
def test_a_host_is_refused_by_the_broker(attacked: Attacked, attack: str) -> None:
    with pytest.raises(redis.exceptions.NoPermissionError):
        attacked.broker.execute_command(*attack.split(" "))  # type: ignore[no-untyped-call]


def test_keys_end_at_once_and_are_made_anew(lab: Home, server: Server) -> None:
    old = keys(lab.settings, THERE)
    with signed_in(old["database_url"]) as engine, engine.connect() as session:
        new = keys(lab.settings, THERE)
        with pytest.raises(sa.exc.OperationalError):
            session.execute(sa.text("SELECT 1"))
    with pytest.raises(UserError, match="password authentication failed"):
        app_engine(old["database_url"])
    with signed_in(new["database_url"]):
        pass
    with redis.Redis.from_url(new["broker_url"]) as client, redis.Redis.from_url(old["broker_url"]) as former:
        assert client.ping()
        with pytest.raises(redis.exceptions.AuthenticationError):
            former.ping()
        with signed_in(new["database_url"]) as engine, engine.connect() as session:
            revoke(lab.settings, THERE, actor=ADMIN)
            with pytest.raises(sa.exc.OperationalError):
                session.execute(sa.text("SELECT 1"))
        with pytest.raises(redis.exceptions.RedisError):
            client.ping()
    with pytest.raises(UserError, match="password authentication failed"):
        app_engine(new["database_url"])
    with server.administration() as admin:
        assert admin.scalars(sa.text("SELECT rolname FROM pg_roles WHERE rolname LIKE '%elsewhere'")).all() == []
    with pytest.raises(UserError, match="elsewhere has no keys"):
        revoke(lab.settings, THERE, actor=ADMIN)


def test_a_migration_gives_hosts_exactly_the_declared_rights(lab: Home) -> None:
    its = keys(lab.settings, THERE)
    with lab.database.begin() as connection:
        connection.execute(sa.text(f'GRANT ALL ON users TO "{lab.database.url.database}_workers"'))
    migrate_app(lab.settings.app_database_url)
    with signed_in(its["database_url"]) as engine, engine.connect() as connection:
        read = sa.text("SELECT password_hash FROM users")
        with pytest.raises(sa.exc.ProgrammingError, match="permission denied for table users"):
            connection.execute(read)


def test_certificates_are_checked_by_url_for_database_and_broker(
    lab: Home, server: Server, broker: Broker, tmp_path: Path
) -> None:
    authority, another = Authority(tmp_path / "authority"), Authority(tmp_path / "another")
    socket_file, broker_port = f"{server.socket_folder}/.s.PGSQL.5432", sa.make_url(broker.url).port or 0
    with door(authority, socket_file) as database_port, door(authority, broker_port) as tls_port:
        by_tls = sa.make_url(lab.settings.app_database_url).difference_update_query(["host"])
        by_tls = by_tls.set(host="127.0.0.1", port=database_port).update_query_dict({"sslmode": "require"})
        changes = {"database_url": by_tls.render_as_string(hide_password=False)}
        changes["broker_url"] = f"rediss://127.0.0.1:{tls_port}/0?ssl_cert_reqs=none&ssl_check_hostname=false"
        settings = lab.settings.model_copy(update=changes)
        text, remarks = enroll(settings, THERE, Way("localhost", authority.file), actor=ADMIN)
        assert remarks == []
        database_url, broker_url = (line.partition("=")[2] for line in text.splitlines()[1:])
        assert "sslmode=verify-full" in database_url
        with signed_in(database_url) as engine, engine.connect() as connection:
            assert connection.scalar(sa.text("SELECT session_user")) == sa.make_url(database_url).username
        assert greets(broker_url) == ""
        for right, wrong in (("@localhost", "@127.0.0.1"), ("authority", "another")):
            with pytest.raises(UserError, match="certificate"):
                app_engine(database_url.replace(right, wrong))
            assert "CERTIFICATE_VERIFY_FAILED" in greets(broker_url.replace(right, wrong))
        assert another.file.is_file()
        plain = Settings(broker_url=broker_url.partition("?")[0]).own_broker_url
        assert "CERTIFICATE_VERIFY_FAILED" in greets(str(plain))  # by the host's own list of authorities


def greets(url: str) -> str:
    """Return why Celery cannot reach a broker, after redis agreed; empty if both can."""
    with celery.Celery(broker=url, set_as_current=False) as app, app.connection() as connection:
        try:
            connection.ensure_connection(max_retries=1, interval_start=0)
        except kombu.exceptions.OperationalError as refused:
            assert not answers(url)
            return str(refused)
    assert answers(url, within_s=600.0)
    return ""


@pytest.mark.parametrize(
    ("host", "changes", "sentence"),
    [
        ("w 1", {}, "is no host's name"),
        ("w" * 50, {}, "letters at most"),
        ("w1", {"database_url": None}, "need a database server"),
        ("w1", {"broker_url": None}, "need a broker"),
    ],
)
def test_what_cannot_be_enrolled_is_named(lab: Home, host: str, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        enroll(lab.settings.model_copy(update=changes), host, Way(), actor=ADMIN)


def test_who_may_make_no_roles_is_told_what_helps(lab: Home) -> None:
    its = lab.settings.model_copy(update={"database_url": keys(lab.settings, THERE)["database_url"]})
    for change in (lambda: enroll(its, THERE, Way(), actor=ADMIN), lambda: revoke(its, THERE, actor=ADMIN)):
        with pytest.raises(
            UserError, match=r"permission denied .*: enroll and revoke with a database user that may make"
        ):
            change()


def test_another_hosts_keys_are_refused_with_a_sentence(lab: Home) -> None:
    with pytest.raises(SettingsError, match=f"the keys of {THERE}, and this host is"):
        Worker(lab.settings.model_copy(update=keys(lab.settings, THERE)))
