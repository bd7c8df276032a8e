"""`drafthouse tune`: find the draft and the number of drafted tokens for every load, and the schedule to deploy."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from cli import follow
from cli.arguments import AsJson, AsReference
from cli.lab import Lab, the_lab
from cli.named_study import named_study
from cli.output import print_json, print_literally, print_table, print_text
from jobs.presets import preset_names
from jobs.table import Job
from lab.errors import UserError
from lab.metrics import number_format
from lab.study import Study
from lab.tuning.beginning import tuning_of
from lab.tuning.report import Measured, Report
from warehouse.queries.comparing.paired_runs import jobs_of
from warehouse.queries.comparing.tunings import tuning_report
from warehouse.queries.connect import open_warehouse

StudyOrJob = Annotated[
    str,
    typer.Argument(help="A file, preset, or study with results; or the job of a tuning, to print its result."),
]
Ks = Annotated[list[int] | None, typer.Option("-k", help="Drafted tokens to try; repeatable; default: 1 to 5.")]
Budget = Annotated[float | None, typer.Option(help="Minutes it may take.")]


def tune(
    study: StudyOrJob,
    *,
    k: Ks = None,
    budget_minutes: Budget = None,
    reference: AsReference = False,
    as_json: AsJson = False,
) -> None:
    """Find the best draft and number of drafted tokens for every load, measure it, and print what to deploy.

    The study's arms with speculation are the drafts. A finished tuning is printed at once.
    """
    here = the_lab()
    job = _job(here, study)
    if job is None or job.study.tune is None:
        to_tune = named_study(study, reference=reference) if job is None else job.study
        job = _measured(here, tuning_of(to_tune, drafted_tokens=k or (), budget_minutes=budget_minutes))
    with open_warehouse(here.warehouse_file) as con:
        report = tuning_report(con, job.job_id, job.study)
    if report is None:
        raise UserError(f"job {job.job_id} has no load with runs with and without speculation: see its runs")
    words = here.deployment(job.job_id, report.deployed)
    if as_json:
        print_json(_as_dict(job, report, words))
    else:
        _show(job, report, words, follow.results_url(here.public_url, job.job_id).replace("/results", "/deploy"))


def _job(here: Lab, name: str) -> Job | None:
    """Return the newest job of a study with results; None for the name of a file or preset."""
    if name == "-" or Path(name).is_file() or name in preset_names():
        return None
    with open_warehouse(here.warehouse_file) as con:
        return here.job(jobs_of(con, name)[-1])


def _measured(here: Lab, study: Study) -> Job:
    """Submit the study and wait for its end, with its progress on stderr. Raises UserError if it failed."""
    job_id = here.submit(study)
    ended = follow.follow(here, job_id, on_stderr=True)
    if ended.state != "done":
        raise UserError(f"job {job_id} {ended.outcome}: {ended.error or 'see its log'}")
    follow.all_there(here, ended)
    return ended


def _as_dict(job: Job, report: Report, words: str | None) -> dict[str, Any]:
    arms = {"single": report.single, "scheduled": report.scheduled, "deployed": report.deployed}
    named = {
        name: None if arm is None else arm.model_dump(mode="json", exclude_defaults=True) for name, arm in arms.items()
    }
    costs = [asdict(measured) for measured in report.cost_of_nothing]
    plain = {key: value for key, value in asdict(report).items() if key not in arms}
    return {"job_id": job.job_id, **plain, **named, "cost_of_nothing": costs, "command_line": words}


def _show(job: Job, report: Report, words: str | None, url: str) -> None:
    print_text(f"{job.study.name} ({job.job_id}): {report.ended or 'still measuring'}, {report.runs} runs; {url}\n")
    head = ("requests at once", "setting", "k", "speed-up", "stands on")
    print_table(
        head, [(measured.load, measured.arm, measured.k, ratio(measured), measured.basis) for measured in report.best]
    )
    print_text(f"\nOne setting for all loads: {report.single.name}")
    print_text("By load: " + "; ".join(f"{first} to {last}: k = {k}" for first, last, k in report.ranges))
    if report.caveats:
        print_text(report.caveats)
    print_text(f"To deploy: {report.deployed.name}")
    drafted = report.deployed.speculation
    as_study = {} if drafted is None else drafted.model_dump(mode="json", exclude_defaults=True)
    print_literally(f"  {words or json.dumps(as_study)}")
    if report.final:
        print_text("\nMeasured at the end, beside no speculation:")
        head = ("requests at once", "arm", "k", "speed-up", "verdict")
        rows = sorted(report.final, key=lambda measured: (measured.load, measured.arm))
        print_table(
            head, [(measured.load, measured.arm, measured.k, ratio(measured), measured.verdict) for measured in rows]
        )
    for measured in report.cost_of_nothing:
        print_text(
            f"With a draft loaded that drafts nothing, {measured.load} requests at once: {ratio(measured)} of the "
            f"speed without speculation"
        )


def ratio(measured: Measured) -> str:
    if measured.ratio is None:
        return "unknown"
    return number_format.ratio(measured.ratio, measured.low, measured.high)
