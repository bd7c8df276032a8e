"""`drafthouse replicate`: a published experiment once more, and both side by side."""

# ruff: noqa: PLC0415 - pandas and SciPy are imported when they are asked for: they cost every other command a second
from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli import follow as demos
from cli.output import print_json, print_table
from jobs import queue
from jobs.presets import load_preset
from lab.study import Study
from warehouse.app_db.engine import app_engine
from warehouse.queries.connect import open_warehouse
from warehouse.settings import Settings, load_settings

if TYPE_CHECKING:
    from lab.published.replication import Beside

SourceName = Annotated[str, typer.Argument(help="A source, as `drafthouse published` lists it.")]
ItsStudy = Annotated[str | None, typer.Option("--study", help="Which of its experiments, where it has several.")]
AsReference = Annotated[bool, typer.Option("--reference", help="Scaled down to the reference pair.")]
Again = Annotated[bool, typer.Option("--again", help="Measure it once more, though it was measured before.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until it has ended; exit status 1 if it failed.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def replicate(
    source: SourceName,
    *,
    study: ItsStudy = None,
    reference: AsReference = False,
    again: Again = False,
    wait: Wait = False,
    as_json: AsJson = False,
) -> None:
    """Submit the preset that repeats a published experiment; once it has run, show both side by side."""
    from warehouse.published.book import preset_of
    from warehouse.queries.published import repeating_job

    settings = load_settings()
    name = preset_of(source, study)
    ours = load_preset(name, reference=reference)
    with open_warehouse(settings.warehouse_file) as con:
        job_id = None if again else repeating_job(con, ours.name)
    if job_id is None:
        job_id = _on_its_way(settings, ours, again=again) or queue.submit(settings, ours)
        if not wait:
            more = (f" --study {study}" if study else "") + (" --reference" if reference else "")
            _say_queued(settings, f"{source}{more}", job_id, as_json=as_json)
            return
        done = demos.follow(settings, job_id, tend=lambda: None)
        if done.state != "done" or not demos.all_runs_published(settings, done):
            raise SystemExit(1)
    _show(settings, source, name, job_id, as_json=as_json)


def _on_its_way(settings: Settings, study: Study, *, again: bool) -> str | None:
    """A job of this study that waits or runs."""
    active = [job for job in queue.jobs(app_engine(settings.app_database_url)) if job.state in ("queued", "running")]
    return next((job.job_id for job in active if job.name == study.name and not again), None)


def _say_queued(settings: Settings, asked: str, job_id: str, *, as_json: bool) -> None:
    url = demos.results_url(settings, job_id)
    if as_json:
        print_json({"job_id": job_id, "url": url, "figures": []})
    else:
        print(f"{job_id} is on its way; results: {url}")
        print(f"Once it has run, `drafthouse replicate {asked}` shows both side by side.")


def _show(settings: Settings, source: str, name: str, job_id: str, *, as_json: bool) -> None:
    from warehouse.queries.published import beside

    with open_warehouse(settings.warehouse_file) as con:
        found = beside(con, source, name, job_id)
    if as_json:
        print_json({"job_id": job_id, "figures": [_as_dict(each) for each in found]})
        return
    print(f"{source} beside {job_id}\n")
    print_table(("setting", "metric", "published", "here", "here / there"), map(_row, found))
    differences = dict.fromkeys(difference for each in found for difference in each.differences)
    print("\nWhat differs besides:" if differences else "\nNothing else is known to differ.")
    for difference in differences:
        print(f"  {difference}")
    missing = sum(each.ours is None for each in found)
    if missing:
        print(f"{missing} of {len(found)} figures have nothing here to stand beside.")


def _row(each: Beside) -> tuple[Any, ...]:
    figure = each.figure
    drafted = figure.num_speculative_tokens
    method = figure.method if drafted is None else f"{figure.method} k = {drafted}"
    draft = (figure.draft_model or "").rpartition("/")[2]
    parts = (figure.engine, method, draft, figure.dataset, figure.access_pattern, figure.load)
    unit = figure.unit if figure.scale == "absolute" else f"{figure.unit} ({figure.scale})"
    shown = "" if each.ours is None else f"{each.ours:.4g}"
    ratio = "" if each.ratio is None else f"{each.ratio:.2f}"
    return (", ".join(part for part in parts if part), figure.metric, f"{figure.printed} {unit}", shown, ratio)


def _as_dict(each: Beside) -> dict[str, Any]:
    return asdict(each) | {"ratio": each.ratio}
