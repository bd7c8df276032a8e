from __future__ import annotations

import functools
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import streamlit as st
from playwright.sync_api import Browser, Page, sync_playwright
from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from jobs.presets import load_preset
from lab.study import Study
from tests.cli.homes import REPOSITORY
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


CHROMIUM = "/usr/bin/chromium"
CHROMIUM_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
)
#: Until the page answers; imports alone take seconds on a busy machine.
START_S = 180.0


@dataclass(frozen=True)
class Server:
    """`python -m webapp` on a port and a home of its own."""

    settings: Settings
    url: str
    process: subprocess.Popen[bytes]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    settings = make_home(tmp_path_factory.mktemp("served"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    extra = environment(settings) | {"DRAFTHOUSE_WEB_PORT": str(port)}
    process = subprocess.Popen((sys.executable, "-m", "webapp"), cwd=REPOSITORY, env=os.environ | extra)
    try:
        wait_until_healthy(port, process)
        yield Server(settings, f"http://127.0.0.1:{port}", process)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(120)


def wait_until_healthy(port: int, process: subprocess.Popen[bytes]) -> None:
    """The port listens at once, and answers when the imports are through."""
    deadline = time.monotonic() + START_S
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=START_S)
        try:
            connection.request("GET", "/healthz")
            assert connection.getresponse().status == 200
        except ConnectionError:
            assert process.poll() is None, "the page ended before it answered"
            assert time.monotonic() < deadline, f"the page did not answer within {START_S:g} s"
            time.sleep(0.1)  # between two looks at a condition with a deadline
        else:
            return
        finally:
            connection.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=list(CHROMIUM_FLAGS))
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 1000})
    context.set_default_timeout(100_000)
    yield context.new_page()
    context.close()


@pytest.fixture
def demo() -> Study:
    return load_preset("demo")
