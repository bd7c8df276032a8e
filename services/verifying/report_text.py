"""The report of `drafthouse verify` as one file to read, and to send to a colleague."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence
from importlib.metadata import version

import pandas as pd
import psutil

from jobs.engines.capabilities import Capabilities
from jobs.engines.hardware import hardware_name, processors
from jobs.host_report import HostReport
from workers.probes.nvml import driver_version

_FIGURES = {
    "arm": "arm",
    "status": "status",
    "output_tok_per_s": "output tok/s",
    "ttft_p50_ms": "TTFT p50 ms",
    "tpot_p50_ms": "TPOT p50 ms",
    "acceptance_length": "acceptance length",
    "gpu_power_mean_w": "GPU power W",
    "energy_j_per_output_token": "J/output token",
}


def report_text(report: HostReport, engines: Sequence[Capabilities], runs: pd.DataFrame, took_s: float) -> str:
    """Return the report in Markdown. `runs` of `queries.results`."""
    driver = driver_version()
    about = {
        "hardware": hardware_name(),
        "driver": driver or "none",
        "processors and memory": f"{len(processors())}, {psutil.virtual_memory().total / 2**30:.0f} GiB",
        "system": f"{platform.platform()}, Python {platform.python_version()}",
        "Drafthouse": version("drafthouse"),
        "engines": ", ".join(f"{engine.engine} {engine.version or '(version unknown)'}" for engine in engines),
    }
    wrong = sum(not finding.ok for finding in report.findings)
    findings = (("ok" if f.ok else "WRONG", f.what, f.found, f.remedy) for f in report.findings)
    figures = runs[[name for name in _FIGURES if name in runs.columns]]
    return "\n".join(
        [
            f"# Verification of {platform.node()}",
            "",
            f"{report.at:%Y-%m-%d %H:%M} UTC, study {report.job_id}, took {took_s:.0f} s: "
            + (f"{wrong} of {len(report.findings)} lines wrong." if wrong else "every line is ok."),
            "",
            *(f"- {name}: {text}" for name, text in about.items()),
            "",
            *_table(("", "what", "found", "what to do"), findings),
            "",
            "Each run once, so that figures of two runs say little about which is faster:",
            "",
            *_table([_FIGURES[name] for name in figures.columns], figures.itertuples(index=False)),
            "",
        ]
    )


def _table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    lines = [columns, ["---"] * len(columns), *([_cell(value) for value in row] for row in rows)]
    return [f"| {' | '.join(cells)} |" for cells in lines]


def _cell(value: object) -> str:
    if value is None or value is pd.NA or value != value:  # noqa: PLR0124 - NaN
        return "-"
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return " ".join(text.replace("|", "\\|").split())
