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
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from cli.output import print_error, print_literally, print_text
from host.private_files import write_for_nobody_else
from lab.errors import UserError

#: Where each verb is in `cli.verbs`, as folder.module:function or folder.module:app, in the order of `--help`.
PANELS: dict[str, dict[str, str]] = {
    "Measure": {
        "demo": "operate.up:demo",
        "presets": "measure.plan:presets",
        "datasets": "measure.datasets:app",
        "plan": "measure.plan:plan",
        "submit": "measure.submit:submit",
        "jobs": "measure.jobs:jobs",
        "cancel": "measure.jobs:cancel",
        "retry": "measure.jobs:retry",
        "priority": "measure.jobs:priority",
        "series": "measure.series:app",
        "bisect": "measure.bisect:bisect",
        "logs": "measure.jobs:logs",
        "study": "measure.study:app",
    },
    "Analyse": {
        "compare": "analyse.compare:compare",
        "gate": "analyse.gate:gate",
        "acceptance": "analyse.acceptance:acceptance",
        "advise": "analyse.advise:advise",
        "report": "analyse.report:report",
        "tune": "analyse.tune:tune",
        "cost": "analyse.cost:cost",
        "prices": "analyse.prices:app",
        "checks": "analyse.checks:checks",
        "sql": "analyse.sql:sql",
    },
    "Exchange results": {
        "import": "exchange.import_results:import_results",
        "export": "exchange.export:export",
        "published": "exchange.published:published",
        "pull": "exchange.pull:pull",
        "replicate": "exchange.replicate:replicate",
    },
    "Operate": {
        "up": "operate.up:up",
        "install": "operate.install:install",
        "kit": "operate.kit:kit",
        "doctor": "operate.doctor:doctor",
        "verify": "operate.verify:verify",
        "neighbours": "operate.neighbours:neighbours",
        "user": "operate.user:app",
        "token": "operate.token:app",
        "migrate": "operate.databases:migrate",
        "archive": "operate.archive:archive",
        "rebuild": "operate.databases:rebuild",
        "worker": "operate.worker:app",
        "workers": "operate.workers:workers",
        "ingester": "operate.up:ingester",
        "web": "operate.up:web",
    },
}
#: Verbs that compute: while a run is measured on this machine they lower their priority, and the run records them.
_HEAVY = {*PANELS["Analyse"], *PANELS["Exchange results"], "rebuild", "archive"} - {"sql"}
VERBS = {name: target for verbs in PANELS.values() for name, target in verbs.items()}
#: Verbs for the lab's own machine only; all others also work on a lab elsewhere.
OF_THE_MACHINE = {*PANELS["Operate"], "demo", "series", "bisect"}
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
    """Announce the verb on this machine. Invalid settings are reported by the verb itself."""
    from host.quiet import command  # noqa: PLC0415 - `drafthouse --help` does without
    from host.settings import load_settings  # noqa: PLC0415 - likewise

    try:
        return command(load_settings().home, f"drafthouse {verb}")
    except UserError:
        return nullcontext()


def load(name: str) -> TyperCommand | TyperGroup:
    """Import a verb's module and build its command."""
    module, _, attribute = VERBS[name].partition(":")
    target = getattr(importlib.import_module(f"cli.verbs.{module}"), attribute)
    if not isinstance(target, typer.Typer):
        function, target = target, typer.Typer(add_completion=False)
        target.command(name)(function)
    command = typer.main.get_command(target)
    assert isinstance(command, (TyperCommand, TyperGroup))  # noqa: S101 - Typer declares a wider type
    return command


def _first_paragraph(target: str) -> str:
    """Read the first paragraph of a verb's docstring from its file."""
    module, _, attribute = target.partition(":")
    source = (Path(__file__).parent / "verbs" / module.replace(".", "/")).with_suffix(".py").read_text("utf-8")
    begin = "@app.callback" if attribute == "app" else f"def {attribute}("
    docstring = source[source.index(begin) :].split('"""')[1]
    return " ".join(docstring.partition("\n\n")[0].split())


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - Typer calls it
    if wanted:
        print_text(f"drafthouse {metadata.version('drafthouse')}")
        raise typer.Exit


def _options() -> list[Any]:
    """Return the options of the whole command, which come before the verb."""

    def options(
        server: Server = None,
        version: Annotated[  # noqa: FBT002 - an option
            bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit.")
        ] = False,
    ) -> None: ...

    typed = typer.Typer(add_completion=False)
    typed.callback()(options)
    typed.command("nothing")(lambda: None)
    return list(typer.main.get_command(typed).params)


def command_line() -> LazyGroup:
    """Build the whole command without importing a verb."""
    return LazyGroup(
        name="drafthouse",
        commands=[
            TyperCommand(name, help=_first_paragraph(target), rich_help_panel=panel)
            for panel, verbs in PANELS.items()
            for name, target in verbs.items()
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
        print_literally(traceback.format_exc(), end="", on_stderr=True)  # the message may quote untrusted text
        raise SystemExit(1) from None


def _write_whatever_can_be_encoded() -> None:
    """Write "?" for characters that the console cannot encode."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
