"""The files in deploy/ that place workers on other hosts: a systemd unit, a batch job, containers."""

from __future__ import annotations

import os
import platform
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.app import VERBS
from host.settings import ENVIRONMENT_PREFIX, setting_names
from tests.workers.homes import REPOSITORY, Home, until, worker_environment

DEPLOY = REPOSITORY / "deploy"
FILES = sorted(path for path in DEPLOY.iterdir() if "worker" in path.name or "page" in path.name)
OURS = {ENVIRONMENT_PREFIX + name.upper() for name in setting_names()}


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / name).read_text("utf-8")))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_file_names_only_settings_and_verbs_that_exist(path: Path) -> None:
    text = path.read_text("utf-8")
    assert set(re.findall(r"DRAFTHOUSE_[A-Z_]+", text)) <= OURS
    assert set(re.findall(r"bin/drafthouse (\w+)", text)) <= set(VERBS)


def test_containers_run_as_nobody_who_may_become_root() -> None:
    service = documents("worker.compose.yaml")[0]["services"]["worker"]
    pod = documents("kubernetes-worker.yaml")[-1]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert service["user"] == "10001:10001"
    assert pod["securityContext"]["runAsUser"] == 10001
    assert service["cap_drop"] == container["securityContext"]["capabilities"]["drop"] == ["ALL"]
    assert service["read_only"] is container["securityContext"]["readOnlyRootFilesystem"] is True
    assert service["command"] == container["args"] == ["worker"]


def test_the_pages_host_and_a_workers_share_folders_and_what_reaches_them() -> None:
    (page,), (worker,) = documents("page.compose.yaml"), documents("worker.compose.yaml")
    whole = yaml.safe_load((REPOSITORY / "compose.yaml").read_text("utf-8"))
    assert page["services"].keys() == whole["services"].keys()
    assert page["services"]["worker"]["profiles"]
    theirs, mount = worker["services"]["worker"], "${SHARED:-/shared/drafthouse}:/shared"
    for name in ("migrate", "ingester", "web"):
        ours = page["services"][name]
        folders = {variable for variable in ours["environment"] if variable.endswith("_DIR")}
        assert folders == {variable for variable in theirs["environment"] if variable.endswith("_DIR")}
        assert {variable: ours["environment"][variable] for variable in folders}.items() <= theirs[
            "environment"
        ].items()
        assert mount in ours["volumes"]
        assert mount in theirs["volumes"]
    published = {name for name, service in page["services"].items() if "ports" in service}
    assert published == {"valkey", "postgres"}
    assert all(port.startswith("${FLEET_ADDRESS:?") for name in published for port in page["services"][name]["ports"])


def test_each_file_takes_the_keys_of_one_host_and_its_name() -> None:
    """And none has a password, or another place for database and broker."""
    unit = (DEPLOY / "drafthouse-worker.service").read_text("utf-8")
    assert "\nEnvironmentFile=/etc/drafthouse/keys.env\n" in unit
    service = documents("worker.compose.yaml")[0]["services"]["worker"]
    assert [file["path"] for file in service["env_file"]] == ["${KEYS:-/etc/drafthouse/keys.env}"]
    assert service["hostname"].startswith("${WORKER_HOST:?")
    deployment = documents("kubernetes-worker.yaml")[-1]
    pod = deployment["spec"]["template"]["spec"]
    sources = [source for each in pod["containers"][0]["envFrom"] for source in each.values()]
    assert {"name": f"drafthouse-{pod['hostname']}"} in sources
    assert deployment["spec"]["replicas"] == 1
    rented = documents("skypilot-worker.yaml")[0]
    assert rented["run"].startswith('sudo hostname "$WORKER_HOST"\n')
    assert rented["envs"] == dict.fromkeys(rented["envs"])  # all are given with the launch
    for path in FILES:
        if "worker" in path.name:
            assert "PASSWORD" not in path.read_text("utf-8")


def test_a_pod_gets_whole_processors_for_itself() -> None:
    resources = documents("kubernetes-worker.yaml")[-1]["spec"]["template"]["spec"]["containers"][0]["resources"]
    assert resources["requests"] == resources["limits"]
    assert resources["limits"]["cpu"].isdigit()


def test_a_batch_job_takes_every_variable_as_the_other_files_do(tmp_path: Path) -> None:
    program = tmp_path / ".venv" / "bin" / "drafthouse"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\necho "$DRAFTHOUSE_SECRET_OPENAI_2 $https_proxy $DRAFTHOUSE_BUNDLES_DIR"\n')
    program.chmod(0o700)
    variables = tmp_path / "worker.env"  # without an end of its last line
    variables.write_text("# none=1\nDRAFTHOUSE_SECRET_OPENAI_2=a&b\nhttps_proxy=c\nDRAFTHOUSE_BUNDLES_DIR=/d")
    place = {"CLONE": str(tmp_path), "WORKER_ENV": str(variables), "KEYS": str(tmp_path)}
    batch = ("bash", str(DEPLOY / "worker.sbatch"))
    plain = {"PATH": os.environ["PATH"], "SLURM_TMPDIR": str(tmp_path / "node")}
    assert subprocess.check_output(batch, env=plain | place, text=True) == "a&b c /d\n"


def test_a_batch_job_measures_and_ends_when_told_that_its_time_is_over(woken_home: Home, tmp_path: Path) -> None:
    variables = worker_environment(woken_home)
    variables |= {"DRAFTHOUSE_BUNDLES_DIR": str(woken_home.settings.bundles)}
    variables |= {"DRAFTHOUSE_DATABASE_URL": woken_home.settings.app_database_url}
    ours = {name: value for name, value in variables.items() if name.startswith("DRAFTHOUSE_")}
    del ours["DRAFTHOUSE_HOME"]  # a node has one of its own
    keys = tmp_path / f"{platform.node()}.env"
    keys.touch(0o600)
    keys.write_text(f"DRAFTHOUSE_DATABASE_URL={ours.pop('DRAFTHOUSE_DATABASE_URL')}\n")
    lines = [f"{name}={value}" for name, value in ours.items()]
    (tmp_path / "worker.env").write_text(
        "\n".join(["# A comment, and a value that would be a program", "OTHER=a&false", *lines, ""])
    )
    node = tmp_path / "node"
    place = {"CLONE": str(REPOSITORY), "WORKER_ENV": str(tmp_path / "worker.env"), "KEYS": str(tmp_path)}
    plain = {name: value for name, value in os.environ.items() if not name.startswith("DRAFTHOUSE_")}
    plain |= {"HOME_OF_TEST": str(woken_home.folder), "SLURM_TMPDIR": str(node)} | place
    job_id = woken_home.submit(arms=[{"name": "plain"}], loads=[{"max_concurrency": 1, "num_prompts": 4}])
    with (tmp_path / "log").open("wb") as log:
        batch = subprocess.Popen(
            ("bash", str(DEPLOY / "worker.sbatch")), env=plain, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            until(lambda: woken_home.job(job_id).state == "done" or batch.poll() is not None, "it is measured")
            batch.send_signal(signal.SIGTERM)
            assert batch.wait(timeout=600) == 0
        finally:
            batch.kill()
    assert "Warm shutdown" in (tmp_path / "log").read_text()
    assert node.stat().st_mode & 0o077 == 0
