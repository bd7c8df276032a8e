from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import streamlit as st
from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from jobs.presets import load_preset
from lab.study import Study
from tests.webapp.homes import environment, make_home
from warehouse.settings import Settings
from webapp.server import first_paint
from webapp.shared import published_data

MAIN = Path(__file__).parents[2] / "webapp" / "server" / "main.py"

DEFAULT_PAGE = "home"

OpenPage = Callable[..., AppTest]

# Each AppTest reads the metadata of all installed packages, 0.3 s of processor time: they stay the same.
manifest_scanner.scan_component_manifests = functools.cache(manifest_scanner.scan_component_manifests)


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    """A home of this test's own, and the environment that leads the pages to it."""
    made = make_home(tmp_path)
    for name, value in environment(made).items():
        monkeypatch.setenv(name, value)
    forget_everything()
    yield made
    forget_everything()


def forget_everything() -> None:
    st.cache_data.clear()
    st.cache_resource.clear()
    published_data.settings.cache_clear()


@pytest.fixture
def open_page(settings: Settings) -> OpenPage:
    """Opens a page by its file's name, with URL parameters, as a first visit does."""

    def open_(page: str, **query: str) -> AppTest:
        app = AppTest.from_file(str(MAIN), default_timeout=180)
        app.session_state[first_paint.PAGE] = "" if page == DEFAULT_PAGE else page  # no browser draws anything here
        for key, value in query.items():
            app.query_params[key] = value
        if page != DEFAULT_PAGE:
            app._page_hash = calc_hash(page)  # switch_page knows pages by their URL only after a first run
        app.run()
        assert not app.exception, app.exception
        return app

    return open_


@pytest.fixture
def demo() -> Study:
    return load_preset("demo")
