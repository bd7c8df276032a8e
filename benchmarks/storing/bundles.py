"""Part bundles: the processor time and the bytes of writing a run's bundle, beside plain pyarrow.

The run has 2,000 requests, each with 128 chunks, 500 letters and 128 token ids. The rival makes rows of its requests,
`pyarrow.Table.from_pylist` of these, and writes them with pyarrow's defaults; that is the requests alone, without the
rest of the bundle. The first bundle of a process has a line of its own, measured in new processes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass, fields
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.reading.filling import made_requests, made_run
from benchmarks.table import Row, least_processor_s, show
from host.settings import Settings
from lab.metrics.records import RequestRecord
from lab.metrics.request_table import RequestTable
from warehouse.bundles.run_bundle import write_bundle

REQUESTS = 2000
_REPEATS = 5
_AIM = "60 ms at most"


@dataclass(frozen=True)
class Written:
    """The cost of one side: milliseconds of processor time for the first and a later file, and bytes per request."""

    first_ms: float
    later_ms: float
    bytes_a_request: float


def run(_settings: Settings, repeats: int) -> None:
    """Measure both sides in new processes, and print."""
    ours, theirs = ([_in_new_process(side) for _ in range(repeats)] for side in ("ours", "theirs"))
    show_both(ours, theirs)


def show_both(ours: list[Written], theirs: list[Written]) -> None:
    rows = [
        Row.of("first of a process, processor ms", "first_ms", ours, theirs, "no aim"),
        Row.of("processor ms", "later_ms", ours, theirs, _AIM),
        Row.of("bytes a request", "bytes_a_request", ours, theirs, "no aim"),
    ]
    show(f"Bundles: {REQUESTS:,} requests x 128 chunks with text and token ids", "pyarrow, from_pylist", rows)


def _in_new_process(side: str) -> Written:
    command = [sys.executable, "-m", "benchmarks.storing.bundles", side]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    return Written(**json.loads(done.stdout.splitlines()[-1]))


def written(side: str, folder: Path, count: int = REQUESTS) -> Written:
    """Write the same requests several times."""
    requests = made_requests(count, "bundle")

    def by_us(repeat: int) -> Path:
        return write_bundle(folder, made_run(f"{side} {repeat}"), requests, (), None) / "requests.parquet"

    def by_pyarrow(repeat: int) -> Path:
        path = folder / f"{repeat}.parquet"
        rows = [{field.name: getattr(request, field.name) for field in fields(RequestRecord)} for request in requests]
        pq.write_table(pa.Table.from_pylist(rows, schema=RequestTable.schema), path)
        return path

    write = by_us if side == "ours" else by_pyarrow
    first_s = least_processor_s(write, 1)
    later_s = least_processor_s(lambda repeat: write(repeat + 1), _REPEATS)
    return Written(first_s * 1000, later_s * 1000, write(_REPEATS).stat().st_size / count)


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="drafthouse-bench-") as folder:
        print(json.dumps(vars(written(sys.argv[1], Path(folder)))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
