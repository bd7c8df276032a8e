"""Each work-around for Streamlit can be turned off, and the pages are served without any."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from host.settings import Settings
from lab.errors import SettingsError
from tests.cli.homes import REPOSITORY
from webapp.server import asgi, first_paint, script_lock, workarounds

VARIABLE = "DRAFTHOUSE_WEB_WORKAROUNDS"
#: What `prepare_process` changes of a process that listens on a port.
PROCESS = """
import gc, json, socket, sys
from webapp.server import workarounds
with socket.create_server(("127.0.0.1", 0)) as listening:
    workarounds.prepare_process(["json"], workarounds.enabled())
    no_delay = listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
print(json.dumps([bool(no_delay), sys.getswitchinterval(), gc.get_freeze_count() > 0]))
"""


@pytest.fixture
def none_on(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(VARIABLE, "")
    workarounds.enabled.cache_clear()
    yield
    workarounds.enabled.cache_clear()


def test_all_are_on_by_default() -> None:
    assert workarounds.parse(Settings.model_fields["web_workarounds"].default) == set(workarounds.NAMES)


def test_an_unknown_name_is_refused_with_those_that_exist() -> None:
    with pytest.raises(SettingsError, match=r"has 'gc': use any of script_lock, .*gc_freeze"):
        workarounds.parse("script_lock, gc")


@pytest.mark.parametrize(
    ("on", "expected"),
    [
        ("", [False, 0.005, False]),
        ("tcp_nodelay", [True, 0.005, False]),
        ("switch_interval", [False, 0.0005, False]),
        ("gc_freeze", [False, 0.005, True]),
    ],
)
def test_each_change_of_the_process_is_made_only_where_it_is_on(on: str, expected: list[object]) -> None:
    ended = subprocess.run(
        (sys.executable, "-c", PROCESS),
        cwd=REPOSITORY,
        env=os.environ | {VARIABLE: on},
        capture_output=True,
        text=True,
        check=True,
        timeout=180,
    )
    assert json.loads(ended.stdout) == expected


@pytest.mark.usefixtures("none_on")
def test_scripts_run_side_by_side_without_the_lock() -> None:
    beside = threading.Event()

    def script() -> None:
        with script_lock.page_turn():
            beside.set()

    with script_lock.page_turn():
        other = threading.Thread(target=script)
        other.start()
        assert beside.wait(60)
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
    assert beside.wait(60)
    other.join()


@pytest.mark.usefixtures("none_on")
def test_no_page_pauses_without_the_first_paint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_paint, "_DRAWING_S", 300.0)
    start_s = time.monotonic()
    assert first_paint.begin("results")
    first_paint.pause_after_figure()
    assert time.monotonic() - start_s < 300.0


def test_a_page_pauses_once_after_its_first_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_paint, "_DRAWING_S", 0.5)
    assert first_paint.begin("compare")
    start_s = time.monotonic()
    first_paint.pause_after_figure()
    assert time.monotonic() - start_s >= 0.5
    monkeypatch.setattr(first_paint, "_DRAWING_S", 300.0)
    first_paint.pause_after_figure()
    assert time.monotonic() - start_s < 300.0


def test_pages_are_streamlits_own_where_index_html_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "/results" in {route.path for route in asgi.routes()}
    monkeypatch.setenv(VARIABLE, "script_lock")
    workarounds.enabled.cache_clear()
    try:
        assert not {"/results", "/home"} & {route.path for route in asgi.routes()}
    finally:
        workarounds.enabled.cache_clear()


def test_the_root_leads_to_the_first_page_with_the_parameters_of_the_link() -> None:
    root = TestClient(Starlette(routes=asgi.routes()), follow_redirects=False).get("/?job=demo")
    assert (root.status_code, root.headers["location"]) == (307, "home?job=demo")
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
