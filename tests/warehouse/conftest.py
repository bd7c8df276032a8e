"""The master of a home, a small one that is published like a large one, and what is asked of the kernel."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from host.settings import Settings
from warehouse.ingest import publication
from warehouse.ingest.publication import Master


@pytest.fixture
def master(settings: Settings) -> Iterator[Master]:
    with closing(Master(settings.master_file, settings.warehouse_file)) as opened:
        yield opened


@pytest.fixture
def in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a small master be published like one whose copy would cost much."""
    monkeypatch.setattr(publication, "CHEAP_COPY_BYTES", 0)
    monkeypatch.setattr(publication, "CLONE", "--no-such-option")
    monkeypatch.setattr(publication, "OPENING_TAKES_S", 0.0)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what is synced and renamed, in order."""
    steps: list[str] = []
    sync, rename = os.fsync, Path.rename

    def synced(descriptor: int) -> None:
        steps.append(f"sync {Path(f'/proc/self/fd/{descriptor}').readlink().name}")
        sync(descriptor)

    def renamed(path: Path, target: Path) -> Path:
        steps.append(f"rename {path.name} to {target.name}")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "rename", renamed)
    return steps
