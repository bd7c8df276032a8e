"""Prompts, outputs and results are for the lab's user alone; a group may read the warehouse, and nothing else."""

from __future__ import annotations

import grp
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from host.private_files import open_to_others, write_for_engines
from host.settings import Settings
from lab.errors import SettingsError
from tests.warehouse.runs import write_run
from warehouse.ingest.service import ingest_all
from warehouse.migrate import migrate


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_home_that_was_open_is_closed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o755)
    assert open_to_others(home) == "everybody on this host"
    migrate(Settings(home=home))
    assert (mode(home), open_to_others(home)) == (0o700, "")


def test_what_a_command_writes_is_for_its_user_alone(tmp_path: Path) -> None:
    home = tmp_path / "home"
    environment = os.environ | {"DRAFTHOUSE_HOME": str(home)}
    command = [sys.executable, "-m", "cli", "migrate"]
    subprocess.run(command, check=True, capture_output=True, env=environment, umask=0o022, timeout=600)
    assert {mode(path) & 0o077 for path in (home, *home.rglob("*"))} == {0}


def test_what_is_installed_for_engines_can_be_read_by_another_user(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        with write_for_engines():
            (tmp_path / "installed").touch()
        (tmp_path / "ours").touch()
    finally:
        os.umask(before)
    assert (mode(tmp_path / "installed"), mode(tmp_path / "ours")) == (0o644, 0o600)


def test_members_of_the_group_read_the_warehouse_and_list_nothing(tmp_path: Path) -> None:
    gid = os.getgid()
    settings = Settings(home=tmp_path / "home", home_group=grp.getgrgid(gid).gr_name)
    migrate(settings)
    write_run(settings.bundles)
    ingest_all(settings)
    assert (mode(settings.home), mode(settings.warehouse_file)) == (0o710, 0o640)
    assert settings.warehouse_file.stat().st_gid == gid


def test_a_group_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"home_group: .* cannot be given to the group 'nobody has this'"):
        migrate(Settings(home=tmp_path / "home", home_group="nobody has this"))
