"""`drafthouse user`, as an administrator types it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from access import accounts, sessions
from host.settings import Settings
from tests.cli.homes import new_home
from warehouse.app_db import audit
from warehouse.app_db.engine import open_engine


def test_a_user_is_added_chooses_a_password_changes_role_and_is_disabled(tmp_path: Path) -> None:
    home = new_home(tmp_path / "home")
    added = home.ask("user", "add", "ada", "--role", "administrator").stdout
    (secret,) = re.findall(rf"^  {home.url}/login/link/(\S{{43}})$", added, re.MULTILINE)
    assert "works once within 3 days" in added
    assert "has no password yet" in home.ask("user", "list").stdout
    with open_engine(Settings(home=home.folder).app_database_url) as database:
        accounts.set_password(database, secret, "correct horse battery")
        assert sessions.sign_in(database, "ada", "correct horse battery", "here")
        assert home.ask("user", "role", "ada", "viewer").stdout == "ada is a viewer now\n"
        assert home.ask("user", "disable", "ada").stdout == "ada is disabled\n"
        (listed,) = json.loads(home.ask("user", "list", "--json").stdout)
        assert (listed["name"], listed["role"], listed["has_password"]) == ("ada", "viewer", True)
        assert listed["disabled_at"] is not None
        assert home.ask("user", "enable", "ada").stdout == "ada may sign in again\n"
        made = [(entry.via, entry.action, entry.detail) for entry in reversed(audit.newest(database, 10))]
        assert made[0] == ("command", "user.change", {"added": "administrator"})
        assert made[-2:] == [
            ("command", "user.change", {"disabled": True}),
            ("command", "user.change", {"disabled": False}),
        ]
        refused = home.ask("user", "role", "ada", "root")
        assert (refused.returncode, refused.stderr) == (
            2,
            "drafthouse: there is no role 'root': use viewer, submitter, administrator\n",
        )


def test_printed_links_begin_with_the_public_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAFTHOUSE_WEB_PUBLIC_HOSTS", "lab.example.org")
    monkeypatch.setenv("DRAFTHOUSE_WEB_HTTPS", "true")
    monkeypatch.setenv("DRAFTHOUSE_WEB_LOGIN", "accounts")
    added = new_home(tmp_path / "home").ask("user", "add", "vera").stdout
    assert added.startswith("vera is a viewer of this lab.\n")
    assert "\n  https://lab.example.org/login/link/" in added
