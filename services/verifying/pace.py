"""Checks our measuring client on a server of known pace, which needs no engine and no other client."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from jobs.datasets.prompt import Prompt
from jobs.host_report import Finding
from services.verifying.our_client import figures, measured
from services.verifying.rival import write_dataset

T = TypeVar("T")
_STREAMS, _ANSWERS_A_STREAM, _TOKENS, _TICK_S = 4, 4, 32, 0.02
#: Both count the same chunks, so that they differ by how late the first and the last one of an answer were read.
_MOST_DIFFERENCE = 0.05


def beside_steady_server(measure: Callable[[str], T], tick_s: float) -> tuple[T, dict[str, Any]]:
    """Measure while a server runs that is this run's own, and return what it printed, too."""
    command = (sys.executable, "-m", "services.verifying.steady_server", str(tick_s))
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None  # noqa: S101 - tells mypy
            measured = measure(f"http://127.0.0.1:{int(server.stdout.readline())}")
        finally:
            server.terminate()
        return measured, json.loads(server.stdout.read())


def pace() -> Finding:
    """Compare the time between two chunks that our client saw with that of the server that wrote them."""
    prompts = [Prompt(str(number), None, "Tell me a tale.") for number in range(_STREAMS * _ANSWERS_A_STREAM)]
    with tempfile.TemporaryDirectory(prefix="drafthouse-verify-") as folder:
        dataset = str(write_dataset(Path(folder) / "prompts.jsonl", prompts))
        result, written = beside_steady_server(
            lambda base_url: asyncio.run(measured(base_url, "steady", dataset, _TOKENS, _STREAMS)), _TICK_S
        )
    gaps_ms = 1000 * np.concatenate([np.diff(request.chunk_s) for request in result.requests])
    return compared(float(gaps_ms.mean()), figures(result).gap_p99_ms, written)


def compared(gap_mean_ms: float, gap_p99_ms: float, written: dict[str, float]) -> Finding:
    """Compare the client's gaps between chunks with those that the server noted."""
    found = (
        f"{gap_mean_ms:.2f} ms between chunks where the server wrote one each {written['gap_mean_ms']:.2f} ms; "
        f"p99 {gap_p99_ms:.1f} and {written['gap_p99_ms']:.1f} ms"
    )
    is_near = abs(gap_mean_ms / written["gap_mean_ms"] - 1) <= _MOST_DIFFERENCE
    remedy = "" if is_near else "find what else runs on this host, and verify again"
    return Finding("client and a server of known pace", ok=is_near, found=found, remedy=remedy)
