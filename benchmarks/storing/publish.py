"""Part publish: the cost of one more run on a warehouse of any size, with the real ingester in its own process.

Seconds from the end of writing its bundle until a reader of the published file sees it (aim: 5 s), and the bytes that
the ingester writes until it is ready for the next one, per byte of the bundle (aim: 4). The rival is a whole copy of
the published file, `cp` and fsync alone. Measured with readers that come and go, and then for two runs while a reader
keeps the published file open.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from benchmarks.processes import ingesting, own_home
from benchmarks.reading.filling import RUNS_A_JOB, Size, fill, made_requests, made_run
from benchmarks.table import Row, show
from host.settings import Settings
from lab.errors import EngineError
from warehouse.bundles.pending import fsync
from warehouse.bundles.run_bundle import write_bundle
from warehouse.ingest.row_groups import RUNS_A_GROUP
from warehouse.queries.connect import open_warehouse

GIGABYTES = (0.1, 1.0)
_BYTES_A_REQUEST = 880  # of the published file
_REQUESTS = 2000
_PATIENCE_S = 600.0
_POLL_EVERY_S = 0.1
RESTS_FOR_S = 3.0
_NEXT_TO_NOTHING_BYTES, _NEXT_TO_NOTHING_S = 100_000, 0.1  # bytes of its announcements and polls in each round


def run(settings: Settings, repeats: int, gigabytes: Sequence[float] = GIGABYTES) -> None:
    """Fill warehouses in homes of their own, add runs to each, and print."""
    for wanted in gigabytes:
        with own_home(settings) as own:
            requests = wanted * 1e9 / _BYTES_A_REQUEST
            jobs = max(1, round(requests / RUNS_A_JOB / _REQUESTS))
            size = Size(jobs, max(1, round(requests / jobs / RUNS_A_JOB)), realistic=True)
            print(f"publish: filling a warehouse of {wanted:g} GB", file=sys.stderr)
            fill(own, size)
            measure(own, max(repeats, RUNS_A_GROUP), f"{size.requests:,} requests")


def measure(settings: Settings, runs: int, about: str, requests: int = _REQUESTS) -> None:
    """Add runs to the warehouse of a home, and print. Groups of rows are merged every RUNS_A_GROUP runs."""
    gigabytes = settings.warehouse_file.stat().st_size / 1e9
    copy_s, copied = _whole_copy(settings.warehouse_file)
    with ingesting(settings) as process:

        def is_ready() -> bool:
            return rests(process)

        def is_copied() -> bool:
            return settings.master_file.exists() and rests(process)

        _add(settings, process, "warm", requests, is_ready)
        added = {"": [_add(settings, process, f"alone {number}", requests, is_ready) for number in range(runs)]}
        with open_warehouse(settings.warehouse_file):
            for name, is_done in (("first after a file was opened", is_copied), ("second", is_ready)):
                added[f", {name}"] = [_add(settings, process, name, requests, is_done)]
    rows = []
    for name, additions in added.items():
        seen_s, written, own = zip(*additions, strict=True)
        rows.append(Row(f"seconds until a run is visible{name}", seen_s, [copy_s] * len(additions), "5 s"))
        ratios, whole = (
            [count / size for count, size in zip(counts, own, strict=True)]
            for counts in (written, [copied] * len(additions))
        )
        rows.append(Row(f"bytes written / those of its bundle{name}", ratios, whole, "4"))
    mean = sum(written for _, written, _ in added[""]) / sum(own for *_, own in added[""])
    bundle = f"a bundle of {added[''][0][2] / 1e6:.1f} MB"
    show(f"One more run of {requests:,} requests, {bundle}, on {gigabytes:.2f} GB ({about})", "a whole copy", rows)
    print(f"bytes written by {runs} runs / those of their bundles: {mean:.2f}, merging of groups included")


def _whole_copy(file: Path) -> tuple[float, float]:
    """Return the seconds that copying the file takes, and its bytes."""
    copy, began_s = file.with_name("copy"), time.monotonic()
    subprocess.run(["cp", "--reflink=never", str(file), str(copy)], check=True)
    fsync(copy)
    took_s, size = time.monotonic() - began_s, float(copy.stat().st_size)
    copy.unlink()
    return took_s, size


def _add(
    settings: Settings, process: psutil.Process, name: str, requests: int, is_ready: Callable[[], bool]
) -> tuple[float, float, float]:
    """Add a run. Returns the seconds until it is visible, the bytes written until all is ready again, and its own."""
    before = written(process)
    run, drawn = made_run(f"{name} {time.time_ns()}"), made_requests(requests, name)
    folder = write_bundle(settings.bundles, run, drawn, [], None)
    ended_s = time.monotonic()
    until(lambda: is_visible(settings, run.run_id))
    seen_s = time.monotonic() - ended_s
    until(is_ready)
    return seen_s, written(process) - before, sum(file.stat().st_size for file in folder.iterdir())


def is_visible(settings: Settings, *run_ids: str) -> bool:
    """Return whether a reader sees all of these runs."""
    with open_warehouse(settings.warehouse_file) as connection:
        query = "SELECT count(*) FROM results WHERE list_contains(?, run_id)"
        return connection.execute(query, [run_ids]).fetchone() == (len(run_ids),)


def rests(process: psutil.Process) -> bool:
    """Return whether the ingester is almost idle for longer than its poll interval."""
    before, before_s = written(process), sum(process.cpu_times())
    time.sleep(RESTS_FOR_S)
    is_at_work = sum(process.cpu_times()) - before_s > _NEXT_TO_NOTHING_S
    return not is_at_work and written(process) - before < _NEXT_TO_NOTHING_BYTES


def written(process: psutil.Process) -> float:
    """Return the bytes that the process and its finished children have written, to files and pipes."""
    return float(process.io_counters().write_chars)


def until(condition: Callable[[], bool]) -> None:
    began_s = time.monotonic()
    while not condition():
        if time.monotonic() - began_s > _PATIENCE_S:
            raise EngineError(f"the ingester has not published a run within {_PATIENCE_S:g} s")
        time.sleep(_POLL_EVERY_S)
