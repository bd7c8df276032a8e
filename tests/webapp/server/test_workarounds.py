"""Each work-around for Streamlit can be turned off, and the pages are served without any."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import streamlit
from starlette.applications import Starlette
from starlette.testclient import TestClient

from host.settings import Settings
from tests.cli.homes import REPOSITORY
from webapp.server import asgi, script_lock, workarounds

VARIABLE = "DRAFTHOUSE_WEB_WORKAROUNDS"
SERVER = f"""
import asyncio, os, sys
from streamlit.runtime.scriptrunner import script_runner
from webapp.server import asgi, workarounds
async def start(on):
    os.environ["{VARIABLE}"] = on
    workarounds.enabled.cache_clear()
    async with asgi._lifespan(None):
        print(script_runner.SafeSessionState.__name__)
        print(all("webapp.pages." + page + ".page" in sys.modules for page in asgi.PAGES))
asyncio.run(start(""))
asyncio.run(start("session_turns"))
"""


@pytest.fixture
def none_on(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(VARIABLE, "")
    workarounds.enabled.cache_clear()
    yield
    workarounds.enabled.cache_clear()


def test_all_are_on_by_default() -> None:
    assert workarounds.parse(Settings.model_fields["web_workarounds"].default) == set(workarounds.NAMES)


def test_a_server_imports_every_page_first_and_takes_turns_where_that_is_on() -> None:
    ended = subprocess.run(
        (sys.executable, "-c", SERVER), cwd=REPOSITORY, capture_output=True, text=True, check=True, timeout=600
    )
    assert ended.stdout.splitlines() == ["SafeSessionState", "True", "TurnState", "True"]


@pytest.mark.usefixtures("none_on")
def test_scripts_run_side_by_side_without_the_lock() -> None:
    beside = threading.Event()

    def script() -> None:
        with script_lock.page_turn():
            beside.set()

    with script_lock.page_turn():
        other = threading.Thread(target=script)
        other.start()
        assert beside.wait(600)
        other.join()


def test_scripts_wait_for_each_other_with_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script_lock, "PAGES", script_lock.ScriptLock(300.0))
    beside = threading.Event()

    def script() -> None:
        with script_lock.page_turn():
            beside.set()

    with script_lock.page_turn():
        other = threading.Thread(target=script)
        other.start()
        assert not beside.wait(0.2)
    assert beside.wait(600)
    other.join()


def test_pages_are_streamlits_own_where_index_html_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "/results" in {route.path for route in asgi.routes()}
    monkeypatch.setenv(VARIABLE, "script_lock")
    workarounds.enabled.cache_clear()
    try:
        assert not {"/results", "/home"} & {route.path for route in asgi.routes()}
    finally:
        workarounds.enabled.cache_clear()


def test_the_root_leads_to_the_first_page_with_its_parameters() -> None:
    root = TestClient(Starlette(routes=asgi.routes()), follow_redirects=False).get("/?job=demo")
    assert (root.status_code, root.headers["location"]) == (307, "home?job=demo")
    for former in ("advice", "tune"):  # of pages that became another
        moved = TestClient(Starlette(routes=asgi.routes()), follow_redirects=False).get(f"/{former}?job=demo")
        assert (moved.status_code, moved.headers["location"]) == (307, "deploy?job=demo")
    followed = TestClient(Starlette(routes=asgi.routes())).get("/")
    assert (followed.status_code, followed.url.path) == (200, "/home")


def test_every_page_begins_with_streamlits_own_html_and_where_the_server_is() -> None:
    pages = TestClient(Starlette(routes=asgi.page_routes()))
    for path in ("/home", "/results", "/compare"):
        answer = pages.get(path)
        assert answer.headers["cache-control"] == "no-cache"
        assert int(answer.headers["content-length"]) == len(answer.content)
        assert answer.text.index("BACKEND_BASE_URL") < answer.text.index("</head>")
        assert '<div id="root">' in answer.text


def test_a_page_names_the_scripts_of_charts_once() -> None:
    named = re.findall(r'href="\./(static/js/[^"]*)"', asgi.index_html())
    assert len(named) == len(set(named))
    assert {"ArrowVegaLiteChart", "embed", "vega-interpreter"} <= {Path(file).name.split(".")[0] for file in named}
    assert all((Path(streamlit.__file__).parent / "static" / file).is_file() for file in named)
