"""What `drafthouse doctor` finds, and what it says to do."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any

import pytest

from access import accounts
from host import quiet
from host.settings import Settings
from jobs.fleet import hosts, leases
from jobs.fleet.worker_registry import record, register_worker
from jobs.host_report import Finding
from jobs.policy import policy_file
from lab.roles import Role
from services import doctor
from services.doctor import examine
from tests.actors import ADMIN
from tests.answering import EMPTY, answering
from tests.warehouse.runs import write_run
from tests.workers.homes import Home
from tests.workers.valkey import Broker
from warehouse.app_db.schema import jobs
from warehouse.bundles.uploads import prepare
from warehouse.ingest.service import ingest_all
from workers.slots import slots_here


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_ANSWERS_WITHIN_S", 600.0)


def findings(settings: Settings) -> dict[str, Finding]:
    return {finding.what: finding for finding in examine(settings)}


def test_an_empty_machine_is_told_what_to_do_about_each_thing(tmp_path: Path) -> None:
    engines = tmp_path / "engines.toml"
    engines.write_text('[vllm]\nkind = "vllm"\ncommand = ["{engines}/vllm/bin/vllm", "serve"]\n')
    by_subject = findings(Settings(home=tmp_path / "home", engines_dir=tmp_path / "none", engines_file=engines))
    missing = {subject: finding.remedy for subject, finding in by_subject.items() if not finding.ok}
    assert missing.keys() >= {"home", "app database", "warehouse", "engine vllm", "broker", "services"}
    assert missing["home"] == "drafthouse migrate"
    assert "drafthouse install" in missing["engine vllm"]
    assert all(missing.values())


def test_a_broker_that_is_away_is_no_obstacle_to_jobs(tmp_path: Path) -> None:
    broker = doctor._broker("redis://127.0.0.1:1/0")
    assert (broker.ok, broker.remedy) == (False, "drafthouse up, or set DRAFTHOUSE_BROKER_URL")
    assert broker.found == "no answer: workers that run start queued jobs all the same, two seconds later"


def test_jobs_and_bundles_that_cannot_be_read_are_named(home: Home) -> None:
    settings = home.settings
    assert [*doctor._jobs(home.database)] == doctor._bundles(settings.warehouse_file) == []
    job_id = home.submit()
    with home.database.begin() as connection:
        connection.execute(jobs.update().values(study_json="{}"))
    for number in range(7):
        (write_run(settings.bundles, run_id=f"run-{number}") / "run.json").write_text("{}")
    ingest_all(settings)
    (unreadable,) = doctor._jobs(home.database)
    assert (unreadable.what, unreadable.ok) == ("jobs", False)
    assert unreadable.found.startswith(f"job {job_id} cannot be read by this Drafthouse (ValidationError: ")
    assert "drafthouse cancel JOB" in unreadable.remedy
    (rejected,) = doctor._bundles(settings.warehouse_file)
    assert (rejected.what, rejected.ok) == ("bundles", False)
    assert rejected.found.startswith("set aside: job-1/run-0: ")
    assert rejected.found.endswith("; and 2 more")


def test_an_object_store_is_tested_and_what_waits_for_it_is_counted(
    home: Home, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert doctor._store(home.settings, home.database) == []
    stored = home.settings.model_copy(update={"bundles_url": f"file://{tmp_path / 'store'}"})
    prepare(stored)
    write_run(stored.bundles)
    (fine,) = doctor._store(stored, home.database)
    assert (fine.ok, fine.found) == (True, f"{stored.bundles_url}; 1 wait here for their upload")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "someone")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    (away,) = doctor._store(stored.model_copy(update={"bundles_url": "s3://bucket"}), home.database)
    assert not away.ok
    assert away.found.startswith("writing failed: the object store s3://bucket: PUT http://127.0.0.1:1/bucket/check/")
    assert away.remedy == "correct DRAFTHOUSE_BUNDLES, its credentials or the store"


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one processor has one slot")
def test_each_slot_is_said_with_what_its_worker_measures(home: Home) -> None:
    settings = home.settings.model_copy(update={"slots": 2, "gpus": ""})
    first, second = slots_here(settings)
    assert doctor._slots(settings, home.database).found == f"slot {first} (no worker); slot {second} (no worker)"
    for slot in (first, second):
        name, gone = f"{platform.node()}/{slot.number}", lambda _worker: False
        register_worker(
            home.database, name, host=platform.node(), hardware="H200", gpus=1, is_dead=gone, slot=str(slot)
        )
    job_id = home.submit(alone=False)
    leases.claim(home.database, f"{platform.node()}/2", 30.0)
    found = doctor._slots(settings, home.database).found
    assert found == f"slot {first} (free); slot {second} (measures {job_id}, test study)"
    record(home.database, f"{platform.node()}/1", waits_for="GPU 0 is used by python (process 17 of ada)")
    found = doctor._slots(settings, home.database).found
    assert found.startswith(f"slot {first} (waits: GPU 0 is used by python (process 17 of ada)); slot {second} (meas")


def test_a_worker_of_the_whole_host_that_waits_says_so(home: Home) -> None:
    name, gone = f"{platform.node()}/1", lambda _worker: False
    register_worker(home.database, name, host=platform.node(), hardware="H200", gpus=1, is_dead=gone)
    assert "(" not in doctor._slots(home.settings, home.database).found
    record(home.database, name, waits_for="GPU 0 is used by python (process 17 of ada)")
    assert doctor._slots(home.settings, home.database).found.endswith(
        " (waits: GPU 0 is used by python (process 17 of ada))"
    )


def test_a_host_of_workers_alone_is_examined_for_what_it_does(home: Home, broker: Broker) -> None:
    (home.settings.home / "master.duckdb").unlink()
    elsewhere = {"database_url": "postgresql+psycopg://lab@db/lab", "broker_url": broker.url}
    settings, there = home.settings.model_copy(update=elsewhere), Finding("app database", ok=True, found="db/lab")
    hosts.record_failure(home.database, "another", "no disk")
    hosts.record_failure(home.database, "another", "no disk")
    hosts.record_failure(home.database, "another", "no disk")
    home.submit()  # which no worker can start: the page's host says so
    home.settings.engines_file.write_text(f'[mine]\nkind = "sglang"\ncommand = ["{sys.executable}"]\n')

    def missing() -> dict[str, str]:
        found = doctor._findings(settings, home.database, there)
        assert not {"warehouse", "services", "login", "reference models"} & {finding.what for finding in found}
        return {finding.what: finding.remedy for finding in found if not finding.ok}

    settings.home.chmod(0o700)
    assert missing() == {"worker": "drafthouse worker; its log says why if it has ended"}
    register_worker(
        home.database, "1", host=platform.node(), hardware="H200", gpus=1, is_dead=lambda _worker: False, slot=None
    )
    assert missing() == {}
    settings.home.chmod(0o755)
    settings = settings.model_copy(update={"least_free_mib": 2**40})
    assert missing().keys() == {"home", "folder of bundles"}
    assert (
        f"everybody on this host can read prompts, outputs and results: chmod 700 {settings.home}" in missing()["home"]
    )


def test_the_pages_host_needs_ingester_and_page_and_no_engine(home: Home) -> None:
    with answering(lambda _path: EMPTY) as (url, _):
        changes = {"workers_elsewhere": True, "web_port": int(url.rpartition(":")[2])}
        settings = home.settings.model_copy(update=changes)
        found = {finding.what for finding in doctor._findings(settings, home.database, Finding("x", ok=True, found=""))}
        assert not {"gpu", "slots", "engine absent", "user of engines", "reference models", "worker"} & found
        assert {"warehouse", "services", "login"} <= found
        down = doctor._services(settings)
        assert (down.found, down.remedy) == ("not running in this home: ingester", "drafthouse ingester")
        with quiet.announced(settings.home, "ingester", "runs"):
            assert doctor._services(settings) == Finding(
                "services", ok=True, found=f"ingester, and page at {settings.page_url}"
            )
    assert doctor._services(settings).remedy == "drafthouse web and drafthouse ingester"


def test_every_engine_of_engines_toml_is_looked_at(tmp_path: Path) -> None:
    engines = tmp_path / "engines.toml"
    engines.write_text('[mine]\nkind = "sglang"\ncommand = ["/nowhere/python"]\n[broken]\nkind = "sglang"\n')
    (finding,) = [
        f for f in findings(Settings(home=tmp_path, engines_file=engines)).values() if f.what.startswith("engine")
    ]
    assert not finding.ok
    assert "broken" in finding.found
    engines.write_text('[mine]\nkind = "sglang"\ncommand = ["/nowhere/python"]\n')
    mine = findings(Settings(home=tmp_path, engines_file=engines))["engine mine"]
    assert not mine.ok
    assert "/nowhere/python" in mine.found


@pytest.mark.parametrize(("version", "lacks"), [("0.28.0", True), ("0.32.0", False)])
def test_a_flag_that_an_engine_is_started_without_is_named(home: Home, version: str, *, lacks: bool) -> None:
    table = f'[vllm]\nkind = "vllm"\ncommand = ["/bin/sh"]\nversion_command = ["echo", "{version}"]\n'
    home.settings.engines_file.write_text(table)
    found = findings(home.settings)["engine vllm"].found
    assert ("no --per-request-spec-decode-metrics (since 0.29.0): not passed: the acceptance" in found) is lacks


def test_doctor_says_who_may_open_the_page_and_what_is_missing(home: Home) -> None:
    settings = home.settings
    assert doctor._login(settings, home.database).found.startswith(
        "nobody is asked who they are: every user of this machine"
    )
    with_accounts = settings.model_copy(update={"web_login": "accounts"})
    assert doctor._login(with_accounts, home.database).remedy == "drafthouse user add NAME --role administrator"
    accounts.add_user(home.database, "ada", Role.ADMINISTRATOR, actor=ADMIN)
    assert doctor._login(with_accounts, home.database) == Finding(
        "login", ok=True, found="accounts; users who may sign in: 1"
    )
    accounts.disable(home.database, "ada", actor=ADMIN)
    assert not doctor._login(with_accounts, home.database).ok
    is_open = doctor._login(settings.model_copy(update={"web_host": "gpu01"}), home.database)
    assert (is_open.ok, "set DRAFTHOUSE_WEB_LOGIN=accounts" in is_open.remedy) == (False, True)


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({}, "on this machine alone"),
        ({"web_host": "::", "web_public_hosts": "localhost,127.0.0.1:8501"}, "on this machine alone"),
        ({"web_host": "gpu01", "web_https": True, "web_proxies": "10.0.0.1"}, "https, by a proxy at 10.0.0.1"),
        ({"web_host": "gpu01"}, ""),
        ({"web_host": "::", "web_public_hosts": "localhost,gpu01:8501"}, ""),
        ({"web_public_hosts": "gpu01"}, ""),
    ],
)
def test_a_way_that_others_can_read_is_open(home: Home, settings: dict[str, Any], found: str) -> None:
    way = doctor._way(home.settings.model_copy(update=settings))
    said = found or "http: whoever is between a browser and gpu01 reads passwords, tokens and pages"
    assert (way.ok, way.found, "deploy/nginx.conf" in way.remedy) == (bool(found), said, not found)


def test_a_proxy_that_is_not_believed_makes_all_visitors_one(home: Home) -> None:
    way = doctor._way(home.settings.model_copy(update={"web_https": True}))
    assert (way.ok, "all visitors are one" in way.found) == (False, True)
    assert "set DRAFTHOUSE_WEB_PROXIES" in way.remedy


def test_doctor_says_what_studies_may_reach_and_names_an_unreadable_policy(home: Home) -> None:
    one_person = (
        "models: any; datasets: any; servers: any; code of models: nobody; links without a login: up to 90 days"
    )
    assert doctor._policy(home.settings) == Finding("policy", ok=True, found=one_person)
    shared = home.settings.model_copy(update={"web_login": "accounts", "web_share_days": 0})
    file = policy_file(shared)
    file.write_text('model_folders = ["/models"]\nremote_code = ["administrator"]\n', encoding="utf-8")
    assert doctor._policy(shared).found == (
        "models: /models; datasets: this lab alone; servers: this lab alone; code of models: administrator; "
        "links without a login: none"
    )
    file.write_text("[", encoding="utf-8")
    broken = doctor._policy(shared)
    assert (broken.ok, f"{file.absolute()} cannot be read" in broken.found) == (False, True)
