"""`drafthouse bisect`: the first version of an engine with which a series is worse."""

from __future__ import annotations

from typing import Annotated, Literal

import sqlalchemy as sa
import typer

from access.local import local_actor
from cli import follow
from cli.arguments import AsJson
from cli.here import Here
from cli.lab import ready_database, ready_settings
from cli.output import print_json, print_text
from host.settings import Settings
from jobs.series import bisects, store
from jobs.series.bisects import About, Bisect
from lab.errors import UserError
from lab.series.alarm import MEASURES
from lab.series.bisect import End, described, next_step
from warehouse.queries.connect import open_warehouse
from workers.engine_runtime.versions import install_version, versions_between

_INCONCLUSIVE = 3
_BY_LABEL = {"speed-up": MEASURES[0], "acceptance-length": MEASURES[1]}


def bisect(
    series: Annotated[str, typer.Argument(metavar="SERIES", help="As `drafthouse series list` shows it.")],
    *,
    good: Annotated[str, typer.Option(help="A good version or commit.")],
    bad: Annotated[str, typer.Option(help="A later, bad one.")],
    over: Annotated[
        str, typer.Option(help='"vllm versions", "wheels in FOLDER" or "commits of REPO built by COMMAND".')
    ],
    measure: Annotated[Literal["speed-up", "acceptance-length"], typer.Option(help="What became worse.")] = "speed-up",
    arm: Annotated[str | None, typer.Option(help="The arm that did, if the series watches several.")] = None,
    anew: Annotated[bool, typer.Option("--anew", help="Begin again.")] = False,
    as_json: AsJson = False,
) -> None:
    """Find the first version of an engine with which a series is worse, while `drafthouse up` runs.

    The same command continues an interrupted one. Exit status 0: found; 3: inconclusive.
    """
    settings, database = ready_settings(), ready_database()
    of_series = store.named(database, series)
    about = About(bisects.arm_of(of_series, arm), _BY_LABEL[measure], over)
    versions = versions_between(over, good, bad)
    found = bisects.last(database, of_series, about)
    if found is None or anew:
        found = bisects.begin(database, of_series, about, versions, actor=local_actor())
    elif found.versions != versions:
        raise UserError(
            f"the bisect {found.bisect_id} covers {found.versions[0].name} to {found.versions[-1].name}, or their "
            "files have changed since: --anew begins again"
        )
    end = found.end or _halve(settings, database, found, quiet=as_json)
    if as_json:
        print_json({"bisect": found.bisect_id} | vars(end))
    else:
        print_text(f"{found.bisect_id}: {end.sentence}")
    raise SystemExit(0 if end.first_bad is not None else _INCONCLUSIVE)


def _halve(settings: Settings, database: sa.Engine, of: Bisect, *, quiet: bool) -> End:
    """Take steps until the end, which is stored."""
    say = (lambda _text: None) if quiet else print_text
    say(f"{of.bisect_id}: {len(of.versions)} versions, {of.versions[0].name} to {of.versions[-1].name}")
    shown = 0
    while True:
        taken = bisects.steps(database, of)
        for step in taken[shown:]:
            if step.job_id is not None:
                _await(settings, step.job_id)
        with open_warehouse(settings.warehouse_file) as con:
            tried = bisects.tried(con, of, taken)
        for step in taken[shown:]:
            say(f"{step.job_id or 'no job'}: {described(tried, step.version, of.about.measure)}")
        shown = len(taken)
        wanted = next_step(tried, of.about.measure)
        if isinstance(wanted, End):
            bisects.store_end(database, of, wanted)
            return wanted
        version = of.versions[wanted.version]
        say(f"step {shown + 1}: {version.name}, {wanted.why}")
        try:
            engine = install_version(settings, of.engine, of.about.source, version)
            bisects.measure_version(settings, of, wanted.version, engine, actor=local_actor())
        except UserError as error:
            bisects.failed(database, of, wanted.version, str(error))


def _await(settings: Settings, job_id: str) -> None:
    """Wait until a job has ended and its runs are published."""
    here = Here(settings)
    follow.all_there(here, follow.follow(here, job_id, on_stderr=True))
