"""Homes that tests share."""

from __future__ import annotations

import pytest

from tests.cli.homes import Home
from tests.cli.studied import fill


@pytest.fixture(autouse=True)
def _workers_stay(workers_stay: None) -> None:
    """However long the commands take that a test asks."""


@pytest.fixture(scope="session")
def studied(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """Its results are only read: see tests.cli.studied."""
    return fill(tmp_path_factory.mktemp("studied") / "home")
