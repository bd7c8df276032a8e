"""An app database of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from host.settings import Settings
from warehouse.app_db.engine import open_engine


@pytest.fixture
def engine(settings: Settings) -> Iterator[sa.Engine]:
    with open_engine(settings.app_database_url) as opened:
        yield opened
