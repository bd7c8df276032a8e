"""`drafthouse replicate`: repeat a published experiment, and show both results side by side."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.arguments import AsJson, AsReference, Wait
from cli.follow import fail_if_runs_failed, follow_to_results, results_url
from cli.lab import Lab, the_lab
from cli.output import print_json, print_table, print_text
from jobs.presets import load_preset
from jobs.table import ACTIVE
from lab.metrics.number_format import number, times
from lab.published.book import preset_of
from lab.published.replication import PairedFigure
from lab.study import Study
from warehouse.queries.connect import open_warehouse
from warehouse.queries.published import paired_figures, repeating_job

SourceName = Annotated[str, typer.Argument(help="A source, as `drafthouse published` lists it.")]
ItsStudy = Annotated[str | None, typer.Option("--study", help="Which of its experiments, if it has several.")]
Again = Annotated[bool, typer.Option("--again", help="Measure it again.")]


def replicate(
    source: SourceName,
    *,
    study: ItsStudy = None,
    reference: AsReference = False,
    again: Again = False,
    wait: Wait = False,
    as_json: AsJson = False,
) -> None:
    """Repeat a published experiment, then show both results side by side.

    Submits the preset that repeats the experiment, unless it has run already.
    """
    here = the_lab()
    name = preset_of(source, study)
    ours = load_preset(name, reference=reference)
    with open_warehouse(here.warehouse_file) as con:
        job_id = None if again else repeating_job(con, ours.name)
    ended = None
    if job_id is None:
        active = None if again else _active_job(here, ours)
        job_id = active or here.submit(ours)
        if not wait:
            more = (f" --study {study}" if study else "") + (" --reference" if reference else "")
            _show_queued(results_url(here.public_url, job_id), f"{source}{more}", job_id, as_json=as_json)
            return
        ended = follow_to_results(here, job_id, on_stderr=as_json)
    _show(here.warehouse_file, source, name, job_id, as_json=as_json)
    if ended is not None:
        fail_if_runs_failed(ended)


def _active_job(here: Lab, study: Study) -> str | None:
    """Return a queued or running job of this study."""
    return next((job.job_id for job in here.page(None).jobs if job.state in ACTIVE and job.name == study.name), None)


def _show_queued(url: str, arguments: str, job_id: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"job_id": job_id, "url": url, "figures": []})
    else:
        print_text(f"{job_id} is queued or running; results: {url}")
        print_text(f"Once it has run, `drafthouse replicate {arguments}` shows both side by side.")


def _show(warehouse_file: Path, source: str, name: str, job_id: str, *, as_json: bool) -> None:
    with open_warehouse(warehouse_file) as con:
        figures = paired_figures(con, source, name, job_id)
    if as_json:
        print_json({"job_id": job_id, "figures": [asdict(figure) | {"ratio": figure.ratio} for figure in figures]})
        return
    print_text(f"{source} beside {job_id}\n")
    print_table(("setting", "metric", "published", "here", "here / there"), map(_row, figures))
    differences = dict.fromkeys(difference for figure in figures for difference in figure.differences)
    print_text("\nKnown differences:" if differences else "\nNo differences are known.")
    for difference in differences:
        print_text(f"  {difference}")
    missing = sum(figure.ours is None for figure in figures)
    if missing:
        print_text(f"{missing} of {len(figures)} figures have no counterpart here.")


def _row(beside: PairedFigure) -> tuple[Any, ...]:
    figure = beside.figure
    drafted = figure.num_speculative_tokens
    method = figure.method if drafted is None else f"{figure.method} k = {drafted}"
    draft = (figure.draft_model or "").rpartition("/")[2]
    parts = (figure.engine, method, draft, figure.dataset, figure.access_pattern, figure.load)
    unit = figure.unit if figure.scale == "absolute" else f"{figure.unit} ({figure.scale})"
    shown = "" if beside.ours is None else number(beside.ours)
    ratio = "" if beside.ratio is None else times(beside.ratio)
    return (", ".join(part for part in parts if part), figure.metric, f"{figure.printed} {unit}", shown, ratio)
