"""A lab elsewhere: changes go through its API, and queries read a copy of its warehouse.

A copy is fetched when the warehouse has changed, and stays in the user's cache folder until a newer one replaces it.
"""

# ruff: noqa: PLC0415 - each verb imports no more than it needs
from __future__ import annotations

import functools
import hashlib
import io
import json
import os
import shutil
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from http import HTTPStatus
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import TypeAdapter
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TextColumn
from rich.progress import Progress as Bar

import drafthouse
from cli.here import Imported, Progress, SqlAnswer, completed_runs_query
from host.settings import ARCHIVE_FOLDER
from jobs.queue import Page, SetAside
from jobs.table import Job
from lab.cost import Price
from lab.errors import StudyError, UserError
from lab.study import Arm, Study
from warehouse.app_db.curated import Curated
from warehouse.app_db.price_book import Entry

if TYPE_CHECKING:
    import duckdb

    from jobs.datasets.listing import DatasetState
    from lab.advice.answer import Answer


_Record = TypeVar("_Record", Job, Curated, Entry)


class RefusalError(UserError):
    """A refusal by a lab elsewhere, with its HTTP status; 0: the lab cannot be reached."""

    def __init__(self, sentence: str, status: int) -> None:
        super().__init__(sentence)
        self.status = status


@contextmanager
def refusals() -> Iterator[None]:
    """Turn the client's errors into those that the command prints as a sentence."""
    try:
        yield
    except drafthouse.LabError as error:
        if error.problems:
            raise StudyError([(problem["field"], problem["sentence"]) for problem in error.problems]) from None
        raise RefusalError(str(error), error.status) from None


def cache_folder() -> Path:
    """Return this user's folder for copies of all labs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "drafthouse"


class Client(drafthouse.Lab):
    """The client for notebooks, raising the command's errors."""

    def __init__(self, url: str, token: str | None) -> None:
        with refusals():
            super().__init__(url, token)

    def open(self, *arguments: Any, **options: Any) -> Any:
        with refusals():
            return super().open(*arguments, **options)

    def read(self, answer: Any, most_bytes: int | None = None) -> bytes:
        with refusals():
            return super().read(answer, most_bytes)


class Elsewhere:
    """A lab over its API, as the user of the token; `Here` says what each method does."""

    def __init__(self, url: str, token: str | None) -> None:
        self._lab = Client(url, token)
        self._cache = cache_folder() / hashlib.sha256(self._lab.url.encode()).hexdigest()[:12]

    @property
    def public_url(self) -> str:
        return self._lab.url

    @property
    def warehouse_file(self) -> Path:
        """Return a current copy of the published warehouse."""
        newest = self._lab.snapshot()
        file = self._cache / f"{newest.digest}.duckdb"
        if not file.exists():
            self._cache.mkdir(parents=True, exist_ok=True)
            fetched = self._cache / f".{newest.digest}"
            try:
                with refusals(), fetching_bar() as progress:
                    self._lab.fetch(newest, fetched, progress=progress)
                _refuse_other_version(fetched, self._lab.url)
                self._fetch_archive(fetched)
                fetched.rename(file)
            finally:
                fetched.unlink(missing_ok=True)
            for older in set(self._cache.glob("*.duckdb")) - {file}:
                older.unlink(missing_ok=True)
        return file

    def bundles(self, con: duckdb.DuckDBPyConnection, study: str) -> Path:
        """Return a folder with the study's bundles. Runs never change, so each is fetched once."""
        from warehouse.queries.comparing.paired_runs import jobs_of

        folder = self._cache / "bundles"
        query = "SELECT job_id, run_id FROM runs WHERE job_id IN (SELECT unnest(?))"
        for job_id, run_id in con.execute(query, [list(jobs_of(con, study))]).fetchall():
            if not (folder / job_id / run_id).is_dir():
                self._fetch_bundle(folder / job_id, job_id, run_id)
        return folder

    def page(self, before: str | None, *, hidden: bool = False, tag: str | None = None) -> Page:
        found = self._lab.ask("/jobs", query={"before": before, "studies": True, "hidden": hidden, "tag": tag})
        return Page(tuple(_read(Job, job) for job in found["jobs"]), found["older"])

    def curated_studies(self) -> list[Curated]:
        return [_read(Curated, one) for one in self._lab.ask("/studies")]

    def study(self, name: str) -> tuple[Curated, Sequence[str]]:
        found = self._lab.ask(f"/studies/{drafthouse.quoted(name)}")
        return _read(Curated, found), found["depends"]

    def change_study(self, job_id: str, **changes: Any) -> Curated:
        return _read(Curated, self._lab.ask(f"/studies/{drafthouse.quoted(job_id)}", "PATCH", body=changes))

    def delete_study(self, job_id: str) -> None:
        self._lab.ask(f"/studies/{drafthouse.quoted(job_id)}", "DELETE")

    def restore_study(self, name: str) -> str:
        return str(self._lab.ask(f"/studies/{drafthouse.quoted(name)}/restore", "POST")["job_id"])

    def purge_studies(self, name: str | None) -> list[str]:  # noqa: ARG002 - the signature is Lab's
        raise UserError("purging is for the lab's own host: run it there, without --server and DRAFTHOUSE_SERVER")

    def set_aside(self) -> list[SetAside]:
        return [SetAside(**job, traceback="") for job in self._lab.ask("/jobs", query={"limit": 1})["set_aside"]]

    def job(self, name: str) -> Job:
        return _read(Job, self._lab.job(name))

    def watched(self, job_id: str) -> Job:
        """Return the job. Retry while the lab's server restarts, for as long as `drafthouse.Lab.watch` does."""
        began_s = time.monotonic()
        while True:
            try:
                return self.job(job_id)
            except RefusalError as refusal:
                if refusal.status not in drafthouse.PASSING or time.monotonic() - began_s > drafthouse.PATIENCE_S:
                    raise
            time.sleep(1)

    def why_jobs_wait(self, jobs: Sequence[Job]) -> Mapping[str, str]:  # noqa: ARG002 - the signature is Lab's
        return {}  # its pages say it

    def submit(self, study: Study, priority: int = 0) -> str:
        return self._lab.submit(study.model_dump(mode="json"), priority=priority)

    def cancel(self, name: str) -> str:
        return str(self._lab.cancel(name)["job_id"])

    def retry(self, name: str, *, everything: bool) -> str:
        return str(self._lab.retry(name, everything=everything)["job_id"])

    def judge_again(self, study: str) -> str:
        return str(self._lab.ask(f"/studies/{drafthouse.quoted(study)}/judgements", "POST")["judgement"])

    def reprioritise(self, name: str, value: int) -> str:
        path = f"/jobs/{drafthouse.quoted(name)}/priority"
        return str(self._lab.ask(path, "POST", body={"priority": value})["job_id"])

    def log(self, name: str, lines: int) -> tuple[str, str]:
        job_id = str(self._lab.job(name)["job_id"])
        return job_id, self._lab.log(job_id, lines)

    def plan(self, study: Study) -> dict[str, Any]:
        return self._lab.plan(study.model_dump(mode="json"))

    def follow_up_seconds(self, job_id: str, answer: Answer) -> float | None:
        from lab.advice.next_study import next_study

        try:
            proposed = next_study(self.job(job_id).study, answer)
        except RefusalError as refusal:
            if refusal.status == HTTPStatus.NOT_FOUND:  # it is not in the lab's queue
                return None
            raise
        return None if proposed is None else float(self.plan(proposed)["estimated_s"])

    def deployment(self, job_id: str, arm: Arm) -> str | None:  # noqa: ARG002 - the lab's engines are described there
        words: str | None = self._lab.ask(f"/jobs/{drafthouse.quoted(job_id)}/deployment")["command_line"]
        return words

    def completed_runs(self, ended: Job) -> int:
        ((completed,),) = self.sql(completed_runs_query(ended)).rows
        return int(str(completed))

    def sql(self, query: str) -> SqlAnswer:
        found = self._lab.ask("/sql", "POST", body={"sql": query})
        return SqlAnswer(found["columns"], found["rows"], found["left_out"])

    def import_paths(
        self, paths: Sequence[Path], tool: str, labels: Mapping[str, str], progress: Progress, *, as_measured: bool
    ) -> Imported:
        if as_measured:
            raise UserError("--as-measured is for the lab's own host: there, unset DRAFTHOUSE_SERVER")
        from interchange.files import read_paths
        from interchange.restore import is_export

        progress("reading files", 0.0)
        if len(paths) == 1 and is_export(paths[0]):
            names = [path for path in sorted(paths[0].rglob("*")) if path.is_file() and not path.is_symlink()]
            sent = [("exported", str(path.relative_to(paths[0])), path.read_bytes()) for path in names]
        else:
            files = read_paths(paths)
            if problem := next((file.problem for file in files if file.problem), ""):
                raise UserError(problem)
            sent = [("file" if file.was_named else "found", file.name, file.whole()) for file in files]
        progress(f"sending them to {self._lab.url}", 0.5)
        document = self._lab.import_files(sent, tool=tool, labels=labels)
        return Imported(document, later=any(run["new"] for run in document["runs"]))

    def prices(self) -> list[Entry]:
        return [_read(Entry, one) for one in self._lab.ask("/prices")]

    def add_price(self, price: Price) -> int:
        flat = price.model_dump(mode="json", exclude={"owned"}) | ({} if price.owned is None else vars(price.owned))
        return int(self._lab.ask("/prices", "POST", body=flat)["price_id"])

    def withdraw_price(self, number: int) -> None:
        self._lab.ask(f"/prices/{number}/withdraw", "POST")

    def datasets(self) -> list[DatasetState]:
        from jobs.datasets.listing import DatasetState

        return [DatasetState.model_validate_json(json.dumps(one)) for one in self._lab.ask("/datasets")]

    def add_dataset(self, name: str, file: Path, *, replace: bool = False) -> DatasetState:
        from jobs.datasets.listing import DatasetState

        try:
            content = file.read_bytes()
        except OSError as error:
            raise UserError(f"{file} cannot be read: {error.strerror}") from None
        path = f"/api/v1/datasets/{drafthouse.quoted(name)}"
        query = {"file": file.name} | ({"replace": "true"} if replace else {})
        with self._lab.open(path, "PUT", query=query, data=content) as answer:
            return DatasetState.model_validate_json(answer.read())

    def remove_dataset(self, name: str) -> None:
        self._lab.ask(f"/datasets/{drafthouse.quoted(name)}", "DELETE")

    def _fetch_archive(self, fetched: Path) -> None:
        """Fetch the files of the archive that the warehouse's views read, and let them read those."""
        import duckdb

        from warehouse.schema.views import describe

        folder = self._cache / ARCHIVE_FOLDER
        with duckdb.connect(fetched, read_only=True) as connection:
            names = [name for (name,) in connection.execute("SELECT DISTINCT file FROM archived_runs").fetchall()]
        for name in names:
            if not (folder / name).exists():
                folder.mkdir(exist_ok=True)
                writing = folder / f".{name}.{os.getpid()}"
                try:
                    with (
                        self._lab.open(f"/warehouse/archive/{drafthouse.quoted(name)}") as answer,
                        writing.open("wb") as to,
                    ):
                        shutil.copyfileobj(answer, to)
                    if writing.stat().st_size != int(answer.headers["Content-Length"]):
                        raise UserError(f"the connection to {self._lab.url} ended early: try again")
                    writing.rename(folder / name)
                finally:
                    writing.unlink(missing_ok=True)
        if names:
            with duckdb.connect(fetched) as connection:
                describe(connection)

    def _fetch_bundle(self, folder: Path, job_id: str, run_id: str) -> None:
        path = f"/api/v1/jobs/{drafthouse.quoted(job_id)}/runs/{drafthouse.quoted(run_id)}/bundle"
        with self._lab.open(path) as answer:
            content = io.BytesIO(self._lab.read(answer))
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{run_id}.", dir=folder) as writing:
            try:
                with tarfile.open(fileobj=content) as archive:
                    _extract_folder(archive, run_id, Path(writing))
            except tarfile.TarError as error:
                raise UserError(f"the lab's archive of run {run_id} cannot be read: {error}") from None
            (Path(writing) / run_id).rename(folder / run_id)


def _extract_folder(archive: tarfile.TarFile, folder: str, to: Path) -> None:
    """Extract a folder of files. Raises UserError for an empty archive and for any other member, which could be written
    anywhere.

    `extractall` has a filter for that, but not in Python 3.11.2, which is Debian's.
    """
    for member in archive:
        parts = PurePosixPath(member.name).parts
        source = archive.extractfile(member) if member.isfile() else None
        if parts[:1] != (folder,) or ".." in parts or not (member.isdir() or (source and parts[1:])):
            raise UserError(f"the lab's archive of run {folder} has {member.name!r}, which does not belong to a run")
        if source:
            path = to.joinpath(*parts)
            path.parent.mkdir(parents=True, exist_ok=True)
            with source, path.open("wb") as file:
                shutil.copyfileobj(source, file)
    if not (to / folder).is_dir():
        raise UserError(f"the lab's archive of run {folder} is empty")


def _read(record: type[_Record], document: Mapping[str, Any]) -> _Record:
    """Read a record, without the fields that a newer lab adds to it."""
    known = {field.name: document[field.name] for field in fields(record) if field.name in document}
    read: _Record = _adapter(record).validate_json(json.dumps(known))  # type: ignore[arg-type]  # mypy: a class is hashable
    return read


@functools.cache
def _adapter(record: type) -> TypeAdapter[Any]:
    return TypeAdapter(record)


def _refuse_other_version(file: Path, url: str) -> None:
    import duckdb

    from warehouse.queries.connect import duckdb_revision
    from warehouse.schema import revisions

    with duckdb.connect(file, read_only=True) as connection:
        theirs, ours = duckdb_revision(connection), revisions.head("warehouse")
    if theirs != ours:
        raise UserError(
            f"the warehouse of {url} has revision {theirs} and this Drafthouse reads {ours}: install the lab's version"
        )


@contextmanager
def fetching_bar() -> Iterator[drafthouse.Progress]:
    """Show the progress of a download on a terminal, and remove it at the end."""
    console = Console(stderr=True)
    columns = (TextColumn("fetching the warehouse"), BarColumn(), DownloadColumn())
    with Bar(*columns, console=console, transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("", total=None)
        yield lambda has, of: bar.update(task, completed=has, total=of)
