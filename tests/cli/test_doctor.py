"""What `drafthouse doctor` finds, and what it says to do."""

from __future__ import annotations

from pathlib import Path

from jobs.access import accounts
from lab.access import Role
from services import doctor
from services.doctor import Finding, examine
from tests.actors import ADMIN
from tests.warehouse.runs import write_run
from tests.workers.homes import Home
from warehouse.app_db.schema import jobs
from warehouse.ingest.service import ingest_all
from warehouse.settings import Settings


def findings(settings: Settings) -> dict[str, Finding]:
    return {finding.what: finding for finding in examine(settings)}


def test_an_empty_machine_is_told_what_to_do_about_each_thing(tmp_path: Path) -> None:
    engines = tmp_path / "engines.toml"
    engines.write_text('[vllm]\nkind = "vllm"\ncommand = ["{engines}/vllm/bin/vllm", "serve"]\n')
    by_subject = findings(Settings(home=tmp_path / "home", engines_dir=tmp_path / "none", engines_file=engines))
    missing = {subject: finding.remedy for subject, finding in by_subject.items() if not finding.ok}
    assert missing.keys() >= {"home", "app database", "warehouse", "engine vllm", "broker", "services"}
    assert missing["home"] == "drafthouse migrate"
    assert "make engine-vllm" in missing["engine vllm"]
    assert all(missing.values())


def test_a_broker_that_is_away_is_no_obstacle_to_jobs(tmp_path: Path) -> None:
    broker = doctor._broker("redis://127.0.0.1:1/0")
    assert (broker.ok, broker.remedy) == (False, "drafthouse up, or set DRAFTHOUSE_BROKER_URL")
    assert broker.found == "no answer: workers that run start queued jobs all the same, two seconds later"


def test_jobs_and_bundles_that_cannot_be_read_are_named(home: Home) -> None:
    settings = home.settings
    assert doctor._jobs(settings.app_database_url) == doctor._bundles(settings.warehouse_file) == []
    job_id = home.submit()
    with home.database.begin() as connection:
        connection.execute(jobs.update().values(study_json="{}"))
    for number in range(7):
        (write_run(settings.bundles, run_id=f"run-{number}") / "run.json").write_text("{}")
    ingest_all(settings)
    (unreadable,) = doctor._jobs(settings.app_database_url)
    assert (unreadable.what, unreadable.ok) == ("jobs", False)
    assert unreadable.found.startswith(f"job {job_id} cannot be read by this Drafthouse (ValidationError: ")
    assert "drafthouse cancel JOB" in unreadable.remedy
    (rejected,) = doctor._bundles(settings.warehouse_file)
    assert (rejected.what, rejected.ok) == ("bundles", False)
    assert rejected.found.startswith("set aside: job-1/run-0: ")
    assert rejected.found.endswith("; and 2 more")


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


def test_who_may_open_the_page_is_said_and_what_is_missing_for_it(home: Home) -> None:
    settings = home.settings
    assert doctor._login(settings).found.startswith("nobody is asked who they are: every user of this machine")
    with_accounts = settings.model_copy(update={"web_login": "accounts"})
    assert doctor._login(with_accounts).remedy == "drafthouse user add NAME --role administrator"
    accounts.add_user(home.database, "ada", Role.ADMINISTRATOR, actor=ADMIN)
    assert doctor._login(with_accounts) == Finding("login", ok=True, found="accounts; users who may sign in: 1")
    accounts.disable(home.database, "ada", actor=ADMIN)
    assert not doctor._login(with_accounts).ok
    is_open = doctor._login(settings.model_copy(update={"web_host": "gpu01"}))
    assert (is_open.ok, "set DRAFTHOUSE_WEB_LOGIN=accounts" in is_open.remedy) == (False, True)
