"""`drafthouse up` and `demo`, and each service alone in the foreground."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Annotated

import psutil
import typer

from access.web import start_token
from cli.follow import all_there, follow, results_url
from cli.here import Here
from cli.lab import ready_settings
from cli.output import print_text
from cli.verbs.operate.install import install_for_demo
from host.settings import Settings, load_settings
from jobs.engines.capabilities import all_capabilities
from jobs.engines.hardware import nvidia_gpus
from jobs.presets import load_preset
from jobs.table import NONE_VALID
from lab.errors import UserError
from lab.study import Study
from services import supervisor
from services.supervisor import stopped_by_signal
from warehouse.migrate import make_home
from warehouse.queries.connect import open_warehouse

#: How often the services of this process are looked after.
TEND_EVERY_S = 0.25
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
    leave: Annotated[bool, typer.Option("--exit", help="Stop when the study is done.")] = False,
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


def ingester() -> None:
    """Run the ingester in the foreground; a warehouse has exactly one."""
    ready_settings()
    become(supervisor.ingester_command())


def web() -> None:
    """Run the web page in the foreground."""
    ready_settings()
    become(supervisor.web_command())


def _run_demo(settings: Settings, on_tick: Callable[[], None]) -> bool:
    """Submit the demo study, follow it, and report its end. Return whether no run failed, some are valid, and all are
    in the warehouse.
    """
    here = Here(settings)
    job_id = here.submit(demo_study())
    print_text(f"Results as they come: {results_url(settings.public_url, job_id)}")
    ended = follow(here, job_id, on_tick)
    if ended.state == "done" and all_there(here, ended):
        ended = here.job(job_id)  # with its invalid runs
        try:
            print_text("\n".join(_answer(here, job_id)))
        except UserError as error:  # nothing can be compared
            print_text(str(error))
        print_text(f"{ended.outcome.capitalize()}. Results: {results_url(settings.public_url, job_id)}")
        if ended.error is None and ended.state_word != NONE_VALID:
            return True
    else:
        print_text(f"The study did not finish ({ended.outcome}): {ended.error or 'some runs are not published'}")
    print_text(f"See `drafthouse logs {job_id}` and {settings.public_url}/jobs")
    return False


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
        time.sleep(TEND_EVERY_S)


def become(command: tuple[str, ...]) -> None:
    """Continue as another program."""
    sys.stdout.flush()
    os.execv(command[0], command)  # noqa: S606 - the same process, so that signals and exit status are the service's own
