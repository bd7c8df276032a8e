"""The commands that the README shows do what it says."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.services.homes import REPOSITORY, Home

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]

README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
COMMANDS = [
    line
    for block in re.findall(r"```\n(.*?)```", README, re.DOTALL)
    for line in block.splitlines()
    if line.startswith(".venv/bin/") and "submit study.toml" not in line
]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_readme_runs(home: Home, tmp_path: Path, command: str) -> None:
    (tmp_path / "var").symlink_to(home.folder)
    (tmp_path / ".venv").symlink_to(REPOSITORY / ".venv")
    answer = subprocess.run(
        ("bash", "-c", command), cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert answer.returncode == 0, answer.stderr


def test_there_are_commands_to_try() -> None:
    assert len(COMMANDS) >= 2
