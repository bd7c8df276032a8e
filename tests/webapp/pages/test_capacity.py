"""Compare and Cost of a study that only searches for capacities."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from host.settings import Settings
from tests.warehouse.trials import CARRIED, write_search
from tests.webapp.conftest import OpenPage, using_home
from tests.webapp.homes import make_home
from tests.webapp.page_text import words
from warehouse.ingest.service import ingest_all


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    settings = make_home(tmp_path_factory.mktemp("searched"))
    write_search(settings.bundles)
    ingest_all(settings)
    return settings


@pytest.fixture
def settings(measured: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    with using_home(measured, monkeypatch):
        yield measured


@pytest.mark.usefixtures("settings")
@pytest.mark.parametrize("page", ["compare", "cost"])
def test_a_page_shows_what_each_arm_carries(open_page: OpenPage, page: str) -> None:
    app = open_page(page)
    assert not app.exception
    text = words(app)
    assert "Capacity within the SLO" in text
    assert "at least 0.95 of the requests meet the SLO" in text
    assert all(arm in text for arm in CARRIED)


@pytest.mark.usefixtures("settings")
@pytest.mark.parametrize("page", ["results", "explore", "home", "run", "deploy"])
def test_the_other_pages_open(open_page: OpenPage, page: str) -> None:
    assert not open_page(page).exception
