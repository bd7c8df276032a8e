"""moto, which speaks the protocol of S3 with its conditions, as a process, and the proxy before it."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from host.ports import free_port
from tests.processes import REPOSITORY


@dataclass
class Store:
    """A bucket of its own, reached through the proxy."""

    url: str
    endpoint: str
    folder: Path

    @property
    def port(self) -> int:
        return int(self.endpoint.rpartition(":")[2])

    @property
    def variables(self) -> dict[str, str]:
        """The environment in which the store is reached."""
        keys = {"AWS_ACCESS_KEY_ID": "of-the-tests", "AWS_SECRET_ACCESS_KEY": "of-the-tests", "AWS_REGION": "us-east-1"}
        return {"AWS_ENDPOINT_URL": self.endpoint, **keys}

    def behave(self, mode: str) -> None:
        """Let the proxy treat requests from now on in this way: see `proxy`."""
        (self.folder / "next").write_text(mode)
        (self.folder / "next").rename(self.folder / "mode")

    def requests(self) -> list[tuple[float, str, str, int]]:
        """Return moment, method, path and size of the pieces that the proxy passed on."""
        lines = (line.split(" ") for line in (self.folder / "requests").read_text().splitlines())
        return [(float(moment), method, path, int(size)) for moment, method, path, size in lines]


@contextlib.contextmanager
def moto() -> Iterator[int]:
    """Run the server; gives its port."""
    port = free_port()
    command = [str(Path(sys.executable).with_name("moto_server")), "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
                break
            assert process.poll() is None
            time.sleep(0.05)
        yield port
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def new_store(moto_port: int, folder: Path, address: str = "127.0.0.1") -> Iterator[Store]:
    """Make a bucket, and run a proxy before it that listens on the address."""
    bucket = f"lab-{uuid.uuid4().hex[:12]}"
    make = urllib.request.Request(f"http://127.0.0.1:{moto_port}/{bucket}", method="PUT")
    urllib.request.urlopen(make).close()  # noqa: S310 - likewise
    folder.mkdir()
    (folder / "mode").write_text("ok")
    (folder / "requests").touch()
    command = [sys.executable, "-m", "tests.warehouse.store.proxy", str(moto_port), str(folder), address]
    process = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, env=os.environ)
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        yield Store(f"s3://{bucket}/of/the/lab", f"http://{address}:{port}", folder)
    finally:
        process.kill()
        process.communicate()
