"""`drafthouse workers`: who measures, and what an operator does with hosts."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from access.local import local_actor
from cli.arguments import AsJson, only_one_of
from cli.here import Here
from cli.lab import ready_settings
from cli.output import print_json, print_table, print_text
from host.settings import Settings
from jobs.fleet import hosts, worker_registry
from jobs.fleet.blocks import jobs_at_work
from jobs.fleet.broker import look
from jobs.fleet.worker_registry import WorkerInfo, list_workers, wrong_clocks
from jobs.table import Job


def workers(
    *,
    mended: Annotated[str | None, typer.Option(metavar="HOST", help="Let a host set aside take studies again.")] = None,
    drain: Annotated[str | None, typer.Option(metavar="HOST", help="Drain a host's workers.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the workers: what each measures, or why it waits."""
    only_one_of(mended=mended, drain=drain, as_json=as_json)
    settings = ready_settings()
    database = Here(settings).database
    if drain is not None:
        drain_host(settings, drain)
        return
    if mended is not None:
        hosts.mend(database, mended, actor=local_actor())
        print_text(f"{mended} takes studies again")
        return
    running = jobs_at_work(database)
    rows = [_row(worker, running.get(worker.worker)) for worker in list_workers(database)]
    if as_json:
        print_json({"workers": rows, "set_aside": [asdict(host) for host in hosts.set_aside_hosts(database)]})
        return
    if rows:
        print_table(("worker", "state", "hardware", "engines"), [tuple(row.values())[:4] for row in rows])
    else:
        print_text("No worker has registered yet: start one with `drafthouse up` or `drafthouse worker`")
    for sentence in wrong_clocks(list_workers(database)):
        print_text(sentence)
    for aside in hosts.set_aside_hosts(database):
        print_text(f"{aside.host}: {aside.sentence}")


def drain_host(settings: Settings, host: str) -> None:
    """Ask a host's workers to drain, and say so."""
    names = worker_registry.drain(Here(settings).database, host, actor=local_actor())
    look(settings, names)
    count = "the worker" if len(names) == 1 else f"{len(names)} workers"
    print_text(f"{count} of {host} will end after the block that is measured")


def _row(worker: WorkerInfo, job: Job | None) -> dict[str, Any]:
    if worker.is_away():
        state = "away"
    elif job is not None:
        state = f"measures {job.job_id}, {job.name}"
    else:
        state = f"waits: {worker.waits_for}" if worker.waits_for else worker.idle_words
    state += ", drains" if worker.drains and not worker.is_away() else ""
    engines = "not reported yet" if worker.engines is None else ", ".join(sorted(worker.engine_names))
    return {"worker": worker.slot_name, "state": state, "hardware": worker.hardware, "engines": engines} | {
        "name": worker.worker,
        "clock_behind_s": worker.clock_behind_s,
    }
