"""A store for each test, and homes that use it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from host.settings import Settings
from tests.warehouse.store.servers import Store, moto, new_store


@pytest.fixture(scope="session")
def moto_port() -> Iterator[int]:
    with moto() as port:
        yield port


@pytest.fixture
def store(moto_port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    with new_store(moto_port, tmp_path / "proxy") as it:
        for name, value in it.variables.items():
            monkeypatch.setenv(name, value)
        yield it


@pytest.fixture
def here(store: Store, settings: Settings) -> Settings:
    """A home whose bundles are in the store."""
    return settings.model_copy(update={"bundles_url": store.url})


@pytest.fixture
def elsewhere(here: Settings, migrated: Path, tmp_path: Path) -> Settings:
    """Another host's home, with the same app database and store."""
    shutil.copytree(migrated, tmp_path / "elsewhere")
    changes = {"home": tmp_path / "elsewhere", "database_url": here.app_database_url}
    return here.model_copy(update=changes)
