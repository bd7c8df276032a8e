"""`drafthouse verify`: checks that a host measures correctly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated

import typer

from cli.arguments import AsJson
from cli.follow import follow
from cli.here import Here
from cli.output import print_json, print_table, print_text
from host.settings import Settings, load_settings
from jobs.engines.capabilities import all_capabilities
from jobs.host_report import HostReport
from lab.errors import INSTALL_COMMAND, UserError
from services import supervisor
from services.supervisor import is_up, stopped_by_signal
from services.verifying.rival import TARGET


def verify(
    *,
    target: Annotated[
        str, typer.Option(help="Your own model instead of the reference model; tried without draft models.")
    ] = TARGET,
    as_json: AsJson = False,
) -> None:
    """Check by measurements that this host's engines, methods, telemetry and client are right.

    Takes up to ten minutes with the reference models, starts the services if they are not up, and ends with a table
    and, unless every line is ok, exit status 1.
    """
    settings = load_settings()
    with stopped_by_signal():
        if is_up(settings.home):
            made = _verified(settings, target, lambda: None, quiet=as_json)
        else:
            with supervisor.running(settings) as services:
                made = _verified(settings, target, services.supervise, quiet=as_json)
    if as_json:
        print_json(asdict(made))
    else:
        rows = [("ok" if f.ok else "WRONG", f.what, f.found, f.remedy) for f in made.findings]
        print_table(("", "what", "found", "what to do"), rows)
        print_text(f"The study is {made.job_id}.")
    raise SystemExit(0 if made.ok else 1)


def _verified(settings: Settings, target: str, on_tick: Callable[[], None], *, quiet: bool) -> HostReport:
    from services.verifying.study import verification_study  # noqa: PLC0415 - loads pandas, which `--help` does not need
    from services.verifying.verification import own_engines, report  # noqa: PLC0415 - likewise

    engines = own_engines(all_capabilities(settings))
    if not engines:
        raise UserError(f"no engine is installed on this host: `{INSTALL_COMMAND}` installs vLLM")
    here = Here(settings)
    ended = follow(here, here.submit(verification_study(engines, target)), on_tick, on_stderr=quiet)
    return report(settings, engines, target, ended, on_tick)
