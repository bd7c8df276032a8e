"""`drafthouse neighbours`: what busy other slots cost a run."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from cli.arguments import AsJson, AsReference, StudyName
from cli.follow import follow
from cli.here import Here
from cli.lab import ready_settings
from cli.named_study import named_study
from cli.output import print_json, print_table, print_text
from jobs.fleet.worker_registry import list_workers
from lab.errors import UserError
from lab.metrics.number_format import ratio
from lab.study import Study
from services.neighbours import FILE, METRICS, Neighbours, Round, compared, conditions, slots_up


def neighbours(
    study: StudyName,
    *,
    rounds: Annotated[int, typer.Option(min=2, help="Times to measure both.")] = 4,
    reference: AsReference = False,
    as_json: AsJson = False,
) -> None:
    """Measure the first cell of a study alone on this host and with all slots busy, and store the ratio.

    `drafthouse up` must be running with at least two slots.
    """
    settings, named = ready_settings(), named_study(study, reference=reference)
    here = Here(settings)
    slots = slots_up(list_workers(here.database))
    alone, beside = conditions(named, slots)
    done = [Round(_measured(here, alone, quiet=as_json), _measured(here, beside, quiet=as_json)) for _ in range(rounds)]
    found = compared(settings, done, slots)
    (settings.home / FILE).write_text(json.dumps(asdict(found)) + "\n", encoding="utf-8")
    if as_json:
        print_json(asdict(found))
    else:
        _print(found)


def _measured(here: Here, study: Study, *, quiet: bool) -> str:
    job_id = here.submit(study)
    ended = follow(here, job_id, on_stderr=quiet)
    if ended.state != "done":
        raise UserError(f"job {job_id} ended as {ended.state}: {ended.error or 'see `drafthouse logs`'}")
    return job_id


def _print(found: Neighbours) -> None:
    rows = [(METRICS[each.metric], ratio(each.ratio, each.low, each.high)) for each in found.ratios]
    print_table(("with neighbours over alone", "ratio, 95 % interval"), rows)
    print_text(
        f"{found.arm}, {found.workload}, {found.load}: {len(found.rounds)} rounds on {found.slots} slots, "
        f"{found.runs_beside} runs with all neighbours."
    )
