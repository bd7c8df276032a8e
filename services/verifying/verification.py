"""`drafthouse verify`: measure the study, wait for its runs, and write the report."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd

from host.settings import Settings
from jobs.engines.capabilities import Capabilities
from jobs.engines.kinds import ENDPOINT
from jobs.host_report import Finding, HostReport, write_report, write_text
from jobs.table import Job
from services.verifying import builds, gpus
from services.verifying.agreement import agreement
from services.verifying.pace import pace
from services.verifying.report_text import report_text
from services.verifying.study import judged
from warehouse.queries.connect import open_warehouse
from warehouse.queries.results import frame, results

_PUBLISHED_WITHIN_S, _POLL_EVERY_S = 120.0, 0.5
_INVALID = """
    SELECT run_id, sentence FROM findings JOIN runs USING (run_id) WHERE job_id = ? AND severity = 'invalid'
"""


def own_engines(engines: list[Capabilities]) -> list[Capabilities]:
    """Return the engines that this host starts."""
    return [engine for engine in engines if engine.kind != ENDPOINT]


def report(
    settings: Settings,
    engines: list[Capabilities],
    target: str,
    ended: Job,
    on_tick: Callable[[], None],
    *,
    began_s: float,
) -> tuple[HostReport, Path]:
    """Judge the ended job's runs, run the other tests, and store the report in the home; also return its file to read.

    `began_s`: on the monotonic clock.
    """
    runs, invalid = _published(settings, ended, on_tick)
    findings: list[Finding] = judged(engines, target, runs, invalid, ended.job_id)
    findings += [*builds.fits(settings, own_engines(engines)), builds.numa(settings)]
    findings += [gpus.telemetry(runs), *gpus.energy()]
    findings.append(pace())
    if (rival := next((engine.engine for engine in engines if engine.kind == "vllm"), None)) is not None:
        findings.append(agreement(settings, rival))
    made = HostReport(datetime.now(UTC), ended.job_id, tuple(findings))
    write_report(settings.home, made)
    text = report_text(made, engines, runs, time.monotonic() - began_s)
    return made, write_text(settings.home, text)


def _published(settings: Settings, ended: Job, on_tick: Callable[[], None]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the job's runs, once all that ended are published, and the findings of their checks."""
    wanted = 0 if ended.progress is None else ended.progress.runs_done
    deadline_s = time.monotonic() + _PUBLISHED_WITHIN_S
    while True:
        on_tick()
        with open_warehouse(settings.warehouse_file) as con:
            runs = results(con, ended.job_id)
            if len(runs) >= wanted or time.monotonic() > deadline_s:
                return runs, frame(con, _INVALID, [ended.job_id])
        time.sleep(_POLL_EVERY_S)
