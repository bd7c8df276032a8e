"""Stored verdicts: a file for each time that a study was judged, in a folder beside that of the bundles, never changed.

They lie in files, and not in the app database, because what a warehouse is rebuilt from are files: a verdict lasts as
long as the runs, the ingester stays a reader of the app database, and nothing reads all verdicts at each heartbeat.

The name of a file is the judgement's id. That of a job that ended says how often it had been retried, so judging it
twice gives one file: the first.
"""

from __future__ import annotations

import contextlib
import os
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from lab.errors import BundleError
from warehouse.bundles.pending import fsync, mark_pending

Cause = Literal["ended", "asked"]
#: The separator between a job and why it was judged.
_SEPARATOR = "~"
_ENDING, _TEMPORARY = ".json", ".writing-"


class _Stored(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


class StoredRun(_Stored):
    """A run of an arm, with what decides which runs of other arms share its block."""

    run_id: str
    block: tuple[str | int | None, ...]
    launch: tuple[str | int, ...] | None
    until_decided: bool


class StoredArm(_Stored):
    """An arm in one cell, with its runs."""

    workload: str
    pattern: str
    concurrency: int
    arm: str
    is_baseline: bool
    method: str | None
    num_speculative_tokens: int | None
    category: str | None
    closed_loop: bool | None
    arm_id: str | None
    runs: tuple[StoredRun, ...]


class StoredVerdict(_Stored):
    """A comparison, and its verdict in both readings, as the fields of their records."""

    comparison: dict[str, Any]
    usual: dict[str, Any]
    strict: dict[str, Any]


class StoredPair(StoredVerdict):
    """A candidate against the baseline in one cell; the two are positions in `Judgement.arms`."""

    baseline: int
    candidate: int


class StoredMean(StoredVerdict):
    """A candidate over all of its cells."""

    arm: str


class StoredMetric(_Stored):
    """All arms compared by one metric. `values` are those of the runs, by arm and run as in `Judgement.arms`."""

    metric: str
    unit: str
    baseline: str
    history_jobs: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]
    pairs: tuple[StoredPair, ...]
    means: tuple[StoredMean, ...]


class Judgement(_Stored):
    """The verdicts on a job by every metric that decides, computed together, and what they rest on.

    `tries` is how often the job had been retried when it ended, None if a person requested the judgement.
    """

    format_version: Literal[1] = 1
    job_id: str
    study: str
    cause: Cause
    tries: int | None
    as_of: datetime
    judged_at: datetime
    analysis_version: int
    run_ids: tuple[str, ...]
    arms: tuple[StoredArm, ...]
    metrics: tuple[StoredMetric, ...]

    @property
    def judgement_id(self) -> str:
        when = f"{self.judged_at:%Y%m%dT%H%M%S%f}" if self.tries is None else str(self.tries)
        return f"{self.job_id}{_SEPARATOR}{self.cause}-{when}"


def judgements_folder(bundles: Path) -> Path:
    """Return the folder of stored verdicts, which is on the same file system as the folder of the bundles."""
    return bundles.with_name(f"{bundles.name}-verdicts")


def judgement_file(bundles: Path, judgement_id: str) -> Path:
    return judgements_folder(bundles) / f"{judgement_id}{_ENDING}"


def stored_ids(bundles: Path) -> list[str]:
    """Return the ids of all judgements, sorted; empty without a folder."""
    with contextlib.suppress(FileNotFoundError), os.scandir(judgements_folder(bundles)) as entries:
        names = [entry.name for entry in entries if not entry.name.startswith(_TEMPORARY)]
        return sorted(name.removesuffix(_ENDING) for name in names if name.endswith(_ENDING))
    return []


def write_judgement(bundles: Path, judgement: Judgement) -> None:
    """Write a judgement, all of it or nothing, and leave one with the same id as it is. Raises OSError."""
    if not judgement_file(bundles, judgement.judgement_id).exists():
        mark_pending(bundles, judgement.judgement_id)
        write_judgement_file(bundles, judgement.judgement_id, (judgement.model_dump_json() + "\n").encode())


def write_judgement_file(bundles: Path, judgement_id: str, content: bytes) -> None:
    """Write the content of a judgement's file in the same way; nothing has to be uploaded."""
    folder = judgements_folder(bundles)
    folder.mkdir(exist_ok=True)
    writing = folder / f"{_TEMPORARY}{judgement_id}"  # so what a kill left is written over
    try:
        writing.write_bytes(content)
        fsync(writing)
        with contextlib.suppress(FileExistsError):
            os.link(writing, judgement_file(bundles, judgement_id))  # a renaming would replace it
    finally:
        writing.unlink(missing_ok=True)
    fsync(folder)


def read_judgement(bundles: Path, judgement_id: str) -> Judgement:
    """Read a judgement. Raises BundleError if its file cannot be read."""
    file = judgement_file(bundles, judgement_id)
    try:
        return Judgement.model_validate_json(file.read_bytes())
    except (OSError, ValidationError) as error:
        raise BundleError(f"{file} cannot be read: {error}") from None
