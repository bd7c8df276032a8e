"""The wheel, built from this tree and used in an environment and a folder without the sources."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import sysconfig
import tomllib
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from host.ports import free_port
from services.kit import build_wheel
from tests.cli.homes import REPOSITORY
from tests.workers.homes import ENGINES_TOML

pytestmark = pytest.mark.engine

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
OURS = [
    "access",
    "cli",
    "host",
    "interchange",
    "jobs",
    "lab",
    "migrations",
    "models",
    "services",
    "warehouse",
    "webapp",
]
STUDY = """
name = "small"
target = "./model"
arms = [
  {name = "plain", baseline = true},
  {name = "n-gram", speculation = {method = "ngram", num_speculative_tokens = 3}},
]
workloads = [{dataset = "story", output_tokens = 8}]
loads = [{max_concurrency = 1, num_prompts = 3}]
"""


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel, and an empty folder in which its commands are run."""

    environment: Path
    folder: Path
    port: int

    @property
    def site_packages(self) -> Path:
        (found,) = self.environment.glob("lib/python*/site-packages")
        return found

    @property
    def variables(self) -> dict[str, str]:
        rest = {name: value for name, value in os.environ.items() if not name.startswith(("DRAFTHOUSE_", "PYTHON"))}
        ours = {"DRAFTHOUSE_WEB_PORT": str(self.port), "DRAFTHOUSE_SQL_TIMEOUT_S": "600"}
        return rest | ours | {"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"}

    def run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = (str(self.environment / "bin" / program), *arguments)
        return subprocess.run(
            command, cwd=self.folder, env=self.variables, capture_output=True, text=True, check=False, timeout=1700
        )

    def files(self) -> set[str]:
        tree = self.site_packages / "drafthouse_lab"
        return {str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file() and path.suffix != ".pyc"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The packages that it needs are those of this environment, without the clone that it has on its path."""
    folder = tmp_path_factory.mktemp("installed")
    build_wheel(folder)
    (wheel,) = folder.glob("drafthouse-*.whl")
    it = Installed(folder / "environment", folder / "empty", free_port())
    it.folder.mkdir()
    uv = str(Path(sys.executable).with_name("uv"))
    subprocess.run((uv, "venv", "--quiet", "--python", sys.executable, str(it.environment)), check=True)
    # the .pth files of a folder that is named in one are not read, so the clone's is not
    (it.site_packages / "packages.pth").write_text(sysconfig.get_path("purelib") + "\n")
    install = (uv, "pip", "install", "--quiet", "--offline", "--no-deps", "--python", str(it.environment), str(wheel))
    subprocess.run(install, check=True)
    return it


@pytest.fixture(scope="module")
def lab(installed: Installed) -> Iterator[Installed]:
    """It is up, in a folder with modules of somebody else that have the names of ours."""
    for name in ("jobs", "workers", "webapp"):
        (installed.folder / f"{name}.py").write_text("raise SystemExit('a module of the working directory')\n")
    (installed.folder / "engines.toml").write_text(ENGINES_TOML.format(folder=installed.folder))
    (installed.folder / "model").mkdir()
    (installed.folder / "model" / "config.json").write_text("{}")
    process = subprocess.Popen(
        (installed.environment / "bin" / "drafthouse", "up"),
        cwd=installed.folder,
        env=installed.variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert "Drafthouse is up" in line, line + process.stdout.read()
        yield installed
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=600)


def test_no_other_program_sees_our_rooms(installed: Installed) -> None:
    seen = "import importlib.util; print([name for name in {} if importlib.util.find_spec(name)])"
    assert installed.run("python", "-c", seen.format([*OURS, "workers"])).stdout == "[]\n"
    assert installed.run("python", "-c", seen.format(["drafthouse"])).stdout == "['drafthouse']\n"


def test_the_command_knows_the_version_of_the_project(installed: Installed) -> None:
    assert installed.run("drafthouse", "--version").stdout == f"drafthouse {PROJECT['version']}\n"


def test_the_wheel_needs_what_the_project_needs(installed: Installed) -> None:
    (metadata,) = installed.site_packages.glob("drafthouse-*.dist-info/METADATA")
    lines = metadata.read_text(encoding="utf-8").splitlines()
    needed = {line.removeprefix("Requires-Dist: ") for line in lines if line.startswith("Requires-Dist: ")}
    assert needed >= set(PROJECT["dependencies"])


def test_the_wheel_holds_every_file_of_its_folders(installed: Installed) -> None:
    listed = subprocess.run(("git", "ls-files"), cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    folders = {*OURS, "workers", "presets", "datasets", "deploy"}
    assert {name for name in listed.splitlines() if name.split("/")[0] in folders} <= installed.files()


def test_in_an_empty_folder_a_sentence_says_how_to_get_engine_and_models(installed: Installed) -> None:
    assert "6 engine starts, 36 runs" in installed.run("drafthouse", "plan", "demo").stdout
    refused = installed.run("drafthouse", "submit", "demo")
    assert (refused.returncode, "run `drafthouse install`" in refused.stderr) == (2, True)
    report = installed.run("drafthouse", "doctor").stdout
    assert str(installed.site_packages / "drafthouse_lab") in report.replace("\n", "")
    assert report.count("drafthouse install") >= 2


def test_services_pages_and_a_study_run_from_the_wheel_alone(lab: Installed) -> None:
    before = lab.files()
    (lab.folder / "study.toml").write_text(STUDY)
    answer = lab.run("drafthouse", "submit", "study.toml", "--wait")
    is_too_busy = "done, 2 of 2 runs invalid" in answer.stderr  # a machine that keeps the client waiting
    assert answer.returncode == int(is_too_busy), answer.stdout + answer.stderr
    query = "select count(*) as runs from results where origin = 'measured' and status = 'completed'"
    counted = lab.run("drafthouse", "sql", query)
    assert "2" in counted.stdout.split(), counted
    for path in ("results", "static/icon.svg", "drafthouse.py"):
        with urllib.request.urlopen(f"http://127.0.0.1:{lab.port}/{path}") as page:
            assert page.status == 200
    assert (lab.folder / "var" / "warehouse.duckdb").exists()
    assert lab.files() == before
