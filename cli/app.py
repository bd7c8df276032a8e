"""The `drafthouse` command: a table of verbs, each imported only when it is called.

Otherwise `drafthouse --help` and the short verbs would wait seconds for pandas, SciPy and SQLAlchemy.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
import traceback
from contextlib import AbstractContextManager, nullcontext
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from cli.output import print_error, print_literally
from host.private_files import write_for_nobody_else
from lab.errors import UserError


class Verb(NamedTuple):
    """A command: where it is in `cli.verbs`, as folder.module:function or folder.module:Typer, and its help."""

    target: str
    help: str


#: In the order of `--help`. A test holds each line to the docstring's first paragraph.
PANELS: dict[str, dict[str, Verb]] = {
    "Measure": {
        "demo": Verb(
            "operate.up:demo",
            "Start everything, run the demo study here, and print its answer and the address of its results.",
        ),
        "presets": Verb("measure.plan:presets", "List the published experiments that can be submitted by name."),
        "datasets": Verb("measure.datasets:app", "List the datasets, and register or remove your own."),
        "plan": Verb(
            "measure.plan:plan",
            "Show what a study needs: engine starts, runs, requests, time, and the problems to fix first.",
        ),
        "submit": Verb("measure.submit:submit", "Put a study into the queue."),
        "jobs": Verb("measure.jobs:jobs", "List the newest 200 jobs, and all that are queued or running."),
        "cancel": Verb("measure.jobs:cancel", "Stop a job; its finished runs stay in the warehouse."),
        "retry": Verb("measure.jobs:retry", "Queue an ended job again; only its missing and failed runs are measured."),
        "priority": Verb(
            "measure.priority:priority", "Change a queued job's priority; of equals, those who submitted take turns."
        ),
        "logs": Verb("measure.logs:logs", "Show the end of the engine's log of a job."),
    },
    "Analyse": {
        "compare": Verb(
            "analyse.compare:compare", "Compare each arm with the baseline: ratio, 95 % interval and verdict."
        ),
        "acceptance": Verb(
            "analyse.acceptance:acceptance", "Show how many drafted tokens each arm accepted, and where."
        ),
        "advise": Verb(
            "analyse.advise:advise", "Recommend for each workload and load whether to enable speculation, and why."
        ),
        "report": Verb(
            "analyse.report:report",
            "Report a study's answer, verdicts and a picture in Markdown, for a pull request or a chat.",
        ),
        "tune": Verb(
            "analyse.tune:tune",
            "Find the best draft and number of drafted tokens for every load, measure it, and print what to deploy.",
        ),
        "cost": Verb("analyse.cost:cost", "Show what a million tokens cost with each arm, and what an arm saves."),
        "prices": Verb("analyse.prices:app", "Show and edit the price book: what an hour of hardware costs, by date."),
        "checks": Verb(
            "analyse.checks:checks", "List the validity checks that judge every run, with thresholds and advice."
        ),
        "sql": Verb("analyse.sql:sql", "Query the published warehouse; a query cannot change it."),
    },
    "Exchange results": {
        "import": Verb(
            "exchange.import_results:import_results",
            "Import result files of other tools: all that are named or none; of a folder, all that can be read.",
        ),
        "export": Verb(
            "exchange.export:export", "Export a study's runs to a folder or a file; the suffix chooses the format."
        ),
        "published": Verb(
            "exchange.published:published", "List published figures by source, with the doubts about them."
        ),
        "pull": Verb("exchange.pull:pull", "Fetch a lab's warehouse as a DuckDB file, if it changed."),
        "replicate": Verb(
            "exchange.replicate:replicate", "Repeat a published experiment, then show both results side by side."
        ),
    },
    "Operate": {
        "up": Verb(
            "operate.up:up", "Start the broker, a worker, the ingester and the web page; Ctrl-C stops them all."
        ),
        "doctor": Verb(
            "operate.doctor:doctor", "Check what is installed and running, and say how to fix what is missing."
        ),
        "verify": Verb(
            "operate.verify:verify", "Measure on this host whether engines, methods, telemetry and client are right."
        ),
        "neighbours": Verb(
            "operate.neighbours:neighbours",
            "Measure the first cell of a study alone on this host and with all slots busy, and store the ratio.",
        ),
        "user": Verb("operate.user:app", "Say who may open the page, and whether they look, submit or administer."),
        "token": Verb("operate.token:app", "Make, list and end the tokens with which programs use the API."),
        "migrate": Verb(
            "operate.databases:migrate", "Create both databases, or upgrade them to this version; safe to repeat."
        ),
        "archive": Verb(
            "operate.archive:archive",
            "Move the requests of old runs out of the warehouse's file into Parquet files; SQL reads them as before.",
        ),
        "rebuild": Verb("operate.databases:rebuild", "Rebuild the warehouse from the bundles alone."),
        "worker": Verb(
            "operate.up:worker",
            "Run this host's workers in the foreground: one for each slot, or that of DRAFTHOUSE_SLOT.",
        ),
        "ingester": Verb("operate.up:ingester", "Run the ingester in the foreground; a warehouse has exactly one."),
        "web": Verb("operate.up:web", "Run the web page in the foreground."),
    },
}
#: These compute: while a run is measured on this machine they step back, and the run records them.
_HEAVY = {*PANELS["Analyse"], *PANELS["Exchange results"], "rebuild", "archive"} - {"sql"}
VERBS = {name: verb for verbs in PANELS.values() for name, verb in verbs.items()}
#: These are for the machine of the lab; all others work on a lab elsewhere, too.
OF_THE_MACHINE = {*PANELS["Operate"], "demo"}
SERVER = "DRAFTHOUSE_SERVER"
Server = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help=f"Work on the lab at this address, with the token in DRAFTHOUSE_TOKEN; by default {SERVER}.",
    ),
]


class LazyGroup(TyperGroup):
    """Lists commands from the table, and imports the one that is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, _, rest = super().resolve_command(ctx, args)
        if ctx.params.get("server"):
            os.environ[SERVER] = ctx.params["server"]
        if name in OF_THE_MACHINE and os.environ.get(SERVER):
            raise UserError(
                f"`drafthouse {name}` is for the lab's own machine: run it there, or leave out --server and {SERVER}"
            )
        if name in _HEAVY:
            ctx.with_resource(_announced(name))
        return name, None if name is None else load(name), rest


def _announced(verb: str) -> AbstractContextManager[None]:
    """Announce the verb on this machine. Settings that cannot be used are the verb's own business."""
    from host.quiet import command  # noqa: PLC0415 - `drafthouse --help` does without
    from host.settings import load_settings  # noqa: PLC0415 - likewise

    try:
        return command(load_settings().home, f"drafthouse {verb}")
    except UserError:
        return nullcontext()


def load(name: str) -> TyperCommand | TyperGroup:
    """Import a verb's module and build its command."""
    module, _, attribute = VERBS[name].target.partition(":")
    target = getattr(importlib.import_module(f"cli.verbs.{module}"), attribute)
    if not isinstance(target, typer.Typer):
        function, target = target, typer.Typer(add_completion=False)
        target.command(name)(function)
    command = typer.main.get_command(target)
    assert isinstance(command, (TyperCommand, TyperGroup))  # noqa: S101 - Typer declares a wider type
    return command


def _options() -> list[Any]:
    """Those of the whole command, before the verb."""

    def options(server: Server = None) -> None: ...

    typed = typer.Typer(add_completion=False)
    typed.callback()(options)
    typed.command("nothing")(lambda: None)
    return list(typer.main.get_command(typed).params)


def command_line() -> LazyGroup:
    """Build the whole command without importing a verb."""
    return LazyGroup(
        name="drafthouse",
        commands=[
            TyperCommand(name, help=verb.help, rich_help_panel=panel)
            for panel, verbs in PANELS.items()
            for name, verb in verbs.items()
        ],
        params=_options(),
        help="A lab for speculative decoding: measure whether a draft model pays, and believe the result.",
        no_args_is_help=True,
    )


def main() -> None:
    """Run the command. An error that the user can fix prints as one sentence on stderr, with exit status 2."""
    write_for_nobody_else()
    _write_whatever_can_be_encoded()
    try:
        command_line()(prog_name="drafthouse")
    except UserError as error:
        print_error(f"drafthouse: {error}")
        raise SystemExit(2) from None
    except Exception as error:  # noqa: BLE001 - shown whole, in a form that steers no terminal
        from warehouse.app_db.engine import DATABASE_ERRORS, database_words  # noqa: PLC0415 - SQLAlchemy

        if isinstance(error, DATABASE_ERRORS):
            print_error(f"drafthouse: the app database does not answer: {database_words(error)}")
            raise SystemExit(2) from None
        print_literally(traceback.format_exc(), end="", on_stderr=True)  # it may quote what others wrote
        raise SystemExit(1) from None


def _write_whatever_can_be_encoded() -> None:
    """On a console that knows few characters, write "?" for the others."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
