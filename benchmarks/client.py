"""Part client: our measuring client and `vllm bench serve`, alternating on one server, with the same prompts.

Aims: output throughput within 2 %, median TTFT and TPOT within 3 %, a quarter of the CPU seconds. CPU time covers the
whole process, and a second figure subtracts the same process sending one request of two tokens (imports, start-up).
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.processes import own_home
from benchmarks.table import Row, alternated, show
from host.settings import Settings
from jobs.datasets.loader import load_prompts
from jobs.datasets.prompt import Prompt
from jobs.engines.models import check_model
from lab.study import Arm, Load, Study, Workload
from services.verifying.our_client import Figures
from services.verifying.processes import counted, serving, vllm_environment, vllm_program
from services.verifying.rival import TARGET, bench_arguments, rival_figures, write_dataset

OUR_CLIENT = "services.verifying.our_client"
WORKLOAD, LOAD = Workload(output_tokens=64), Load(max_concurrency=4, num_prompts=32)
#: No prefix cache, because both clients repeat the same prompts. float32, because processors without native bfloat16
#: are fastest with it.
FLAGS = {
    "dtype": "float32",
    "enable_prefix_caching": False,
    "enforce_eager": True,
    "max_model_len": 1024,
    "max_num_seqs": 16,
}
STUDY = Study(
    name="bench", target=TARGET, arms=(Arm(name="plain"),), workloads=(WORKLOAD,), loads=(LOAD,), engine_flags=FLAGS
)


@dataclass(frozen=True)
class Spent:
    """The figures that one execution of a client reported, and the CPU seconds of its process."""

    figures: Figures
    cpu_s: float
    lag_p99_ms: float | None = None  # of our event loop


def by_client(module: str, base_url: str, dataset: Path, concurrency: int, output_tokens: int, **more: object) -> Spent:
    """Measure with the client of this module, in a process of its own."""
    about = {"base_url": base_url, "dataset": str(dataset), "output_tokens": output_tokens, "concurrency": concurrency}
    done = counted([sys.executable, "-m", module, json.dumps(about | more)], os.environ)
    printed = json.loads(done.stdout.splitlines()[-1])
    return Spent(Figures(**printed["figures"]), done.cpu_s, printed.get("client", {}).get("loop_lag_p99_ms"))


@dataclass(frozen=True)
class Sides:
    """Both clients and their shared settings."""

    settings: Settings
    base_url: str
    environment: Mapping[str, str]

    def ours(self, dataset: Path, concurrency: int, output_tokens: int) -> Spent:
        return by_client(OUR_CLIENT, self.base_url, dataset, concurrency, output_tokens, model=TARGET)

    def theirs(self, dataset: Path, concurrency: int, output_tokens: int) -> Spent:
        result_file = dataset.with_suffix(".result.json")
        command = [
            *(vllm_program(self.settings), *bench_arguments(self.settings, dataset, output_tokens)),
            *("--base-url", self.base_url, "--max-concurrency", str(concurrency)),
            *("--num-prompts", str(len(dataset.read_text(encoding="utf-8").splitlines()))),
            *("--save-result", "--result-dir", str(result_file.parent), "--result-filename", result_file.name),
        ]
        done = counted(command, self.environment)
        return Spent(rival_figures(json.loads(result_file.read_text(encoding="utf-8"))), done.cpu_s)


def run(settings: Settings, repeats: int) -> None:
    """Measure and print. Raises UserError if the engine or the models are missing."""
    check_model(settings.models_dir, TARGET)
    prompts = load_prompts(settings, WORKLOAD, LOAD.num_prompts, seed=0)
    with own_home(settings) as own, serving(own, STUDY, STUDY.arms[0]) as base_url:
        sides = Sides(own, base_url, vllm_environment(own, STUDY, STUDY.arms[0]))
        rows = _compare(sides, write_dataset(own.home / "prompts.jsonl", prompts), repeats)
    title = f"{LOAD.num_prompts} prompts x {WORKLOAD.output_tokens} tokens, concurrency {LOAD.max_concurrency}"
    show(f"Client: {title}, {repeats} x A B B A", "vllm bench serve", rows)


def _compare(sides: Sides, dataset: Path, repeats: int) -> list[Row]:
    whole = (dataset, LOAD.max_concurrency, WORKLOAD.output_tokens)
    single = (write_dataset(dataset.with_name("one.jsonl"), [Prompt("0", None, "Once upon a time")]), 1, 2)
    sides.ours(*whole)  # the server's first requests are slower than all others
    idle = alternated(
        "client, start-up", repeats, lambda: sides.ours(*single).cpu_s, lambda: sides.theirs(*single).cpu_s
    )
    ours, theirs = alternated("client", repeats, lambda: sides.ours(*whole), lambda: sides.theirs(*whole))
    return _rows((ours, statistics.median(idle[0])), (theirs, statistics.median(idle[1])))


def _rows(ours: tuple[list[Spent], float], theirs: tuple[list[Spent], float]) -> list[Row]:
    """Return the table's rows. Each side has the results of its runs, and the CPU seconds of its start-up."""

    def row(name: str, value: Callable[[Spent, float], float], aim: str) -> Row:
        columns = [[value(spent, start_up_s) for spent in runs] for runs, start_up_s in (ours, theirs)]
        return Row(name, columns[0], columns[1], aim)

    return [
        row("output tok/s", lambda spent, _: spent.figures.output_tok_per_s, "0.98 .. 1.02"),
        row("median TTFT ms", lambda spent, _: spent.figures.ttft_ms, "0.97 .. 1.03"),
        row("median TPOT ms", lambda spent, _: spent.figures.tpot_ms, "0.97 .. 1.03"),
        row("client CPU s", lambda spent, _: spent.cpu_s, "0.25 at most"),
        row("client CPU s after start-up", lambda spent, start_s: spent.cpu_s - start_s, "no aim"),
    ]
