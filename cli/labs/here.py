"""The lab of this machine: its home's databases and files."""

# ruff: noqa: PLC0415 - each verb imports no more than it needs
from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from access.local import local_actor
from cli.labs.lab import Imported, Lab, Progress, SqlAnswer
from host.process_memory import give_back_memory
from host.settings import Settings
from lab.errors import UserError

if TYPE_CHECKING:
    import duckdb
    import sqlalchemy as sa

    from jobs import queue
    from jobs.datasets.listing import DatasetState
    from jobs.table import Job
    from lab.cost import Price
    from lab.study import Arm, Study
    from warehouse.app_db.price_book import Entry


class Here(Lab):
    """Whoever can write the home may do everything."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @functools.cached_property
    def _database(self) -> sa.Engine:
        from warehouse.app_db.engine import app_engine

        return app_engine(self._settings.app_database_url)

    @property
    def public_url(self) -> str:
        return self._settings.public_url

    @property
    def warehouse_file(self) -> Path:
        return self._settings.warehouse_file

    def bundles(self, con: duckdb.DuckDBPyConnection, study: str) -> Path:  # noqa: ARG002 - they are all there
        return self._settings.bundles

    def page(self, before: str | None) -> queue.Page:
        from jobs import queue

        return queue.page(self._database, before=before)

    def set_aside(self) -> list[queue.SetAside]:
        from jobs import queue

        return queue.set_aside(self._database)

    def job(self, name: str) -> Job:
        from jobs import queue

        return queue.job(self._database, queue.job_id_of(self._database, name))

    def why_jobs_wait(self, jobs: Sequence[Job]) -> Mapping[str, str]:
        from jobs.worker_registry import why_jobs_wait

        return why_jobs_wait(self._database, jobs)

    def submit(self, study: Study, priority: int = 0) -> str:
        from jobs import queue

        return queue.submit(self._settings, study, priority=priority, actor=local_actor())

    def cancel(self, name: str) -> str:
        from jobs import queue

        job_id = queue.job_id_of(self._database, name, ("queued", "running"))
        queue.cancel(self._database, job_id, actor=local_actor())
        return job_id

    def retry(self, name: str, *, everything: bool) -> str:
        from jobs import queue
        from jobs.table import FINISHED

        job_id = queue.job_id_of(self._database, name, tuple(FINISHED))
        queue.retry(self._database, job_id, actor=local_actor(), everything=everything)
        return job_id

    def reprioritise(self, name: str, value: int) -> str:
        from jobs import order, queue

        job_id = queue.job_id_of(self._database, name, ("queued",))
        order.reprioritise(self._database, job_id, value, actor=local_actor())
        return job_id

    def log(self, name: str, lines: int) -> tuple[str, str]:
        from jobs import queue
        from jobs.engine_logs import log_tail

        job_id = queue.job_id_of(self._database, name)
        return job_id, log_tail(self._settings.logs_dir, self._settings.bundles, job_id, lines)

    def plan(self, study: Study) -> dict[str, Any]:
        from jobs.plan_document import plan_document

        return plan_document(self._settings, study)

    def repeat_seconds(self, job_id: str) -> float | None:
        from jobs.forecast import repeat_seconds

        settings = self._settings
        return repeat_seconds(settings, job_id)

    def deployment(self, job_id: str, arm: Arm) -> str | None:  # noqa: ARG002 - the arm says it all
        from jobs.engines.command_line import speculation_words

        return speculation_words(self._settings, arm)

    def completed_runs(self, ended: Job) -> int:
        from cli.follow import completed_runs

        return completed_runs(self._settings.warehouse_file, ended)

    def sql(self, query: str) -> SqlAnswer:
        from warehouse.sandbox.runner import run_sql

        answer = run_sql(self._settings, query, actor=local_actor())
        return SqlAnswer(answer.columns, answer.rows(), answer.left_out)

    def import_paths(
        self,
        paths: Sequence[Path],
        tool: str,
        labels: Mapping[str, str],
        progress: Progress,
        *,
        as_measured: bool = False,
    ) -> Imported:
        from interchange.store import import_paths

        actor = local_actor()
        imported = import_paths(self._settings, paths, tool, labels, progress, actor=actor, as_measured=as_measured)
        progress("adding to the warehouse", 1.0)
        give_back_memory()
        ingested = self._ingest() if imported.new_run_ids else True
        return Imported(imported.document(), later=not ingested)

    def _ingest(self) -> bool:
        """Ingest the new bundles here. Returns False if an ingester runs, which does it then."""
        from warehouse.ingest.service import ingest_all

        try:
            ingest_all(self._settings)
        except UserError:
            return False
        return True

    def prices(self) -> list[Entry]:
        from warehouse.app_db import price_book

        return price_book.entries(self._database)

    def add_price(self, price: Price) -> int:
        from warehouse.app_db import price_book

        return price_book.add(self._database, price, actor=local_actor())

    def withdraw_price(self, number: int) -> None:
        from warehouse.app_db import price_book

        price_book.withdraw(self._database, number, actor=local_actor())

    def datasets(self) -> list[DatasetState]:
        from jobs.datasets.listing import list_datasets

        return list_datasets(self._settings)

    def add_dataset(self, name: str, file: Path, *, replace: bool = False) -> DatasetState:
        from jobs.datasets.listing import add_dataset

        return add_dataset(self._settings, name, file, actor=local_actor(), replace=replace)

    def remove_dataset(self, name: str) -> None:
        from jobs.datasets.listing import remove_dataset

        remove_dataset(self._settings, name, actor=local_actor())
