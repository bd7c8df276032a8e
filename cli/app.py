"""The `drafthouse` command: one thin function a verb."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import asdict
from typing import Annotated

import typer

from cli import (
    analysis,
    datasets,
    jobs,
    prices,
)
from cli import (
    export as export_verbs,
)
from cli import follow as demos
from cli import (
    import_results as import_verbs,
)
from cli import (
    published as published_verbs,
)
from cli import (
    replicate as replicate_verb,
)
from cli.output import print_json, print_table
from cli.studies import named_study, show_plan, show_presets
from jobs import queue
from lab.errors import UserError
from services import doctor as doctors
from services import supervisor
from services.signals import stopped_by_signal
from warehouse.migrate import migrate as migrate_home
from warehouse.sandbox import runner
from warehouse.settings import load_settings

app = typer.Typer(
    help="A lab for speculative decoding: measure whether a draft model pays, and believe the result.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
AsReference = Annotated[
    bool, typer.Option("--reference", help="Scaled down to the reference pair, for minutes on a machine without a GPU.")
]
StudyName = Annotated[
    str, typer.Argument(help="A preset, or a study in TOML or JSON; - reads TOML from standard input.")
]
_TEND_EVERY_S = 0.25
app.add_typer(datasets.app, name="datasets")
app.add_typer(prices.app, name="prices")
for verb in (*jobs.VERBS, *analysis.VERBS):
    app.command()(verb)
app.command("import")(import_verbs.import_results)
app.command()(export_verbs.export)
app.command()(published_verbs.published)
app.command()(replicate_verb.replicate)


def main() -> None:
    """Run the command. What the user can mend is one sentence on stderr and exit status 2."""
    try:
        app()
    except UserError as error:
        sys.stderr.write(f"drafthouse: {error}\n")
        raise SystemExit(2) from None


@app.command()
def up() -> None:
    """Start the broker, a worker, the ingester and the page; Ctrl-C stops them all."""
    settings = load_settings()
    with stopped_by_signal(), supervisor.running(settings) as services:
        print(f"Drafthouse is up: {supervisor.page_url(settings)}  (state in {settings.home.absolute()}, Ctrl-C stops)")
        _tend_for_ever(services)


@app.command()
def demo(
    *,
    leave: Annotated[bool, typer.Option("--exit", help="Stop when the study is done instead of keeping up.")] = False,
) -> None:
    """Start everything, run the demo study on this machine and show where its results are."""
    settings = load_settings()
    published = False
    with stopped_by_signal(), supervisor.running(settings) as services:
        published = demos.run_demo(settings, services.tend)
        if not leave:
            _tend_for_ever(services)
    raise SystemExit(0 if published or not leave else 1)


@app.command()
def submit(
    study: StudyName,
    *,
    reference: AsReference = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it has ended; exit status 1 if it failed.")] = False,
    priority: Annotated[int, typer.Option(help="Higher runs earlier.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Put a study into the queue."""
    settings = load_settings()
    job_id = queue.submit(settings, named_study(study, reference=reference), priority=priority)
    if as_json:
        print_json({"job_id": job_id, "url": demos.results_url(settings, job_id)})
    else:
        print(f"{job_id} is queued; results: {demos.results_url(settings, job_id)}", flush=True)
    if wait:
        done = demos.follow(settings, job_id, tend=lambda: None)
        raise SystemExit(0 if done.state == "done" and demos.all_runs_published(settings, done) else 1)


@app.command()
def presets(*, as_json: AsJson = False) -> None:
    """List the published experiments that can be submitted by name."""
    show_presets(as_json=as_json)


@app.command()
def plan(study: StudyName, *, reference: AsReference = False, as_json: AsJson = False) -> None:
    """Say what a study asks of this machine: engine starts, runs, and about how long it takes."""
    show_plan(load_settings(), named_study(study, reference=reference), as_json=as_json)


@app.command()
def sql(
    query: Annotated[str, typer.Argument(help='One statement, for example "select * from results".')],
    *,
    as_json: AsJson = False,
) -> None:
    """Ask the published warehouse; nothing can be changed by it."""
    answer = runner.run_sql(load_settings(), query)
    rows = answer.rows()
    if as_json:
        print_json([dict(zip(answer.columns, row, strict=True)) for row in rows])
    else:
        print_table(answer.columns, rows)
    if answer.truncated:
        sys.stderr.write(f"drafthouse: {answer.left_out}: add a limit or aggregate\n")


@app.command()
def rebuild() -> None:
    """Make the warehouse anew from the bundles alone."""
    from warehouse.ingest.rebuild import rebuild as rebuild_warehouse  # noqa: PLC0415 - it judges runs, with SciPy

    settings = load_settings()
    rebuild_warehouse(settings)
    print(f"{settings.warehouse_file} was made anew from the bundles in {settings.bundles}")


@app.command()
def migrate() -> None:
    """Bring both databases to the revision of this Drafthouse; safe to repeat."""
    settings = load_settings()
    migrate_home(settings)
    print(f"both databases of {settings.home.absolute()} are up to date")


@app.command()
def doctor(*, as_json: AsJson = False) -> None:
    """Say what is installed and what is missing, with what to do; exit status 1 when something is."""
    findings = doctors.examine(load_settings())
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        rows = [("ok" if f.ok else "MISSING", f.what, f.found, f.remedy) for f in findings]
        print_table(("", "what", "found", "what to do"), rows)
    raise SystemExit(0 if all(finding.ok for finding in findings) else 1)


@app.command()
def worker() -> None:
    """Run one worker in the foreground: what a GPU host starts."""
    load_settings()
    _become(supervisor.worker_command())


@app.command()
def ingester() -> None:
    """Run the ingester in the foreground: one per warehouse."""
    load_settings()
    _become(supervisor.ingester_command())


@app.command()
def web() -> None:
    """Run the page in the foreground."""
    load_settings()
    _become(supervisor.web_command())


def _tend_for_ever(services: supervisor.Services) -> None:
    """Until a signal ends it."""
    while True:
        services.tend()
        time.sleep(_TEND_EVERY_S)


def _become(command: tuple[str, ...]) -> None:
    sys.stdout.flush()
    os.execv(command[0], command)  # noqa: S606 - the same process, so that signals and exit status are the service's own
