"""`drafthouse verify`: checks that a host measures correctly."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from cli.arguments import AsJson
from cli.follow import follow
from cli.here import Here
from cli.output import print_json, print_literally, print_table, print_text
from host.settings import Settings, load_settings
from jobs.engines.capabilities import all_capabilities
from jobs.host_report import HostReport
from lab.errors import UserError
from services import supervisor
from services.supervisor import is_up, stopped_by_signal
from services.verifying.rival import TARGET
from warehouse.migrate import make_home

_INSTALLED = ("vllm", "transformers")


def verify(
    *,
    target: Annotated[str, typer.Option(help="Your own model, tried without drafts.")] = TARGET,
    engine: Annotated[str | None, typer.Option(help="What to install without an engine: vllm or transformers.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check by measurements that this host's engines, methods, telemetry and client are right.

    A host without an engine gets one. Takes up to ten minutes. Exit status 1 unless every line is ok.
    """
    if engine not in (None, *_INSTALLED):
        raise UserError(f"there is no engine {engine!r} to install: write {' or '.join(_INSTALLED)}")
    settings, began_s = load_settings(), time.monotonic()
    make_home(settings)
    _install(settings, engine, quiet=as_json)
    with stopped_by_signal():
        if is_up(settings.home):
            made, file = _verified(settings, target, lambda: None, began_s, quiet=as_json)
        else:
            with supervisor.running(settings) as services:
                made, file = _verified(settings, target, services.supervise, began_s, quiet=as_json)
    if as_json:
        print_json(asdict(made))
    else:
        rows = [("ok" if f.ok else "WRONG", f.what, f.found, f.remedy) for f in made.findings]
        print_table(("", "what", "found", "what to do"), rows)
        print_text(f"The study is {made.job_id}. The report to send to a colleague is {file.absolute()}")
    raise SystemExit(0 if made.ok else 1)


def _install(settings: Settings, engine: str | None, *, quiet: bool) -> None:
    from services.verifying.first_engine import install_first_engine  # noqa: PLC0415 - `--help` does not need NVML
    from services.verifying.verification import own_engines  # noqa: PLC0415 - loads pandas, likewise

    here = own_engines(all_capabilities(settings))
    if not any(engine in (None, each.kind) for each in here):
        tell = partial(print_literally, on_stderr=True) if quiet else print_text
        install_first_engine(settings, engine, tell)


def _verified(
    settings: Settings, target: str, on_tick: Callable[[], None], began_s: float, *, quiet: bool
) -> tuple[HostReport, Path]:
    from services.verifying.study import verification_study  # noqa: PLC0415 - loads pandas, which `--help` does not need
    from services.verifying.verification import own_engines, report  # noqa: PLC0415 - likewise

    engines = own_engines(all_capabilities(settings))
    here = Here(settings)
    ended = follow(here, here.submit(verification_study(engines, target)), on_tick, on_stderr=quiet)
    return report(settings, engines, target, ended, on_tick, began_s=began_s)
