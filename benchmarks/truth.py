"""Three clients against a server that notes what it wrote when: ours, `vllm bench serve` and raw sockets.

It is the second half of part client. The order is drawn anew in each repeat. Aims for ours: throughput within 0.1 % of
the truth, and TTFT 0.5 ms late at most, up to 256 streams.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.client import OUR_CLIENT, STUDY, Sides, Spent, by_client
from benchmarks.processes import own_home
from benchmarks.rate import beside_bound_server, prompts
from host.settings import Settings
from jobs.open_files import raise_limit
from services.verifying.processes import vllm_environment
from services.verifying.rival import write_dataset

#: Streams, and the time between two chunks of each: at most 12,800 chunks a second, which the server can write in time.
STREAMS = {1: 0.02, 8: 0.02, 64: 0.02, 256: 0.02, 1024: 0.08}
_TOKENS, _SEED = 100, 20261127

#: Measures the server of this address with the prompts of a file, on so many streams, in answers of so many tokens.
Client = Callable[[str, Path, int, int], Spent]


@dataclass(frozen=True)
class Seen:
    """What a client reported, divided by the truth, or less it."""

    throughput: float
    ttft_late_ms: float
    tpot: float
    cpu_us_a_chunk: float  # of the whole process, its start-up included


def run(settings: Settings, repeats: int) -> None:
    """Measure and print. Raises UserError if vLLM is missing."""
    raise_limit()  # of the server and the clients, too
    environment = vllm_environment(settings, STUDY, STUDY.arms[0])
    print("\n| streams | client | throughput / truth | TTFT late, ms | TPOT / truth | processor a chunk, µs |")
    print("|---|---|---|---|---|---|", flush=True)
    with own_home(settings) as own:

        def rival(base_url: str, dataset: Path, streams: int, tokens: int) -> Spent:
            return Sides(own, base_url, environment).theirs(dataset, streams, tokens)

        for streams, tick_s in STREAMS.items():
            clients = {"ours": ours, "vllm bench serve": rival, "raw sockets": raw}
            measure(own.home, clients, streams, tick_s=tick_s, repeats=repeats)


ours: Client = partial(by_client, OUR_CLIENT, model="steady", warm=True)
raw: Client = partial(by_client, "benchmarks.raw_client")


def measure(
    folder: Path, clients: Mapping[str, Client], streams: int, *, tick_s: float, repeats: int, tokens: int = _TOKENS
) -> None:
    """Measure with each client in a random order, and print its line."""
    dataset = write_dataset(folder / f"truth-{streams}.jsonl", prompts(streams))
    rng, names = np.random.default_rng(_SEED + streams), list(clients)
    seen: dict[str, list[Seen]] = {name: [] for name in clients}
    for repeat in range(repeats):
        for name in (names[place] for place in rng.permutation(len(names))):
            print(f"truth, {streams} streams: repeat {repeat + 1} of {repeats}, {name}", file=sys.stderr)
            seen[name].append(_seen(clients[name], dataset, streams, tick_s, tokens))
    for name, runs in seen.items():
        cells = [
            f"{statistics.median(of):.4f} ({min(of):.4f} .. {max(of):.4f})"
            for of in ([run.throughput for run in runs], [run.ttft_late_ms for run in runs], [run.tpot for run in runs])
        ]
        print(f"| {streams} | {name} | {' | '.join(cells)} | {statistics.median(r.cpu_us_a_chunk for r in runs):.0f} |")
    sys.stdout.flush()


def _seen(client: Client, dataset: Path, streams: int, tick_s: float, tokens: int) -> Seen:
    spent, written = beside_bound_server(lambda base_url: client(base_url, dataset, streams, tokens), tick_s)
    count = len(dataset.read_text(encoding="utf-8").splitlines())
    answers = sorted(written["answers"])[-count:]  # those before are a client's warm-up
    seconds = max(last for _, _, last, _ in answers) - answers[0][0]
    ttft_ms = 1000 * statistics.median(begun - asked for asked, begun, _, _ in answers)
    tpot_ms = 1000 * statistics.median((last - begun) / (chunks - 1) for _, begun, last, chunks in answers)
    truth = sum(chunks for *_, chunks in answers) / seconds
    return Seen(
        spent.figures.output_tok_per_s / truth,
        spent.figures.ttft_ms - ttft_ms,
        spent.figures.tpot_ms / tpot_ms,
        1e6 * spent.cpu_s / (count * tokens),
    )
