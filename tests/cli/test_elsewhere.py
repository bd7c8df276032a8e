"""`drafthouse --server`: verbs on a lab elsewhere say what they say on its own machine, as whoever the token is of."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli import follow, progress
from cli.app import PANELS, VERBS
from cli.elsewhere import Elsewhere, _extract_folder
from host.ports import free_port
from jobs import queue
from jobs.fleet import leases
from jobs.order import reprioritise
from jobs.presets import load_preset
from jobs.table import MAX_PRIORITY, Job
from lab.errors import UserError
from lab.roles import Role
from lab.study.parsing import study_to_toml
from tests.actors import ADMIN
from tests.answering import answering
from tests.cli.homes import Home
from tests.client.serving import Served, lab_elsewhere, serving
from tests.interchange.sample_files import SAMPLES
from tests.lab.studies import study
from tests.webapp.homes import WORKER, environment, finish, make_home
from tests.webapp.measured import measure_study
from tests.workers.homes import until
from warehouse import snapshots
from warehouse.app_db.engine import app_engine, open_engine
from warehouse.ingest.service import ingest_all

PROMPTS = "".join(f'{{"prompt": "number {number}"}}\n' for number in range(20))
LOADS = [{"max_concurrency": load, "num_prompts": 16} for load in (1, 4, 16)]
#: Asked here and from elsewhere: the answers are equal.
EQUAL = (
    ("presets",),
    ("datasets",),
    ("datasets", "--json"),
    ("plan", "demo"),
    ("plan", "demo", "--json"),
    ("jobs",),
    ("study", "list"),
    ("jobs", "--json"),
    ("logs", "measured"),
    ("compare", "measured"),
    ("compare", "measured", "--table"),
    ("compare", "measured", "--json"),
    ("acceptance", "measured"),
    ("gate", "measured", "--against", "nightly"),
    ("advise", "measured"),
    ("advise", "measured", "--json"),
    ("report", "measured"),
    ("cost", "measured", "--price-per-hour", "3.6"),
    ("prices",),
    ("prices", "--json"),
    ("checks",),
    ("sql", "select job_id, arm, count(*), avg(output_tok_per_s) from results group by all order by all"),
    ("sql", "from runs order by run_id limit 3", "--json"),
    ("published",),
    ("replicate", "friday-night-2025-12", "--reference"),
    ("tune", "tuned"),
    ("tune", "tuned", "--json"),
    ("compare", "nothing"),
    ("cancel", "nothing"),
    ("sql", "select nonsense"),
)


@dataclass(frozen=True)
class Asker:
    """Commands here and from elsewhere, with a cache of their own."""

    lab: Served
    folder: Path

    def here(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self._ask(environment(self.lab.settings), *arguments)

    def elsewhere(self, *arguments: str, role: Role = Role.VIEWER) -> subprocess.CompletedProcess[str]:
        chosen = {"DRAFTHOUSE_TOKEN": self.lab.tokens[role], "DRAFTHOUSE_SERVER": self.lab.url}
        home = {"DRAFTHOUSE_HOME": str(self.folder / "no home"), "XDG_CACHE_HOME": str(self.folder / "cache")}
        return self._ask(chosen | home, *arguments)

    def _ask(self, variables: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            return _SetByVariables(self.lab.settings.home, self.lab.settings.web_port).ask(*arguments)


class _SetByVariables(Home):
    @property
    def environment(self) -> dict[str, str]:
        return {}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with lab_elsewhere(tmp_path_factory.mktemp("elsewhere")) as it:
        measure_study(it.settings, study(name="measured", repeats=3))
        measure_study(it.settings, study(name="tuned", loads=LOADS, tune={"drafted_tokens": [1, 3]}))
        measure_study(it.settings, load_preset("friday-night", reference=True))
        yield it


@pytest.fixture
def asker(lab: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asker:
    monkeypatch.setattr(snapshots, "REST", 0)
    return Asker(lab, tmp_path)


def said(done: subprocess.CompletedProcess[str], url: str) -> tuple[int, str, str]:
    return done.returncode, done.stdout.replace(url, "URL"), done.stderr.replace("drafthouse: ", "")


def test_the_answers_are_those_of_the_labs_own_machine(asker: Asker) -> None:
    for arguments in EQUAL:
        there, here = asker.elsewhere(*arguments), asker.here(*arguments)
        assert said(there, asker.lab.url) == said(here, asker.lab.settings.public_url), arguments
        assert there.stdout or there.returncode, arguments
    assert not (asker.folder / "no home").exists()
    (copy,) = (asker.folder / "cache").rglob("*.duckdb")
    assert copy.read_bytes() == asker.lab.settings.warehouse_file.read_bytes()
    assert copy.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("verb", [*PANELS["Operate"], "demo"])
def test_what_is_for_the_labs_machine_says_so(asker: Asker, verb: str) -> None:
    refused = asker.elsewhere(verb)
    assert (refused.returncode, "is for the lab's own machine: run it there" in refused.stderr) == (2, True)


def test_every_other_verb_is_tried_here() -> None:
    tried = {arguments[0] for arguments in EQUAL} | {"submit", "retry", "priority", "import", "export", "pull"}
    assert (
        set(VERBS) - {*PANELS["Operate"], "demo", "series", "bisect"} == tried
    )  # these work on the lab's own machine alone


def test_the_option_stands_for_the_variable(asker: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAFTHOUSE_TOKEN", asker.lab.tokens[Role.VIEWER])
    chosen = {"DRAFTHOUSE_HOME": str(asker.folder / "no home")}
    assert asker._ask(chosen, "--server", asker.lab.url, "jobs").stdout == asker.here("jobs").stdout
    refused = asker._ask(chosen, "--server", "http://127.0.0.1:9", "jobs")
    assert (refused.returncode, "http://127.0.0.1:9 cannot be reached" in refused.stderr) == (2, True)
    refused = asker._ask(chosen | {"DRAFTHOUSE_TOKEN": "made-up"}, "--server", asker.lab.url, "jobs")
    assert (refused.returncode, "drafthouse token add" in refused.stderr) == (2, True)


def test_a_study_is_submitted_moved_cancelled_and_run_again(asker: Asker) -> None:
    file = asker.folder / "study.toml"
    file.write_text(study_to_toml(study(name="from elsewhere")))
    refused = asker.elsewhere("submit", str(file))
    assert (refused.returncode, "you may not submit a study" in refused.stderr) == (2, True)
    queued = json.loads(asker.elsewhere("submit", str(file), "--json", role=Role.SUBMITTER).stdout)
    job_id = queued["job_id"]
    assert queued["url"] == f"{asker.lab.url}/results?job={job_id}"
    assert asker.elsewhere("priority", job_id, "5", role=Role.SUBMITTER).returncode == 2
    moved = asker.elsewhere("priority", job_id, "5", role=Role.ADMINISTRATOR)
    assert moved.stdout == f"{job_id} has priority 5\n"
    cancelled = asker.elsewhere("cancel", "from elsewhere", role=Role.SUBMITTER)
    assert cancelled.stdout == f"{job_id}: cancel requested\n"
    again = asker.elsewhere("retry", job_id, role=Role.SUBMITTER)
    assert again.stdout == f"{job_id} is queued again\n"
    with open_engine(asker.lab.settings.app_database_url) as database:
        assert queue.job(database, job_id).submitted_by == "submitter"
        assert {event.actor for event in queue.events(database, job_id)} == {"submitter", "administrator"}


def test_a_study_that_cannot_run_is_refused_field_by_field_as_here(asker: Asker) -> None:
    file = asker.folder / "study.toml"
    file.write_text(study_to_toml(study(name="nowhere", workloads=[{"dataset": "no_such", "output_tokens": 8}])))
    there, here = asker.elsewhere("submit", str(file), role=Role.SUBMITTER), asker.here("submit", str(file))
    assert (there.returncode, there.stderr) == (2, here.stderr)
    assert "no_such" in there.stderr


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("cancelled", ": cancelled\n"),
        ("failed", ": failed\nValueError: no memory\nthe engine ended with exit status 1\n"),
    ],
)
def test_who_waits_for_a_study_that_fails_learns_its_cause(
    asker: Asker, monkeypatch: pytest.MonkeyPatch, state: str, said: str
) -> None:
    monkeypatch.setattr(follow, "_POLL_INTERVAL_S", 0.01)
    file = asker.folder / "study.toml"
    file.write_text(study_to_toml(study(name=state)))
    database, describe = app_engine(asker.lab.settings.app_database_url), progress.what_runs

    def end(job: Job) -> str:
        job_id = queue.job_id_of(database, state)
        if queue.job(database, job_id).state == "queued" and state == "cancelled":
            queue.cancel(database, job_id, actor=ADMIN)
        elif queue.job(database, job_id).state == "queued":
            reprioritise(database, job_id, MAX_PRIORITY, actor=ADMIN)
            leases.claim(database, WORKER, 3600)
            finish(asker.lab.settings, job_id, "failed", said.removeprefix(": failed").strip())
        return describe(job)

    monkeypatch.setattr(follow, "what_runs", end)
    done = asker.elsewhere("submit", str(file), "--wait", role=Role.SUBMITTER)
    database.dispose()
    assert (done.returncode, "waiting for a worker" in done.stdout) == (1, True)
    assert done.stderr.endswith(said)


def test_prices_and_datasets_are_changed_by_administrators(asker: Asker) -> None:
    price = ("prices", "add", "H200", "--per-hour", "3.6", "--source", "a list", "--from", "2026-01-01")
    assert asker.elsewhere(*price).returncode == 2
    assert asker.elsewhere(*price, role=Role.ADMINISTRATOR).stdout.endswith("H200 at 3.6 USD an hour from 2026-01-01\n")
    assert asker.elsewhere("prices").stdout == asker.here("prices").stdout
    (entry,) = json.loads(asker.elsewhere("prices", "--json").stdout)
    number = str(entry["price_id"])
    assert asker.elsewhere("prices", "withdraw", number, role=Role.ADMINISTRATOR).returncode == 0
    file = asker.folder / "mine.jsonl"
    file.write_text(PROMPTS)
    added = asker.elsewhere("datasets", "add", "mine", str(file), role=Role.ADMINISTRATOR)
    assert added.stdout.startswith("dataset mine: 20 prompts, sha256 ")
    assert asker.elsewhere("datasets", "remove", "mine", role=Role.ADMINISTRATOR).returncode == 0
    assert "no dataset is registered as 'mine'" in asker.here("datasets", "remove", "mine").stderr


def test_results_are_imported_and_a_study_is_exported_to_another_lab(asker: Asker) -> None:
    done = asker.elsewhere("import", str(SAMPLES / "vllm-bench"), "--label", "study=theirs", role=Role.SUBMITTER)
    assert (done.returncode, "The running ingester adds them" in done.stdout) == (0, True)
    ingest_all(asker.lab.settings)
    again = asker.here("import", str(SAMPLES / "vllm-bench"), "--label", "study=theirs", "--json")
    job_id = json.loads(again.stdout)["jobs"][0]
    assert not any(run["new"] for run in json.loads(again.stdout)["runs"])
    assert asker.elsewhere("export", job_id, "--to", str(asker.folder / "imported")).returncode == 0
    csv = asker.folder / "runs.csv"
    assert asker.elsewhere("export", "measured", "--to", str(csv)).returncode == 0
    folder, ours = asker.folder / "exported", asker.folder / "ours"
    assert asker.elsewhere("export", "measured", "--to", str(folder)).returncode == 0
    assert asker.here("export", "measured", "--to", str(ours)).returncode == 0
    assert contents(folder) == contents(ours)
    restored = asker.elsewhere("import", str(folder), role=Role.SUBMITTER)
    assert "0 of" in restored.stdout  # the lab measured them itself, with the same files
    assert "for the lab's own host" in asker.elsewhere("import", str(folder), "--as-measured").stderr


@pytest.mark.parametrize(
    "name", ["run-1/../../x", "run-1/..", ".", "../x", "/x", "x", "run-1", "run-1/folder/../../x", "run-1/link"]
)
def test_an_archive_with_more_than_a_runs_files_is_refused(tmp_path: Path, name: str) -> None:
    hostile = tarfile.TarInfo(name)
    if name.endswith("link"):
        hostile.type, hostile.linkname = tarfile.SYMTYPE, "/etc/hostname"
    wanted = tarfile.TarInfo("run-1/run.json")
    with archive_of(wanted, hostile) as archive, pytest.raises(UserError, match="which does not belong to a run"):
        _extract_folder(archive, "run-1", tmp_path / "to")
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()] == ["to/run-1/run.json"]


def test_an_archive_without_files_is_refused(tmp_path: Path) -> None:
    with archive_of() as archive, pytest.raises(UserError, match="the lab's archive of run run-1 is empty"):
        _extract_folder(archive, "run-1", tmp_path)


def archive_of(*members: tarfile.TarInfo) -> tarfile.TarFile:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for member in members:
            archive.addfile(member)
    content.seek(0)
    return tarfile.open(fileobj=content)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_what_is_in_the_archive_is_read_from_elsewhere_too(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with lab_elsewhere(tmp_path_factory.mktemp("archived")) as lab:
        measure_study(lab.settings, study(name="measured", repeats=2))
        asker = Asker(lab, tmp_path)
        before = asker.here("acceptance", "measured").stdout
        assert asker.here("archive", "--older-than", "0d", "--yes").returncode == 0
        (file,) = lab.settings.archive_dir.glob("*.parquet")
        for verb in ("acceptance", "compare"):
            there = asker.elsewhere(verb, "measured")
            assert (there.returncode, there.stdout) == (0, asker.here(verb, "measured").stdout)
        lab.settings.archive_dir.rename(tmp_path / "as on another machine")
        assert asker.elsewhere("acceptance", "measured").stdout == before
        (copy,) = (tmp_path / "cache").rglob("*.parquet")
        assert copy.read_bytes() == (tmp_path / "as on another machine" / file.name).read_bytes()


def test_the_warehouse_is_pulled_when_it_changed(asker: Asker) -> None:
    file = asker.folder / "warehouse.duckdb"
    assert " is new, " in asker.elsewhere("pull", "--to", str(file)).stdout
    assert file.read_bytes() == asker.lab.settings.warehouse_file.read_bytes()
    assert json.loads(asker.elsewhere("pull", asker.lab.url, "--to", str(file), "--json").stdout) == {
        "changed": False,
        "to": str(file),
        "bytes": file.stat().st_size,
    }
    assert asker.elsewhere("pull", "http://127.0.0.1:9", "--to", str(file)).returncode == 2


def test_who_waits_for_a_job_elsewhere_waits_for_its_lab_too(tmp_path: Path) -> None:
    settings, port = make_home(tmp_path), free_port()
    job_id = queue.submit(settings, study(name="long"), actor=ADMIN)
    with ThreadPoolExecutor(1) as one:
        with answering(lambda _path: (502, {}, ()), port) as (url, asked):  # as a proxy whose lab is away
            watched = one.submit(Elsewhere(url, None).watched, job_id)
            until(lambda: asked, "it was asked")
        with serving(settings, port):
            assert watched.result(600).job_id == job_id
