"""The lab of this machine: its home's databases and files. `cli.elsewhere` has the same methods."""

# ruff: noqa: PLC0415 - each verb imports no more than it needs
from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from access.local import local_actor
from host.process_memory import give_back_memory
from host.settings import Settings
from lab.errors import UserError

if TYPE_CHECKING:
    import duckdb
    import sqlalchemy as sa

    from jobs import queue
    from jobs.datasets.listing import DatasetState
    from jobs.table import Job
    from lab.advice.answer import Answer
    from lab.cost import Price
    from lab.study import Arm, Study
    from warehouse.app_db.curated import Curated
    from warehouse.app_db.price_book import Entry


#: Callback with an import's next step and the finished share of its work, 0 to 1.
Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class SqlAnswer:
    """A statement's answer as JSON values. `left_out` is a sentence if rows were cut."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    left_out: str


@dataclass(frozen=True)
class Imported:
    """An import as `Import.document` shows it; `later` if a running ingester has yet to add it to the warehouse."""

    document: Mapping[str, Any]
    later: bool


def completed_runs_query(ended: Job) -> str:
    """Return the query of `completed_runs`: `retry --all` repeats runs that earlier attempts completed."""
    return (
        f"SELECT count(DISTINCT cell_key) FROM results WHERE job_id = '{ended.job_id}' AND status = 'completed' "  # noqa: S608 - an id
        f"AND attempt >= {ended.reuse_from_attempt:d}"
    )


class Here:
    """The lab of this machine, with all permissions. Jobs are named by their ids or their studies' names. Every method
    raises UserError.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @functools.cached_property
    def database(self) -> sa.Engine:
        from warehouse.app_db.engine import app_engine

        return app_engine(self._settings.app_database_url)

    @property
    def public_url(self) -> str:
        """The address of the pages, for a browser."""
        return self._settings.public_url

    @property
    def warehouse_file(self) -> Path:
        return self._settings.warehouse_file

    def bundles(self, con: duckdb.DuckDBPyConnection, study: str) -> Path:
        """Return a folder with the bundles of this study's runs."""
        from warehouse.bundles.store import local_bundle
        from warehouse.queries.comparing.paired_runs import jobs_of

        jobs = list(jobs_of(con, study))
        runs = con.execute("SELECT job_id, run_id FROM runs WHERE job_id IN (SELECT unnest(?))", [jobs]).fetchall()
        for job_id, run_id in runs:
            local_bundle(self._settings, job_id, run_id)
        return self._settings.bundles

    def page(self, before: str | None, *, hidden: bool = False, tag: str | None = None) -> queue.Page:
        """Return the newest jobs, or the jobs submitted before a given one."""
        from jobs import queue
        from jobs.outcomes import with_invalid_runs

        page = queue.page(self.database, before=before, hidden=hidden, tag=tag)
        return queue.Page(with_invalid_runs(self._settings, page.jobs), page.older)

    def curated_studies(self) -> list[Curated]:
        """Return what people added to studies, and which they deleted."""
        from warehouse.app_db import curated

        return curated.all_curated(self.database)

    def study(self, name: str) -> tuple[Curated, Sequence[str]]:
        """Return what people added to a study, and what depends on it."""
        from jobs import curation
        from warehouse.app_db import curated

        job_id = curation.study_of(self._settings, self.database, name)
        return curated.find(self.database, job_id), curation.dependents(self._settings, self.database, job_id)

    def change_study(self, job_id: str, **changes: Any) -> Curated:
        """Change name, note, tags or hidden of a study."""
        from jobs import curation

        return curation.change(self.database, job_id, actor=local_actor(), **changes)

    def delete_study(self, job_id: str) -> None:
        from jobs import curation

        curation.delete(self._settings, self.database, job_id, actor=local_actor())

    def restore_study(self, name: str) -> str:
        """Restore a deleted study and return its job."""
        from jobs import curation

        return curation.restore(self._settings, self.database, name, actor=local_actor())

    def purge_studies(self, name: str | None) -> list[str]:
        """Remove the bundles of a deleted study, or of all that were deleted long enough ago; return their jobs."""
        from datetime import UTC, datetime

        from jobs import curation

        due = (
            [curation.deleted_of(self.database, name)]
            if name is not None
            else curation.due_for_purging(self.database, datetime.now(UTC))
        )
        for one in due:
            curation.purge(self._settings, self.database, one.job_id, actor=local_actor())
        return [one.job_id for one in due]

    def set_aside(self) -> list[queue.SetAside]:
        """Return the jobs that cannot be read."""
        from jobs import queue

        return queue.set_aside(self.database)

    def job(self, name: str) -> Job:
        from jobs import queue
        from jobs.outcomes import with_invalid_runs

        (job,) = with_invalid_runs(self._settings, [queue.job(self.database, queue.job_id_of(self.database, name))])
        return job

    def watched(self, job_id: str) -> Job:
        """Return the job for a caller that waits for it."""
        return self.job(job_id)

    def why_jobs_wait(self, jobs: Sequence[Job]) -> Mapping[str, str]:
        """Return, by job id, why no worker can start a job; startable jobs are left out."""
        from jobs.fleet.worker_registry import why_jobs_wait

        return why_jobs_wait(self.database, jobs)

    def submit(self, study: Study, priority: int = 0) -> str:
        """Queue a study and return the job's id."""
        from jobs import queue

        return queue.submit(self._settings, study, priority=priority, actor=local_actor())

    def cancel(self, name: str) -> str:
        """Cancel the job and return its id."""
        from jobs import queue

        job_id = queue.job_id_of(self.database, name, ("queued", "running"))
        queue.cancel(self.database, job_id, actor=local_actor())
        return job_id

    def retry(self, name: str, *, everything: bool) -> str:
        """Queue the ended job again and return its id."""
        from jobs import queue
        from jobs.table import FINISHED

        job_id = queue.job_id_of(self.database, name, tuple(FINISHED))
        queue.retry(self.database, job_id, actor=local_actor(), everything=everything)
        return job_id

    def judge_again(self, study: str) -> str:
        """Judge the study with the history and the analysis of today and return the judgement's id."""
        from jobs.judging import judge_again

        return judge_again(self._settings, self.database, study, actor=local_actor())

    def reprioritise(self, name: str, value: int) -> str:
        """Give the queued job another priority and return its id."""
        from jobs import order, queue

        job_id = queue.job_id_of(self.database, name, ("queued",))
        order.reprioritise(self.database, job_id, value, actor=local_actor())
        return job_id

    def log(self, name: str, lines: int) -> tuple[str, str]:
        """Return the job's id and the end of its engine's log."""
        from jobs import queue
        from jobs.engine_logs import log_tail

        job = queue.job(self.database, queue.job_id_of(self.database, name))
        return job.job_id, log_tail(self._settings, job.job_id, lines, job.progress)

    def plan(self, study: Study) -> dict[str, Any]:
        """Return what the study takes, as `plan_document` shows it."""
        from jobs.forecast import plan_document
        from jobs.submission import Context, problems, unknown

        context = Context(self._settings)
        found = problems(context, study, local_actor().role, probe_engines=False)
        return plan_document(self._settings, study, found, unknown(context, study))

    def follow_up_seconds(self, job_id: str, answer: Answer) -> float | None:
        """Estimate how long the follow-up of the job takes; None without one, or if that is unknown."""
        from jobs.forecast import follow_up_seconds

        return follow_up_seconds(self._settings, self.database, job_id, answer)

    def deployment(self, job_id: str, arm: Arm) -> str | None:  # noqa: ARG002 - the arm suffices
        """Return the engine's command line for the arm that a tuning found best; None if it is unknown."""
        from jobs.engines.profiles import speculation_words

        return speculation_words(self._settings.engines_file, self._settings.models_dir, arm)

    def completed_runs(self, ended: Job) -> int:
        """Count the ended job's completed runs in the warehouse, of attempts that count."""
        from warehouse.queries.connect import open_warehouse

        with open_warehouse(self.warehouse_file) as con:
            ((completed,),) = con.execute(completed_runs_query(ended)).fetchall()
        return int(completed)

    def sql(self, query: str) -> SqlAnswer:
        from warehouse.sandbox.runner import run_sql

        answer = run_sql(self._settings, query, actor=local_actor())
        return SqlAnswer(answer.columns, answer.rows(), answer.left_out)

    def import_paths(
        self, paths: Sequence[Path], tool: str, labels: Mapping[str, str], progress: Progress, *, as_measured: bool
    ) -> Imported:
        """Import result files and folders: all of them or none. `as_measured`: the runs of an export keep their ids."""
        from interchange.store import import_paths
        from warehouse.ingest.service import ingest_all

        actor = local_actor()
        imported = import_paths(self._settings, paths, tool, labels, progress, actor=actor, as_measured=as_measured)
        progress("adding to the warehouse", 1.0)
        give_back_memory()
        later = False
        if imported.new_run_ids:
            try:
                ingest_all(self._settings)
            except UserError:  # an ingester runs, and does it
                later = True
        return Imported(imported.document(), later)

    def prices(self) -> list[Entry]:
        from warehouse.app_db import price_book

        return price_book.entries(self.database)

    def add_price(self, price: Price) -> int:
        """Add an entry to the price book and return its number."""
        from warehouse.app_db import price_book

        return price_book.add(self.database, price, actor=local_actor())

    def withdraw_price(self, number: int) -> None:
        from warehouse.app_db import price_book

        price_book.withdraw(self.database, number, actor=local_actor())

    def datasets(self) -> list[DatasetState]:
        from jobs.datasets.listing import list_datasets

        return list_datasets(self._settings)

    def add_dataset(self, name: str, file: Path, *, replace: bool = False) -> DatasetState:
        from jobs.datasets.listing import add_dataset

        return add_dataset(self._settings, name, file, actor=local_actor(), replace=replace)

    def remove_dataset(self, name: str) -> None:
        from jobs.datasets.listing import remove_dataset

        remove_dataset(self._settings, name, actor=local_actor())
