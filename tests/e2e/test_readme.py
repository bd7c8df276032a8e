"""The commands that the README shows do what it says."""

from __future__ import annotations

import re
import shlex
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.homes import REPOSITORY, Home
from tests.lab.validity.healthy import healthy
from warehouse.bundles.run_bundle import write_bundle

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]

README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
COMMANDS = [
    line
    for block in re.findall(r"^```\w*\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    for line in block.splitlines()
    if line.startswith(".venv/bin/") and "submit study.toml" not in line
]


@pytest.fixture(scope="module")
def with_demo(home: Home) -> Home:
    """The home once it has results of a study with the demo's name, which the commands ask about."""
    for drafted in (False, True):
        measured, name = healthy(drafted=drafted), "drafted" if drafted else "plain"
        changes = {"run_id": f"demo-{name}", "cell_key": name, "job_id": "demo-job", "study_name": "demo"}
        run = measured.run.model_copy(update=changes)
        write_bundle(home.folder / "bundles", run, measured.requests, measured.samples, None)
    deadline = time.monotonic() + 600
    while "demo-drafted" not in home.ask("sql", "select run_id from results where origin = 'measured'").stdout:
        assert time.monotonic() < deadline, "the ingester did not publish the bundles"
    return home


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_readme_runs(
    with_demo: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    (tmp_path / "var").symlink_to(with_demo.folder)
    monkeypatch.chdir(tmp_path)
    program, *arguments = shlex.split(command, comments=True)
    if program == ".venv/bin/drafthouse":
        answer = with_demo.ask(*arguments)
    else:
        answer = subprocess.run((REPOSITORY / program, *arguments), capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr


def test_there_are_commands_to_try() -> None:
    assert len(COMMANDS) >= 2
