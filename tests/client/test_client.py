"""`drafthouse.py`, the client for notebooks, asking a real server."""

from __future__ import annotations

import ast
import hashlib
import signal
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import drafthouse
from host.ports import free_port
from jobs import queue
from lab.roles import Role
from lab.study.parsing import study_to_toml
from tests.actors import ADMIN
from tests.answering import answering
from tests.cli.homes import REPOSITORY
from tests.client.serving import Served, lab_elsewhere, serving
from tests.interchange.sample_files import SAMPLES
from tests.lab.studies import study
from tests.webapp.homes import environment, make_home
from tests.webapp.measured import measure_study
from tests.webapp.served import served
from warehouse import snapshots
from warehouse.app_db.engine import app_engine, open_engine
from warehouse.ingest.publication import Master

CLIENT = REPOSITORY / "drafthouse.py"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with lab_elsewhere(tmp_path_factory.mktemp("elsewhere")) as it:
        measure_study(it.settings, study(name="measured", repeats=2))
        yield it


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "REST", 0)


def test_it_imports_the_standard_library_alone() -> None:
    tree = ast.parse(CLIENT.read_text("utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {alias.name for node in imports if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in imports if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in names} - sys.stdlib_module_names == {"pyarrow"}
    at_the_top = {alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names}
    assert "pyarrow" not in at_the_top


def test_the_lab_hands_out_its_own_client(lab: Served, tmp_path: Path) -> None:
    bearer = {"Authorization": f"Bearer {lab.tokens[Role.VIEWER]}"}
    request = urllib.request.Request(f"{lab.url}/drafthouse.py", headers=bearer)  # noqa: S310 - our own server
    with urllib.request.urlopen(request, timeout=600) as answer:  # noqa: S310 - likewise
        assert answer.read() == CLIENT.read_bytes()
    with pytest.raises(drafthouse.LabError, match="drafthouse token add"):
        drafthouse.connect(lab.url, "made-up").open("/drafthouse.py")


def test_sql_is_a_data_frame_an_arrow_table_or_rows(lab: Served) -> None:
    client = lab.client()
    query = "SELECT arm, count(*) AS runs FROM results GROUP BY ALL ORDER BY ALL"
    frame, table = client.sql(query), client.sql(query, as_="arrow")
    assert isinstance(frame, pd.DataFrame)
    assert isinstance(table, pa.Table)
    assert client.sql(query, as_="rows") == table.to_pylist() == frame.to_dict("records")
    with pytest.warns(UserWarning, match="add a limit or aggregate"):
        assert len(client.sql("FROM results", max_rows=1)) == 1
    with pytest.raises(drafthouse.LabError, match="no_such_table"):
        client.sql("FROM no_such_table")


def test_results_are_those_of_a_study_or_of_all(lab: Served) -> None:
    client = lab.client()
    assert set(client.results("measured")["study_name"]) == {"measured"}
    every = client.results(valid_only=False)
    assert len(client.results("measured", valid_only=False)) == sum(every["study_name"] == "measured") == 8
    assert client.results("it's another", as_="rows") == []
    assert client.compare("measured")["metric"] == "output_tok_per_s"
    assert client.answer("measured")["sentences"]
    assert client.costs("measured", price_per_hour=3.6)
    assert client.plan(study().model_dump(mode="json"))["launches"] > 0


def test_a_study_is_submitted_watched_cancelled_and_run_again(lab: Served, tmp_path: Path) -> None:
    wanted, client = study(name="from a notebook"), lab.client(Role.SUBMITTER)
    file = tmp_path / "study.toml"
    file.write_text(study_to_toml(wanted))
    job_id = client.submit(file)
    assert client.job("from a notebook")["job_id"] == job_id
    assert [job["state"] for job in client.jobs() if job["job_id"] == job_id] == ["queued"]
    assert client.submit(study_to_toml(wanted)) != job_id != client.submit(wanted.model_dump(mode="json"))
    client.cancel(job_id)
    assert [seen["state"] for seen in client.watch(job_id)] == ["cancelled"]
    assert client.wait(job_id)["submitted_by"] == "submitter"
    assert client.retry(job_id)["state"] == "queued"
    assert client.log(job_id) == ""
    with pytest.raises(drafthouse.LabError, match="you may not submit a study: viewer is a viewer") as refused:
        lab.client().submit(file)
    assert refused.value.status == 403
    with pytest.raises(drafthouse.LabError) as wrong:
        client.submit({"name": "x"})
    assert wrong.value.problems


def test_files_are_imported(lab: Served) -> None:
    file = next(file for file in sorted((SAMPLES / "vllm-bench").iterdir()) if file.suffix == ".json")
    done = lab.client(Role.SUBMITTER).import_files([("file", file.name, file.read_bytes())], labels={"study": "theirs"})
    assert [run["file"] for run in done["runs"]] == [file.name] * len(done["runs"])


@pytest.mark.usefixtures("unhurried")
def test_the_warehouse_is_pulled_when_it_changed_and_checked(lab: Served, tmp_path: Path) -> None:
    client, file = lab.client(), tmp_path / "warehouse.duckdb"
    assert client.pull(file)
    assert file.read_bytes() == lab.settings.warehouse_file.read_bytes()
    assert int(file.stat().st_mtime) == int(lab.settings.warehouse_file.stat().st_mtime)
    assert not client.pull(file)
    with closing(Master(lab.settings.master_file, lab.settings.warehouse_file)) as master:
        master.connection.execute("INSERT INTO rejected_bundles VALUES ('job/run', 'x', now())")
        master.publish()
    seen: list[int] = []
    assert client.pull(file, progress=lambda has, of: seen.append(of - has))
    assert (seen[-1], list(tmp_path.iterdir())) == (0, [file])
    assert file.read_bytes() == lab.settings.warehouse_file.read_bytes()


@pytest.mark.usefixtures("unhurried")
def test_an_interrupted_fetch_is_continued_and_a_damaged_one_is_refused(lab: Served, tmp_path: Path) -> None:
    client, file = lab.client(), tmp_path / "warehouse.duckdb"
    newest, whole = client.snapshot(), lab.settings.warehouse_file.read_bytes()
    assert (newest.digest, newest.bytes) == (hashlib.sha256(whole).hexdigest(), len(whole))
    part = tmp_path / f".warehouse.duckdb.{newest.digest[:12]}.part"
    part.write_bytes(whole[:100_000])
    seen: list[int] = []
    assert client.pull(file, progress=lambda has, _of: seen.append(has))
    assert (min(seen) > 100_000, file.read_bytes() == whole) == (True, True)
    file.write_bytes(b"older")
    (tmp_path / f".warehouse.duckdb.{'0' * 12}.part").write_bytes(b"of an earlier state")
    part.write_bytes(b"x" * 100_000)
    with pytest.raises(drafthouse.LabError, match="differs from the lab's"):
        client.pull(file)
    assert [path.name for path in tmp_path.iterdir()] == [file.name]
    assert file.read_bytes() == b"older"
    assert client.pull(file)


@pytest.mark.usefixtures("unhurried")
def test_a_fetch_killed_after_its_last_byte_is_used(lab: Served, tmp_path: Path) -> None:
    client, file, whole = lab.client(), tmp_path / "warehouse.duckdb", lab.settings.warehouse_file.read_bytes()
    (tmp_path / f".warehouse.duckdb.{client.snapshot().digest[:12]}.part").write_bytes(whole)
    assert client.pull(file)
    assert (file.read_bytes() == whole, list(tmp_path.iterdir())) == (True, [file])


class Watching(drafthouse.Lab):
    """Notes that the lab was away."""

    def __init__(self, url: str) -> None:
        super().__init__(url, None)
        self.was_away = threading.Event()

    def open(self, *arguments: Any, **options: Any) -> Any:
        try:
            return super().open(*arguments, **options)
        except drafthouse.LabError:
            self.was_away.set()
            raise


def test_waiting_for_a_job_survives_a_restart_of_the_server(tmp_path: Path) -> None:
    settings, port = make_home(tmp_path), free_port()
    job_id = queue.submit(settings, study(name="long"), actor=ADMIN)
    database, states = app_engine(settings.app_database_url), list[str]()
    began = threading.Event()

    def watch() -> None:
        for job in client.watch("long"):
            states.append(job["state"])
            began.set()

    with served(environment(settings), port, signal.SIGKILL) as url:
        client = Watching(url)
        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        assert began.wait(600)
    assert client.was_away.wait(600)
    queue.cancel(database, job_id, actor=ADMIN)
    with serving(settings, port):
        watcher.join(600)
    database.dispose()
    assert states == ["queued", "cancelled"]


def test_a_lab_that_never_answered_is_an_error_at_once() -> None:
    with pytest.raises(drafthouse.LabError, match="cannot be reached"):
        drafthouse.Lab(f"http://127.0.0.1:{free_port()}", None).wait("demo")


def test_the_token_goes_to_nobody_but_the_lab() -> None:
    with (
        answering(lambda _path: (200, {}, [b"{}"])) as (elsewhere, asked),
        answering(lambda _path: (307, {"Location": f"{elsewhere}/api/v1/me"}, ())) as (url, _),
    ):
        with pytest.raises(drafthouse.LabError, match="which is not the lab"):
            drafthouse.connect(url, "secret").me()
        assert asked == []


def test_an_answer_that_ends_early_is_no_answer() -> None:
    with (
        answering(lambda _path: (200, {"Content-Length": "9"}, [b'{"a"'])) as (url, _),
        pytest.raises(drafthouse.LabError, match="ended early"),
    ):
        drafthouse.connect(url).me()


def test_an_address_where_no_lab_is_gives_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        answering(lambda _path: (404, {"Content-Type": "text/html"}, [b"<html>no</html>"])) as (url, _),
        pytest.raises(drafthouse.LabError, match="answers 404 Not Found: is it a Drafthouse"),
    ):
        drafthouse.connect(url).me()
    with pytest.raises(drafthouse.LabError, match="cannot be reached"):
        drafthouse.connect(url).me()
    for wrong in ("ftp://lab", "https://", "https://user@lab"):
        with pytest.raises(drafthouse.LabError, match="is not the address of a lab"):
            drafthouse.connect(wrong)
    monkeypatch.delenv("DRAFTHOUSE_SERVER", raising=False)
    with pytest.raises(drafthouse.LabError, match="DRAFTHOUSE_SERVER"):
        drafthouse.connect()


def test_a_job_of_another_name_with_signs_in_it_is_found(lab: Served) -> None:
    with open_engine(lab.settings.app_database_url) as database:
        job_id = queue._insert(database, study(name="50 % of 1+1?"), 0, ADMIN)
    assert lab.client().job("50 % of 1+1?")["job_id"] == job_id
