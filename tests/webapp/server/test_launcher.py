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
from webapp import __main__ as launcher

#: Every address of this machine.
ANY = "0.0.0.0"  # noqa: S104 - refused in every test here


def test_a_taken_port_is_refused_in_one_sentence_with_exit_code_2(settings: Settings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        ended = subprocess.run(
            (sys.executable, "-m", "webapp"),
            cwd=REPOSITORY,
            env=os.environ | environment(settings) | {"DRAFTHOUSE_WEB_PORT": str(port)},
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
    assert ended.returncode == 2
    (sentence,) = ended.stderr.splitlines()
    assert f"127.0.0.1:{port}" in sentence
    assert "DRAFTHOUSE_WEB_PORT" in sentence


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(UserError, match=r"cannot listen on 203\.0\.113\.7:8501"):
        refuse_taken_port("203.0.113.7", 8501)


@pytest.mark.usefixtures("settings")
@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"WEBPORT": "1"}, "DRAFTHOUSE_WEBPORT: no such setting"),
        (
            {"WEB_WORKAROUNDS": "script_lock,gc"},
            "(or web_workarounds in drafthouse.toml) has 'gc': use any of script_lock, session_turns, index_html",
        ),
        ({"WEB_HOST": ANY}, "without a login"),
        ({"WEB_HOST": ANY, "WEB_LOGIN": "accounts"}, "set DRAFTHOUSE_WEB_PUBLIC_HOSTS"),
    ],
)
def test_settings_with_which_no_page_is_served_are_refused_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], variables: dict[str, str], words: str
) -> None:
    monkeypatch.setattr(launcher, "write_for_nobody_else", lambda: None)  # it is for the whole process
    for name, value in variables.items():
        monkeypatch.setenv(f"DRAFTHOUSE_{name}", value)
    assert launcher.main() == 2
    assert words in capsys.readouterr().err


def test_streamlit_knows_the_names_that_the_guard_answers_to() -> None:
    options = launcher.streamlit_options(
        Settings(web_host="::", web_login="accounts", web_public_hosts="lab.org, gpu:8443")
    )
    assert options["server.allowedHosts"] == ["gpu", "lab.org"]
    assert options["server.corsAllowedOrigins"] == [
        "http://gpu:8443",
        "http://lab.org",
        "https://gpu:8443",
        "https://lab.org",
    ]
