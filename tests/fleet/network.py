"""The links between hosts and services, each of which can be cut by itself.

Where the machine allows it each host has a network namespace of its own, and a cut link loses packets, as behind a
router. Elsewhere a host reaches a service through a forwarder of its own, and a cut one passes nothing on.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import itertools
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator, Sequence
from typing import Protocol, Self

SERVICES = ("database", "broker", "store")
_NEW_NETWORK = 0x40000000  # CLONE_NEWNET
_numbers = itertools.count()


class Network(Protocol):
    """Hosts and the services that they reach."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def address(self, service: str) -> str:
        """Return the address on which a service has to listen."""

    def way(self, host: str, service: str, port: int) -> tuple[str, int]:
        """Return address and port by which a host reaches the service that listens on this port."""

    def inside(self, host: str) -> contextlib.AbstractContextManager[None]:
        """Open connections, and start processes, as on the host."""

    def cut(self, host: str, service: str) -> None: ...

    def mend(self, host: str, service: str) -> None: ...


def new_network(hosts: Sequence[str]) -> Network:
    return Namespaces(hosts) if may_make_namespaces() else Forwarders(hosts)


def may_make_namespaces() -> bool:
    """Return whether this process may make them, and a switch and cables in one."""
    trial = f"drafthouse-{os.getpid()}"
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    try:
        _ip("netns", "add", trial)
    except subprocess.CalledProcessError:
        return False
    try:
        _ip("-n", trial, "link", "add", "switch", "type", "bridge")
        _ip("-n", trial, "link", "add", "cable", "type", "veth", "peer", "name", "end")
    except subprocess.CalledProcessError:
        return False
    finally:
        _ip("netns", "del", trial)
    return True


class Namespaces:
    """Hosts and services in network namespaces without a way out. Services run in that of the calling thread."""

    def __init__(self, hosts: Sequence[str]) -> None:
        self._hosts, self._id = hosts, f"drafthouse-{os.getpid()}-{next(_numbers)}"
        self._names = ("services", *hosts)

    def __enter__(self) -> Self:
        self._before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        for name in self._names:
            _ip("netns", "add", self._of(name))
            _ip("-n", self._of(name), "link", "set", "lo", "up")
        _enter_file(f"/run/netns/{self._of('services')}")
        for number, service in enumerate(SERVICES):
            fixed = f"02:00:00:00:00:0{number}"  # else it changes with each port
            _ip("link", "add", service, "address", fixed, "type", "bridge")
            _ip("addr", "add", f"{self.address(service)}/24", "dev", service)
            _ip("link", "set", service, "up")
            for place, host in enumerate(self._hosts, 11):
                self._join(host, service, place)
        return self

    def __exit__(self, *_: object) -> None:
        _enter(self._before)
        os.close(self._before)
        for name in self._names:
            _ip("netns", "del", self._of(name))

    def address(self, service: str) -> str:
        return f"10.77.{1 + SERVICES.index(service)}.1"

    def way(self, host: str, service: str, port: int) -> tuple[str, int]:  # noqa: ARG002 - it is the same for all
        return self.address(service), port

    @contextlib.contextmanager
    def inside(self, host: str) -> Iterator[None]:
        _enter_file(f"/run/netns/{self._of(host)}")
        try:
            yield
        finally:
            _enter_file(f"/run/netns/{self._of('services')}")

    def cut(self, host: str, service: str) -> None:
        _ip("link", "set", self._port(host, service), "nomaster")

    def mend(self, host: str, service: str) -> None:
        _ip("link", "set", self._port(host, service), "master", service)

    def _join(self, host: str, service: str, place: int) -> None:
        """Plug the host's cable into the service's switch. Neighbours are known for ever: a cut link answers nothing,
        not even that there is no way.
        """
        port, there = self._port(host, service), self._of(host)
        own = self.address(service).removesuffix("1") + str(place)
        _ip("link", "add", port, "type", "veth", "peer", "name", service, "netns", there)
        _ip("link", "set", port, "master", service, "up")
        _ip("-n", there, "addr", "add", f"{own}/24", "dev", service)
        _ip("-n", there, "link", "set", service, "up")
        known = ("dev", service, "nud", "permanent", "lladdr")
        _ip("-n", there, "neigh", "replace", self.address(service), *known, _ethernet(service))
        _ip("neigh", "replace", own, *known, _ethernet(service, "-n", there))

    def _of(self, name: str) -> str:
        return f"{self._id}-{name}"

    def _port(self, host: str, service: str) -> str:
        return f"{host}-{SERVICES.index(service)}"


class Forwarders:
    """Hosts on one loopback address: each link is a forwarder of its own."""

    def __init__(self, _hosts: Sequence[str]) -> None:
        self._runner = asyncio.Runner()
        self._loop, self._over = self._runner.get_loop(), asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="links")
        self._servers: list[asyncio.Server] = []
        self._ports: dict[tuple[str, str], int] = {}
        self._up: dict[tuple[str, str], asyncio.Event] = {}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    def _run(self) -> None:
        with self._runner:
            self._runner.run(self._over.wait())
            for server in self._servers:
                server.close()

    def address(self, service: str) -> str:  # noqa: ARG002 - all are on one
        return "127.0.0.1"

    def way(self, host: str, service: str, port: int) -> tuple[str, int]:
        if (host, service) not in self._ports:
            serving = asyncio.run_coroutine_threadsafe(self._serve(host, service, port), self._loop)
            self._ports[host, service] = serving.result()
        return "127.0.0.1", self._ports[host, service]

    def inside(self, host: str) -> contextlib.AbstractContextManager[None]:  # noqa: ARG002 - likewise
        return contextlib.nullcontext()

    def cut(self, host: str, service: str) -> None:
        self._loop.call_soon_threadsafe(self._up[host, service].clear)

    def mend(self, host: str, service: str) -> None:
        self._loop.call_soon_threadsafe(self._up[host, service].set)

    async def _serve(self, host: str, service: str, port: int) -> int:
        is_up = self._up[host, service] = asyncio.Event()
        is_up.set()

        async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError), contextlib.closing(writer):
                while data := await reader.read(65536):
                    await is_up.wait()
                    writer.write(data)
                    await writer.drain()
                await is_up.wait()

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await is_up.wait()
            with contextlib.suppress(OSError), contextlib.closing(writer):
                there, to = await asyncio.open_connection("127.0.0.1", port)
                await asyncio.gather(pass_on(reader, to), pass_on(there, writer))

        self._servers.append(server := await asyncio.start_server(connected, "127.0.0.1", 0))
        return int(server.sockets[0].getsockname()[1])


def _ip(*arguments: str) -> str:
    return subprocess.run(("ip", *arguments), check=True, capture_output=True, text=True).stdout


def _ethernet(device: str, *where: str) -> str:
    return _ip(*where, "-o", "link", "show", "dev", device).partition("link/ether ")[2].split(" ", 1)[0]


def _enter_file(namespace: str) -> None:
    descriptor = os.open(namespace, os.O_RDONLY)
    try:
        _enter(descriptor)
    finally:
        os.close(descriptor)


def _enter(descriptor: int) -> None:
    """Move this thread, and what it starts, into a network namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, _NEW_NETWORK) != 0:
        raise OSError(ctypes.get_errno(), "setns")
