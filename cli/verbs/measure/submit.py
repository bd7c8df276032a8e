"""`drafthouse submit`."""

from __future__ import annotations

from typing import Annotated

import typer

from cli import follow
from cli.arguments import AsJson, AsReference, OnEngine, StudyName, Wait
from cli.lab import the_lab
from cli.named_study import named_study
from cli.output import print_json, print_text
from cli.progress import runs_ended
from lab.study.parsing import measured_until_decided


def submit(
    study: StudyName,
    *,
    reference: AsReference = False,
    engine: OnEngine = None,
    wait: Wait = False,
    priority: Annotated[int, typer.Option(help="Higher values run earlier.")] = 0,
    budget: Annotated[
        str | None,
        typer.Option("--until-decided", help='Measure until decided, at most this long: "45 min".'),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Put a study into the queue."""
    here = the_lab()
    named = named_study(study, reference=reference, engine=engine)
    named = named if budget is None else measured_until_decided(named, budget)
    job_id = here.submit(named, priority)
    if as_json:
        print_json({"job_id": job_id, "url": follow.results_url(here.public_url, job_id)})
    else:
        print_text(f"{job_id} is queued; results: {follow.results_url(here.public_url, job_id)}")
    if wait:
        ended = follow.follow_to_results(here, job_id, on_stderr=as_json)
        follow.fail_if_runs_failed(ended)
        if not as_json:
            print_text(f"{job_id} is {ended.outcome}" if ended.lost else f"{job_id} is done: {runs_ended(ended)} runs")
