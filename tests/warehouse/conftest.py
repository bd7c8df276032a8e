"""A home with both databases, migrated once per session and copied for each test."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from host.settings import Settings


@pytest.fixture(scope="module")
def shared(migrated: Path, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A home that a module fills once and then only reads."""
    home = tmp_path_factory.mktemp("shared") / "home"
    shutil.copytree(migrated, home)
    return Settings(home=home)


@pytest.fixture
def settings(migrated: Path, tmp_path: Path) -> Settings:
    home = tmp_path / "home"
    shutil.copytree(migrated, home)
    return Settings(home=home, ingest_every_s=0.05)
