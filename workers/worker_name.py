"""Who a worker is, and whether another worker of this host is still alive."""

from __future__ import annotations

import hashlib
import os
import platform
from pathlib import Path

import psutil

from workers.engine_runtime.process import is_alive


def worker_name() -> str:
    """`host/pid/place/start` of this process: never the same twice, and to be recognised as dead by its neighbours."""
    return f"{platform.node()}/{os.getpid()}/{_place()}/{psutil.Process().create_time():.2f}"


def is_dead(worker: str) -> bool:
    """Whether this worker is known to be dead. One that lives elsewhere (another container, say) never is."""
    parts = worker.split("/")
    if len(parts) != 4 or parts[0] != platform.node() or parts[2] != _place():
        return False
    return not is_alive(int(parts[1]), float(parts[3]))


def _place() -> str:
    """Where process numbers mean the same: this boot of this machine, and this container on it."""
    texts = [platform.node()]
    if (boot := Path("/proc/sys/kernel/random/boot_id")).exists():
        texts += [boot.read_text(), str(Path("/proc/self/ns/pid").readlink())]
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:8]
