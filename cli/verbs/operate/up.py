"""`drafthouse up` and `demo`, and each service alone in the foreground."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import signal
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from datetime import time as time_of_day
from typing import Annotated

import psutil
import typer

from access.web import start_token
from cli.follow import all_there, follow, results_url
from cli.here import Here
from cli.lab import ready_settings
from cli.output import print_text
from cli.verbs.operate.install import install_for_demo
from cli.verbs.operate.workers import drain_host
from host.settings import Settings, load_settings
from jobs.engines.capabilities import all_capabilities
from jobs.engines.hardware import nvidia_gpus
from jobs.presets import load_preset
from lab.errors import UserError
from lab.study import Study
from services import supervisor
from services.supervisor import stopped_by_signal
from warehouse.migrate import make_home
from warehouse.queries.connect import open_warehouse
from workers.worker import ENDS, Ends

_TEND_EVERY_S = 0.25
#: An engine with the reference model takes 2.6 GiB, and the page and the ingester need some, too.
_REFERENCE_ENGINE_BYTES = 3 * 2**30


def up() -> None:
    """Start the broker, a worker, the ingester and the web page; Ctrl-C stops them all."""
    settings = load_settings()
    with stopped_by_signal(), supervisor.running(settings) as services:
        print_text(
            f"Drafthouse is up: {start_token.address(settings)}  (state in {settings.home.absolute()}, Ctrl-C stops)"
        )
        _tend_until_stopped(services)


def demo(
    *,
    leave: Annotated[bool, typer.Option("--exit", help="Stop when the study is done instead of staying up.")] = False,
) -> None:
    """Install vLLM if it is missing, start everything, run the demo study, and print its answer and address."""
    settings = load_settings()
    published = False
    make_home(settings)
    install_for_demo(settings)
    asking = threading.Thread(target=_ask_engines, args=(settings,), daemon=True)
    asking.start()
    with stopped_by_signal(), supervisor.running(settings) as services:
        asking.join()
        if settings.web_login == "token":
            print_text(f"The page opens at {start_token.address(settings)}")
        published = _run_demo(settings, services.supervise)
        if not leave:
            _tend_until_stopped(services)
    raise SystemExit(0 if published or not leave else 1)


def worker(
    *,
    drain: Annotated[
        bool, typer.Option("--drain", help="Let the workers that run on this host end, each after its block.")
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="End after one study, or at once if none can be taken.")] = False,
    until: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Drain at this time: 18:30, 2026-11-27T18:30, or in so long: 90m, 8h."),
    ] = None,
) -> None:
    """Run this host's workers in the foreground: one for each slot, or only the worker of DRAFTHOUSE_SLOT.

    TERM (systemd, Slurm, Kubernetes) drains them: each finishes the block that it measures, puts the study back, for
    any host to go on with, and ends. Ctrl-C puts it back at once, without the run in hand.
    """
    if drain + once + (until is not None) > 1:
        raise UserError("give one of --drain, --once and --until")
    settings = ready_settings()
    if drain:
        drain_host(settings, platform.node())
        return
    os.environ[ENDS] = Ends(once=once, until=None if until is None else moment_of(until)).words
    if settings.slots == 1 or "slot" in settings.model_fields_set:
        _become(supervisor.worker_command())
    with stopped_by_signal(), supervisor.running_workers(settings) as workers:
        logs = ", ".join(str(process.log.absolute()) for process in workers.processes)
        print_text(f"{settings.slots} workers are up; their logs are {logs}")
        sys.stdout.flush()
        signal.signal(signal.SIGTERM, lambda _number, _frame: workers.drain())
        while not workers.have_ended():
            workers.supervise()
            time.sleep(_TEND_EVERY_S)


def moment_of(text: str, now: datetime | None = None) -> datetime:
    """Return the moment of a time, a date with a time, or a duration from now. Raises UserError."""
    now = now or datetime.now(UTC)
    if (duration := re.fullmatch(r"(\d{1,6})([smhd])", text)) is not None:
        return now + timedelta(seconds=int(duration[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[duration[2]])
    try:
        if re.fullmatch(r"\d?\d:\d\d", text):
            at = time_of_day.fromisoformat(text.zfill(5))
            local = datetime.combine(now.astimezone().date(), at).astimezone()
            return local if local > now else local + timedelta(days=1)
        moment = datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise UserError(f"{text!r} is no time: write 18:30, 2026-11-27T18:30, 90m or 8h") from None
    if moment <= now:
        raise UserError(f"{text} is over")
    return moment


def ingester() -> None:
    """Run the ingester in the foreground; a warehouse has exactly one."""
    ready_settings()
    _become(supervisor.ingester_command())


def web() -> None:
    """Run the web page in the foreground."""
    ready_settings()
    _become(supervisor.web_command())


def _run_demo(settings: Settings, on_tick: Callable[[], None]) -> bool:
    """Submit the demo study, follow it, and report its end. Return whether all of its runs are in the warehouse."""
    here = Here(settings)
    job_id = here.submit(demo_study())
    print_text(f"Results as they come: {results_url(settings.public_url, job_id)}")
    ended = follow(here, job_id, on_tick)
    published = all_there(here, ended)
    if published:
        print_text("\n".join(_answer(here, job_id)))
        print_text(f"Done. Results: {results_url(settings.public_url, job_id)}")
    else:
        print_text(f"The study did not finish ({ended.state}): {ended.error or 'some runs failed'}")
        print_text(f"See `drafthouse logs {job_id}` and {settings.public_url}/jobs")
    return published


def _ask_engines(settings: Settings) -> None:
    """Probe the engines, which takes ten seconds for vLLM; submission finds the result, or reports the error."""
    with contextlib.suppress(UserError):
        all_capabilities(settings)


def demo_study() -> Study:
    """Return the preset, with its engines side by side where there is no GPU and enough memory for all of them.

    A shared or warming-up machine varies by a tenth from one half minute to the next. Side by side, the arms of a cell
    are measured within seconds of each other.
    """
    study = load_preset("demo")
    if nvidia_gpus() or psutil.virtual_memory().available < len(study.arms) * _REFERENCE_ENGINE_BYTES:
        return study
    return study.model_copy(update={"order": "side_by_side"})


def _answer(here: Here, job_id: str) -> list[str]:
    """Return the study's answer in sentences."""
    from lab.advice.answer_text import answer_lines  # noqa: PLC0415 - loads SciPy, which `up` does not need
    from warehouse.queries.comparing.answers import metric_answers, study_answer  # noqa: PLC0415 - likewise
    from warehouse.queries.comparing.comparisons import compare_study  # noqa: PLC0415 - likewise
    from warehouse.queries.comparing.tunings import answered  # noqa: PLC0415 - likewise

    with open_warehouse(here.warehouse_file) as con:
        answer, by_metric = study_answer(answered(con, compare_study(con, job_id))), metric_answers(con, job_id)
    return answer_lines(answer, by_metric, here.follow_up_seconds(job_id, answer))


def _tend_until_stopped(services: supervisor.Services) -> None:
    while True:
        services.supervise()
        time.sleep(_TEND_EVERY_S)


def _become(command: tuple[str, ...]) -> None:
    sys.stdout.flush()
    os.execv(command[0], command)  # noqa: S606 - the same process, so that signals and exit status are the service's own
