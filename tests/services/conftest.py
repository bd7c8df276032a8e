"""Homes that tests share."""

from __future__ import annotations

import pytest

from tests.services.homes import Home
from tests.services.studied import fill


@pytest.fixture(scope="session")
def studied(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """Its results are only read: see tests.services.studied."""
    return fill(tmp_path_factory.mktemp("studied") / "home")
