"""Jobs: listed, watched, cancelled, run again; their logs, and the bundles of their runs."""

from __future__ import annotations

import json
import pathlib
import re
import tarfile
import tempfile
from datetime import datetime
from typing import Annotated, Any

import sqlalchemy as sa
from anyio import to_thread
from fastapi import APIRouter, Body, Path, Query
from pydantic import BaseModel, Field
from starlette.background import BackgroundTask
from starlette.responses import FileResponse, PlainTextResponse, StreamingResponse

from jobs import order, queue
from jobs.engine_logs import log_tail
from jobs.engines.profiles import speculation_words
from jobs.outcomes import with_invalid_runs
from jobs.table import FINISHED, MAX_PRIORITY, Job, State
from lab.errors import UnknownNameError
from warehouse.app_db import curated
from warehouse.bundles.store import local_bundle
from warehouse.queries.comparing.tunings import tuning_report
from warehouse.queries.connect import open_warehouse
from warehouse.sandbox.runner import SqlResult
from webapp.api.calls import AuthorisedCall, Call
from webapp.api.limits import Operation
from webapp.api.watching import POLLING, Watching

router = APIRouter(route_class=Operation, tags=["jobs"])
JobId = Annotated[str, Path(max_length=200, description="A job's id, or a study's name: its newest job.")]
RunId = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")


class JobDocument(BaseModel):
    """A job in the queue or after it. Its study is included on request. `outcome` is the state, with the runs that were
    lost: `done, 5 of 12 runs failed, 7 invalid`. `runs_invalid` is null before any run is published.
    """

    job_id: str
    study_id: str
    name: str
    study: dict[str, Any] | None = None
    state: State
    outcome: str
    priority: int
    submitted_at: datetime
    submitted_by: str | None
    started_at: datetime | None
    finished_at: datetime | None
    worker: str | None
    lease_expires_at: float | None
    attempt: int
    error: str | None
    cancel_requested: bool
    hardware: str | None
    reuse_from_attempt: int
    progress: dict[str, Any] | None
    runs_invalid: int | None


class SetAsideDocument(BaseModel):
    """A job that this lab or one of its workers cannot read."""

    job_id: str
    name: str
    state: State
    reason: str


class JobPage(BaseModel):
    """Jobs, the newest first; `older` is what to send as `before` for the next page."""

    jobs: list[JobDocument]
    older: str | None
    set_aside: list[SetAsideDocument] = []


class Priority(BaseModel):
    """Higher values run earlier; a new job has 0."""

    priority: int = Field(ge=-MAX_PRIORITY, le=MAX_PRIORITY)


class Again(BaseModel):
    """The runs of a job to measure again."""

    everything: bool = False  # completed ones too


class Deployment(BaseModel):
    """Words of an engine's command line; null for a job that is not a tuning, and for engines other than vLLM."""

    command_line: str | None


@router.get("/jobs")
def list_jobs(
    call: AuthorisedCall,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
    before: Annotated[str | None, Query(max_length=200)] = None,
    tag: Annotated[str | None, Query(max_length=200, description="Only jobs of studies with this tag.")] = None,
    *,
    studies: bool = False,
    hidden: bool = False,
) -> JobPage:
    """List the newest jobs and all queued or running ones, or the jobs submitted before a given one; those of hidden
    studies on request.
    """
    page = queue.page(call.database, limit, before, hidden=hidden, tag=tag)
    aside = queue.set_aside(call.database) if before is None else []
    return JobPage(
        jobs=[_document(job, with_study=studies) for job in with_invalid_runs(call.settings, page.jobs)],
        older=page.older,
        set_aside=[SetAsideDocument.model_validate(vars(job), extra="ignore") for job in aside],
    )


@router.get("/jobs/{job}")
def show_job(call: AuthorisedCall, job: JobId) -> JobDocument:
    """Show one job with its study."""
    (found,) = with_invalid_runs(call.settings, [_job(call, job)])
    return _document(found, with_study=True)


@router.get("/jobs/{job}/study")
def show_study(call: AuthorisedCall, job: JobId) -> dict[str, Any]:
    """Show the study of a job in the form in which it can be resubmitted."""
    return _job(call, job).study.model_dump(mode="json")


@router.get("/jobs/{job}/events", response_class=StreamingResponse)
async def watch_job(call: AuthorisedCall, job: JobId) -> StreamingResponse:
    """Stream the job at each change, as server-sent events, until it ends or the visitor loses access."""
    found = await to_thread.run_sync(_job, call, job, limiter=POLLING)
    return _WATCHING.stream(call, found.job_id)


@router.post("/jobs/{job}/cancel")
def cancel_job(call: AuthorisedCall, job: JobId) -> JobDocument:
    """Stop a job; its finished runs stay in the warehouse."""
    job_id = queue.job_id_of(call.database, job, ("queued", "running"))
    queue.cancel(call.database, job_id, actor=call.actor)
    return _document(queue.job(call.database, job_id))


@router.post("/jobs/{job}/retry")
def retry_job(call: AuthorisedCall, job: JobId, again: Annotated[Again | None, Body()] = None) -> JobDocument:
    """Queue an ended job again. Measures only missing and failed runs, unless all are requested."""
    job_id = queue.job_id_of(call.database, job, FINISHED)
    queue.retry(call.database, job_id, actor=call.actor, everything=again is not None and again.everything)
    return _document(queue.job(call.database, job_id))


@router.post("/jobs/{job}/priority")
def reprioritise_job(call: AuthorisedCall, job: JobId, sent: Annotated[Priority, Body()]) -> JobDocument:
    """Change a queued job's priority; with equal priority, submitters alternate."""
    job_id = queue.job_id_of(call.database, job, ("queued",))
    order.reprioritise(call.database, job_id, sent.priority, actor=call.actor)
    return _document(queue.job(call.database, job_id))


@router.get("/jobs/{job}/deployment")
def show_deployment(call: AuthorisedCall, job: JobId) -> Deployment:
    """Show the engine's command line for the setting that the job's tuning found best."""
    tuned, settings = _job(call, job), call.settings
    with open_warehouse(settings.warehouse_file) as con:
        report = tuning_report(con, tuned.job_id, tuned.study) if tuned.study.tune else None
    words = None if report is None else speculation_words(settings.engines_file, settings.models_dir, report.deployed)
    return Deployment(command_line=words)


@router.get("/jobs/{job}/runs")
def list_runs(call: AuthorisedCall, job: JobId) -> list[dict[str, Any]]:
    """List the job's runs in the warehouse, with the columns of the view `results`."""
    job_id = _job_id_of_runs(call, job)
    with open_warehouse(call.settings.warehouse_file) as con:
        found = con.execute("SELECT * FROM results WHERE job_id = ? ORDER BY started_at, run_id", [job_id])
        answer = SqlResult(found.to_arrow_table())
    return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows()]


@router.get("/jobs/{job}/log", response_class=PlainTextResponse)
def show_log(call: AuthorisedCall, job: JobId, lines: Annotated[int, Query(ge=1, le=10_000)] = 200) -> str:
    """Show the end of the engine's log."""
    found = _job(call, job)
    return log_tail(call.settings, found.job_id, lines, found.progress)


@router.get("/jobs/{job}/runs/{run_id}/bundle", response_class=FileResponse)
def download_bundle(call: AuthorisedCall, job: JobId, run_id: RunId) -> FileResponse:
    """Download everything behind one run's numbers: a tar file of its bundle."""
    job_id = _job_id_of_runs(call, job)
    folder = local_bundle(call.settings, job_id, run_id)
    if not folder.is_dir():
        raise UnknownNameError(f"there is no run {run_id} of job {job_id}")
    with tempfile.NamedTemporaryFile(suffix=".tar", delete=False) as file:
        path = file.name
        try:
            with tarfile.open(fileobj=file, mode="w") as archive:
                archive.add(folder, arcname=run_id)
        except BaseException:
            _remove(path)
            raise
    return FileResponse(
        path,
        media_type="application/x-tar",
        filename=f"{run_id}.tar",
        stat_result=pathlib.Path(path).stat(),
        background=BackgroundTask(_remove, path),
    )


def _remove(path: str) -> None:
    pathlib.Path(path).unlink(missing_ok=True)


def _job_id_of_runs(call: Call, name: str) -> str:
    """Return the id under which the job's runs are stored; imported jobs are not in the queue."""
    try:
        return queue.job_id_of(call.database, name)
    except UnknownNameError:
        is_here = _PLAIN.fullmatch(name) and (call.settings.bundles / name).is_dir()
        if is_here and curated.find(call.database, name).deleted_at is None:
            return name
        raise


def _job(call: Call, name: str) -> Job:
    return queue.job(call.database, queue.job_id_of(call.database, name))


def _document(job: Job, *, with_study: bool = False) -> JobDocument:
    values = dict(vars(job)) | {"outcome": job.outcome}
    values["progress"] = None if job.progress is None else json.loads(job.progress.model_dump_json())
    values["study"] = job.study.model_dump(mode="json") if with_study else None
    return JobDocument.model_validate(values)


def _poll(database: sa.Engine, job_id: str) -> tuple[str, bool]:
    now = queue.job(database, job_id)
    return _document(now).model_dump_json(), now.state in FINISHED


_WATCHING = Watching(_poll)
