from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from access.web.hosts import refuse_taken_port
from host.settings import Settings
from lab.errors import UserError
from tests.cli.homes import REPOSITORY
from tests.webapp.homes import environment
from webapp.__main__ import streamlit_options

#: Every address of this machine.
ANY = "0.0.0.0"  # noqa: S104 - refused in every test here


def launch(extra: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (sys.executable, "-m", "webapp"),
        cwd=REPOSITORY,
        env=os.environ | extra,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
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


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"WEB_HOST": ANY}, "without a login"),
        ({"WEB_HOST": ANY, "WEB_LOGIN": "accounts"}, "set DRAFTHOUSE_WEB_PUBLIC_HOSTS"),
    ],
)
def test_a_page_open_to_the_network_is_refused_before_anything_starts(
    settings: Settings, variables: dict[str, str], words: str
) -> None:
    ended = launch(environment(settings) | {f"DRAFTHOUSE_{name}": value for name, value in variables.items()})
    assert ended.returncode == 2
    (sentence,) = ended.stderr.splitlines()
    assert words in sentence


def test_streamlit_knows_the_names_that_the_guard_answers_to() -> None:
    options = streamlit_options(Settings(web_host="::", web_login="accounts", web_public_hosts="lab.org, gpu:8443"))
    assert options["server.allowedHosts"] == ["gpu", "lab.org"]
    assert options["server.corsAllowedOrigins"] == [
        "http://gpu:8443",
        "http://lab.org",
        "https://gpu:8443",
        "https://lab.org",
    ]
