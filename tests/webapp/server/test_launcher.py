from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from lab.errors import UserError
from tests.cli.homes import REPOSITORY
from tests.webapp.homes import environment
from warehouse.settings import Settings
from webapp.__main__ import refuse_taken_port, streamlit_options


def launch(extra: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (sys.executable, "-m", "webapp"),
        cwd=REPOSITORY,
        env=os.environ | extra,
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )


def test_a_taken_port_is_refused_in_one_sentence_with_exit_code_2(settings: Settings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        ended = launch(environment(settings) | {"DRAFTHOUSE_WEB_PORT": str(port)})
    assert ended.returncode == 2
    (sentence,) = ended.stderr.splitlines()
    assert f"127.0.0.1:{port}" in sentence
    assert "DRAFTHOUSE_WEB_PORT" in sentence


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(UserError, match=r"cannot listen on 203\.0\.113\.7:8501"):
        refuse_taken_port("203.0.113.7", 8501)


def test_a_setting_that_does_not_exist_is_refused_before_anything_starts() -> None:
    ended = launch({"DRAFTHOUSE_WEBPORT": "1"})
    assert ended.returncode == 2
    assert "DRAFTHOUSE_WEBPORT: no such setting" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_an_unknown_workaround_is_refused_before_anything_starts() -> None:
    ended = launch({"DRAFTHOUSE_WEB_WORKAROUNDS": "script_lock,gc"})
    assert ended.returncode == 2
    assert "DRAFTHOUSE_WEB_WORKAROUNDS (or web_workarounds in drafthouse.toml) has 'gc'" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_only_names_of_this_machine_are_answered_unless_the_page_listens_everywhere(tmp_path: Path) -> None:
    local = streamlit_options("127.0.0.1", 8501)["server.allowedHosts"]
    named = streamlit_options("lab.example.org", 8501)["server.allowedHosts"]
    everywhere = streamlit_options("0.0.0.0", 8501)["server.allowedHosts"]  # noqa: S104
    assert local == ["127.0.0.1", "[::1]", "localhost"]
    assert isinstance(named, list)
    assert "lab.example.org" in named
    assert everywhere == ["*"]
