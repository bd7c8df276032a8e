"""Part import: processor time and memory of `drafthouse import` for a detailed result of 47 MiB.

The file has the keys that `vllm bench serve` writes, and 14,800 requests with 128 chunks each and their texts. The
import reads it, checks it, computes its figures, stores it, and adds it to the warehouse of a new home. The rival is
Python's `json.load` of the same file, which only reads. Each has a new process; the first line is the command's start.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.processes import own_home
from benchmarks.reading.filling import made_requests
from benchmarks.table import Row, show
from host.settings import ENVIRONMENT_PREFIX, Settings
from lab.errors import DrafthouseError
from lab.metrics.request_table import RequestTable
from warehouse.migrate import migrate

REQUESTS = 14_800
AIM_S, AIM_MIB = 4, 250
_IMPORT = "import sys; from cli.app import main; sys.argv[0] = 'drafthouse'; main()"
_LOAD = "import json, sys; json.load(open(sys.argv[1], encoding='utf-8'))"
#: Runs a text in Python, then prints its processor seconds and its peak memory in MiB. (A process's `ru_maxrss` begins
#: with that of the process that started it.)
_COUNTED = """
import sys, time
try:
    exec(sys.argv.pop(1))
except SystemExit as ended:
    if ended.code:
        raise
[peak_kib] = [line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")]
print(time.process_time(), int(peak_kib) / 1024, file=sys.stderr)
"""


@dataclass(frozen=True)
class Used:
    """The resources that a process used."""

    processor_s: float
    peak_mib: float


def run(settings: Settings, repeats: int) -> None:
    """Make the file, import it into new homes, and print."""
    with own_home(settings) as own:
        file = made_result(own.home / "result.json", REQUESTS)
        measure(settings, file, repeats)


def measure(settings: Settings, file: Path, repeats: int) -> None:
    ours, idle, theirs = [], [], []
    for _ in range(repeats):
        with own_home(settings) as home:
            migrate(home)
            ours.append(_in_new_process(_IMPORT, home, "import", str(file)))
            idle.append(_in_new_process(_IMPORT, home, "import", "--help"))
        theirs.append(_in_new_process(_LOAD, settings, str(file)))
    rows = [
        Row.of("start of the command, processor s", "processor_s", idle, theirs, "no aim"),
        Row.of("processor s", "processor_s", ours, theirs, f"{AIM_S} s at most"),
        Row.of("peak memory MiB", "peak_mib", ours, theirs, f"{AIM_MIB} MiB at most"),
    ]
    show(f"Import: a detailed result of {file.stat().st_size / 2**20:.1f} MiB", "json.load", rows)


def _in_new_process(code: str, settings: Settings, *arguments: str) -> Used:
    environment: Mapping[str, str] = os.environ | {f"{ENVIRONMENT_PREFIX}HOME": str(settings.home.absolute())}
    command = [sys.executable, "-c", _COUNTED, code, *arguments]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=root)
    if done.returncode:
        raise DrafthouseError(f"{' '.join(arguments)} failed: {done.stderr[-2000:]}")
    processor_s, peak_mib = map(float, done.stderr.splitlines()[-1].split())
    return Used(processor_s, peak_mib)


def made_result(file: Path, count: int) -> Path:
    """Write a result as `vllm bench serve --save-result --save-detailed` does."""
    draw = random.Random("result")  # noqa: S311 - made data
    requests = RequestTable.of(made_requests(count, "result"))
    tokens = int(requests.numbers("completion_tokens").sum())
    chunks = requests.lists("chunk_s").lengths.tolist()
    itls = [[0.008 + draw.random() * 0.008 for _ in range(number - 1)] for number in chunks]
    ttfts = [0.05 + draw.random() * 0.02 for _ in range(count)]
    latencies = [ttft_s + sum(gaps_s) for ttft_s, gaps_s in zip(ttfts, itls, strict=True)]
    starts = [1000 + number / 100 for number in range(count)]
    duration_s = max(start_s + took_s for start_s, took_s in zip(starts, latencies, strict=True)) - starts[0]
    prompt_tokens = requests.numbers("prompt_tokens").astype(int).tolist()
    result = {
        "date": "20260101-000000",
        "endpoint_type": "openai",
        "model_id": "made",
        "num_prompts": count,
        "request_rate": "inf",
        "max_concurrency": 128,
        "duration": duration_s,
        "completed": count,
        "failed": 0,
        "total_input_tokens": sum(prompt_tokens),
        "total_output_tokens": tokens,
        "request_throughput": count / duration_s,
        "output_throughput": tokens / duration_s,
        "total_token_throughput": (tokens + sum(prompt_tokens)) / duration_s,
        "input_lens": prompt_tokens,
        "output_lens": requests.numbers("completion_tokens").astype(int).tolist(),
        "ttfts": ttfts,
        "itls": itls,
        "latencies": latencies,
        "start_times": starts,
        "generated_texts": requests.texts("output_text").to_pylist(),
        "errors": [""] * count,
    }
    file.write_text(json.dumps(result), encoding="utf-8")
    return file
