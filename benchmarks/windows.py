"""Part windows: figures of many short windows against those of one long window, with the same prompts on one server.

At 1, 8 and 64 streams, on the steady server and on both engines of the reference pair. Both figures come from the parts
in which all streams were busy, and each short window has the prompts that a study would give it. Aim: within 1 %, with
the 95 % interval over the pairs.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.beside import interval
from benchmarks.processes import own_home
from benchmarks.table import Row, alternated, show
from host.settings import Settings
from jobs.datasets.loader import load_prompts
from jobs.datasets.prompt import Prompt
from jobs.engines.models import check_model
from lab.errors import EngineError
from lab.metrics.latency import tpot_ms, ttft_ms
from lab.metrics.request_table import RequestTable
from lab.metrics.run_data import by_round, steady_tokens, steady_window
from lab.schedule.rounds import dealt, number_of_windows
from lab.study import Arm, Load, Sampling, Speculation, Study, Workload
from lab.study.plan import PlannedRun
from lab.study.reference_pair import FLAGS, TARGET
from services.verifying.pace import beside_steady_server
from services.verifying.processes import serving
from workers.load.client import Endpoint, RequestParams
from workers.load.driver import drive_on, result_of, warm_up
from workers.load.window import Window

STREAMS, TOKENS, _TICK_S = (1, 8, 64), 24, 0.02
#: The windows of a run, each with the prompts of a study's.
_WINDOWS = 4
#: As many as the dataset has: of more streams some send the same ones, which no cache remembers.
_PROMPTS = 288
_DRAFT = Speculation(method="draft_model", model="reference-draft", num_speculative_tokens=3)
_WORKLOAD = Workload(output_tokens=TOKENS)
ARMS = (Arm(name="no draft"), Arm(name="draft", speculation=_DRAFT))


@dataclass(frozen=True)
class Figures:
    """`tok_per_s` is that of the full parts of all windows; the latencies are medians."""

    tok_per_s: float
    ttft_ms: float
    tpot_ms: float


def run(settings: Settings, repeats: int) -> None:
    """Measure and print. Raises UserError if the engine or the models are missing."""
    for name in (TARGET, "reference-draft"):
        check_model(settings.models_dir, name)
    for streams in STREAMS:
        measure_steady(settings, streams, repeats)
    study = Study(
        name="windows",
        target=TARGET,
        arms=ARMS,
        workloads=(_WORKLOAD,),
        loads=tuple(_load(streams) for streams in STREAMS),
        engine_flags=FLAGS["vllm"] | {"max-num-seqs": max(STREAMS)},
    )
    with own_home(settings) as own:
        for arm in ARMS:
            with serving(own, study, arm) as base_url:
                for streams in STREAMS:
                    _show(f"vLLM, {arm.name}", streams, *_pairs(own, base_url, TARGET, streams, repeats))


def measure_steady(settings: Settings, streams: int, repeats: int, tick_s: float = _TICK_S) -> None:
    """Measure a steady server of this run's own, and print its table."""
    pairs, _ = beside_steady_server(lambda url: _pairs(settings, url, "steady", streams, repeats), tick_s)
    _show("steady server", streams, *pairs)


def _load(streams: int) -> Load:
    return Load(max_concurrency=streams, num_prompts=3 * streams * _WINDOWS)


def _pairs(
    settings: Settings, base_url: str, model: str, streams: int, repeats: int
) -> tuple[list[Figures], list[Figures]]:
    """Return the figures of runs in several windows and of runs in one, by turns."""
    load = _load(streams)
    of_dataset = load_prompts(settings, _WORKLOAD, min(load.num_prompts, _PROMPTS), seed=0)
    prompts = list(itertools.islice(itertools.cycle(of_dataset), load.num_prompts))
    windows = min(_WINDOWS, number_of_windows(PlannedRun(ARMS[0], _WORKLOAD, load, 0)))
    hands = dealt([len(prompt.text) for prompt in prompts], windows, seed=0)
    short = [[prompts[place] for place in hand] for hand in hands]
    target = Endpoint(base_url, model, token_ids=True)

    def of(windows: Sequence[Sequence[Prompt]]) -> Callable[[], Figures]:
        return lambda: asyncio.run(_measured(target, load, windows))

    of([prompts[: max(streams, 4)]])()  # the first requests of a server are slower than all others
    return alternated(f"windows, {streams} streams", repeats, of(short), of([prompts]))


async def _measured(target: Endpoint, load: Load, windows: Sequence[Sequence[Prompt]]) -> Figures:
    params = RequestParams(Sampling(), TOKENS, ignore_eos=True, timeout_s=600)
    window = Window(load, load.num_prompts)
    async with target.connections() as connections:
        await warm_up(connections, target, windows[0][: load.max_concurrency], load=load, params=params)
        for prompts in windows:
            await connections.open(target.url, min(load.max_concurrency, len(prompts)))
            await drive_on(window, connections, target, prompts, params=params)
    return figures(RequestTable.of(result_of(window).requests), load.max_concurrency)


def figures(requests: RequestTable, streams: int) -> Figures:
    """Compute the figures as a run's. Raises EngineError without a part in which all streams were busy."""
    rounds = bool(requests.known("round").any())
    tokens, seconds = 0, 0.0
    for of_window in by_round(requests):
        part = steady_window(of_window, streams, begins_together=streams > 1 and rounds)
        counted = None if part is None else steady_tokens(of_window, part)
        if part is None or counted is None:
            raise EngineError("not all streams were busy at once, or the server does not count the tokens of a chunk")
        tokens, seconds = tokens + counted, seconds + part[1] - part[0]
    return Figures(tokens / seconds, *(float(np.nanmedian(of(requests))) for of in (ttft_ms, tpot_ms)))


def _show(server: str, streams: int, short: Sequence[Figures], long: Sequence[Figures]) -> None:
    names = {"output tok/s, all streams busy": "tok_per_s", "median TTFT ms": "ttft_ms", "median TPOT ms": "tpot_ms"}
    rows = [Row.of(name, figure, short, long, "0.99 .. 1.01") for name, figure in names.items()]
    show(f"{_WINDOWS} windows, {server}, {streams} streams, {TOKENS} tokens an answer", "one window", rows)
    print("\n".join(f"  {row.name}: {interval(row.ours, row.theirs)}" for row in rows), flush=True)
