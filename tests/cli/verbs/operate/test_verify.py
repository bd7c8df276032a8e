"""`drafthouse verify`, as a person or a program types it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from services import supervisor
from tests.cli.homes import Home
from tests.workers.homes import Home as WorkersHome
from tests.workers.homes import at_work, link_reference_models, new_home

pytestmark = pytest.mark.engine


@pytest.fixture
def up(tmp_path: Path, migrated: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkersHome]:
    """A home that is up, with a worker and an ingester at work; its engine is a stand-in."""
    with new_home(tmp_path, migrated) as home, supervisor._exclusive(home.settings.home, "http://127.0.0.1"):
        link_reference_models(home)
        with home.settings.engines_file.open("a") as file:
            file.write('TAKES_ANY_FLAG = "1"\n')
        monkeypatch.setenv("DRAFTHOUSE_ENGINES_FILE", str(home.settings.engines_file))
        with at_work(home):
            yield home


def test_a_study_verifies_a_host_and_a_fault_ends_with_status_1(up: WorkersHome) -> None:
    """The stand-in repeats itself, counts no draft models' tokens and has no `bench serve`."""
    answer = Home(up.settings.home, 1).ask("verify", "--json")
    assert answer.returncode == 1, answer.stderr
    report = json.loads(answer.stdout)
    found = {finding["what"]: finding for finding in report["findings"]}
    assert (
        "12 of 12 outputs (100 %) repeat themselves in a loop." in found["engine vllm"]["found"]
    )  # and a busy machine
    assert found["telemetry"]["found"] == "not measured: no NVIDIA GPU"
    assert found["client and vllm bench serve"]["found"].startswith("not measured: ")
    wrong = {what for what, finding in found.items() if not finding["ok"]}
    assert wrong >= {"engine vllm", "vllm: draft_model", "client and vllm bench serve"}
    assert all(found[what]["remedy"] for what in wrong)
    assert found["client and a server of known pace"]["found"].count(" ms") == 3
    assert f"study {report['job_id']}, took" in (up.settings.home / "verification.md").read_text()
    assert json.loads((up.settings.home / "verification.json").read_text())["job_id"] == report["job_id"]
