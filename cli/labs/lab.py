"""What verbs need of a lab, wherever it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # most verbs do without most of these
    import duckdb

    from jobs.datasets.listing import DatasetState
    from jobs.queue import Page, SetAside
    from jobs.table import Job
    from lab.cost import Price
    from lab.study import Arm, Study
    from warehouse.app_db.price_book import Entry

#: Gets what an import does next, and the share of its work that is done, 0 to 1.
Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class SqlAnswer:
    """A statement's answer as JSON values. `left_out` says in a sentence that rows were cut."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    left_out: str


@dataclass(frozen=True)
class Imported:
    """An import as `Import.document` shows it; `later` if a running ingester is yet to add it to the warehouse."""

    document: Mapping[str, Any]
    later: bool


class Lab(ABC):
    """Jobs are named by their ids or their studies' names. Every method raises UserError."""

    @property
    @abstractmethod
    def public_url(self) -> str:
        """The address of the pages, for a browser."""

    @property
    @abstractmethod
    def warehouse_file(self) -> Path:
        """The published warehouse, or a copy of it as it is now."""

    @abstractmethod
    def bundles(self, con: duckdb.DuckDBPyConnection, study: str) -> Path:
        """A folder that has the bundles of this study's runs."""

    @abstractmethod
    def page(self, before: str | None) -> Page:
        """The newest jobs, or those that were submitted before one."""

    @abstractmethod
    def set_aside(self) -> list[SetAside]:
        """Jobs that cannot be read."""

    @abstractmethod
    def job(self, name: str) -> Job: ...

    def watched(self, job_id: str) -> Job:
        """The job, asked again and again by whoever waits for it."""
        return self.job(job_id)

    @abstractmethod
    def why_jobs_wait(self, jobs: Sequence[Job]) -> Mapping[str, str]:
        """What keeps all workers from a job, by its id; nothing of a job that one may start, or if that is unknown."""

    @abstractmethod
    def submit(self, study: Study, priority: int = 0) -> str:
        """Queue a study and return the job's id."""

    @abstractmethod
    def cancel(self, name: str) -> str:
        """Cancel the job and return its id."""

    @abstractmethod
    def retry(self, name: str, *, everything: bool) -> str:
        """Queue the ended job again and return its id."""

    @abstractmethod
    def reprioritise(self, name: str, value: int) -> str:
        """Give the queued job another priority and return its id."""

    @abstractmethod
    def log(self, name: str, lines: int) -> tuple[str, str]:
        """The job's id and the end of its engine's log."""

    @abstractmethod
    def plan(self, study: Study) -> dict[str, Any]:
        """What the study takes there, as `plan_document` shows it."""

    @abstractmethod
    def repeat_seconds(self, job_id: str) -> float | None:
        """Estimate how long one more repeat of the job's study takes there; None if that is unknown."""

    @abstractmethod
    def deployment(self, job_id: str, arm: Arm) -> str | None:
        """The words of the engine's command line for the arm that a tuning found best; None if they are unknown."""

    @abstractmethod
    def completed_runs(self, ended: Job) -> int:
        """How many of the ended job's runs are in the warehouse as completed: those of attempts that count."""

    @abstractmethod
    def sql(self, query: str) -> SqlAnswer: ...

    @abstractmethod
    def import_paths(
        self,
        paths: Sequence[Path],
        tool: str,
        labels: Mapping[str, str],
        progress: Progress,
        *,
        as_measured: bool = False,
    ) -> Imported:
        """Import result files and folders: all of them or none. `as_measured`: an export's runs keep their ids."""

    @abstractmethod
    def prices(self) -> list[Entry]: ...

    @abstractmethod
    def add_price(self, price: Price) -> int:
        """Add an entry to the price book and return its number."""

    @abstractmethod
    def withdraw_price(self, number: int) -> None: ...

    @abstractmethod
    def datasets(self) -> list[DatasetState]: ...

    @abstractmethod
    def add_dataset(self, name: str, file: Path, *, replace: bool = False) -> DatasetState: ...

    @abstractmethod
    def remove_dataset(self, name: str) -> None: ...
