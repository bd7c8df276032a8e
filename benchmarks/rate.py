"""Part rate: how late both clients see fast chunks from a server that streams at a steady 20 ms.

The server (`services.verifying.steady_server`) writes a chunk to every stream at each tick, as an engine does after
each step, and notes the gaps between the chunks of a stream as it wrote them. Aims for 25,000 chunks/s: the lag of our
event loop below 5 ms (p99), and the gaps between chunks that a client sees within 1 ms of the server's own (p99).

An engine on a GPU host has processors to itself. So the server is bound to one here, and both clients to the others: on
two shared ones a client often waits for the server's time slice to end, which is not the client's fault.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.client import OUR_CLIENT, STUDY, Sides, Spent, by_client
from benchmarks.processes import own_home
from benchmarks.table import Row, alternated, show
from host.settings import Settings
from jobs.datasets.prompt import Prompt
from jobs.engines.models import check_model
from services.verifying.our_client import Figures
from services.verifying.pace import beside_steady_server
from services.verifying.processes import vllm_environment
from services.verifying.rival import TARGET, write_dataset

T = TypeVar("T")
AIM_LAG_MS, AIM_GAP_MS = 5.0, 1.0
STREAMS, TOKENS, TICK_S = (128, 256, 500), 100, 0.02
_ANSWERS_A_STREAM = 2


@dataclass(frozen=True)
class SideFigures:
    """A client's observations of a server, and the server's own."""

    figures: Figures
    server_gap_p99_ms: float
    lag_p99_ms: float | None  # of our event loop


def run(settings: Settings, repeats: int) -> None:
    """Measure and print. Raises UserError if vLLM or the models are missing."""
    check_model(settings.models_dir, TARGET)
    with own_home(settings) as own:
        for streams in STREAMS:
            dataset = write_dataset(own.home / f"{streams}.jsonl", prompts(streams))
            sides = partial(by_us, dataset, streams), partial(_by_vllm, own, dataset, streams)
            show_rate(streams, *alternated(f"rate, {streams} streams", repeats, *sides))


def prompts(streams: int) -> list[Prompt]:
    return [Prompt(str(place), None, f"Tell me tale number {place}.") for place in range(streams * _ANSWERS_A_STREAM)]


def by_us(dataset: Path, streams: int, tokens: int = TOKENS) -> SideFigures:
    """Measure a steady server with our client, in a process of its own."""
    return _side(lambda base_url: by_client(OUR_CLIENT, base_url, dataset, streams, tokens, model="steady", warm=True))


def _by_vllm(settings: Settings, dataset: Path, streams: int) -> SideFigures:
    environment = vllm_environment(settings, STUDY, STUDY.arms[0])
    return _side(lambda base_url: Sides(settings, base_url, environment).theirs(dataset, streams, TOKENS))


def _side(measure: Callable[[str], Spent]) -> SideFigures:
    spent, written = beside_bound_server(measure, TICK_S)
    return SideFigures(spent.figures, written["gap_p99_ms"], spent.lag_p99_ms)


def beside_bound_server(measure: Callable[[str], T], tick_s: float) -> tuple[T, dict[str, Any]]:
    """Measure beside a steady server on one processor, with the clients on the others, if there are any."""
    if not hasattr(os, "sched_setaffinity"):
        return beside_steady_server(measure, tick_s)
    first, *others = sorted(os.sched_getaffinity(0))

    def on_the_others(base_url: str) -> T:
        with _bound_to(others or [first]):
            return measure(base_url)

    with _bound_to([first]):
        return beside_steady_server(on_the_others, tick_s)


@contextmanager
def _bound_to(processors: Collection[int]) -> Iterator[None]:
    """Bind this process, and those that it starts meanwhile."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, processors)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def show_rate(streams: int, ours: Sequence[SideFigures], theirs: Sequence[SideFigures]) -> None:
    rate = f"{streams} streams, {streams / TICK_S:,.0f} chunks/s"
    our_gaps, their_gaps = ([window.figures.gap_p99_ms for window in side] for side in (ours, theirs))
    show(f"Rate: {rate}", "vllm bench serve", [Row("gap p99 ms", our_gaps, their_gaps, "1 at most")])
    lags = [window.lag_p99_ms for window in ours if window.lag_p99_ms is not None]
    beyond = [window.figures.gap_p99_ms - window.server_gap_p99_ms for window in ours]
    show(
        f"Rate: {rate}, our client",
        "aim",
        [
            Row("loop lag p99 ms", lags, [AIM_LAG_MS] * len(lags), "1 at most"),
            Row("gap p99 beyond the server's ms", beyond, [AIM_GAP_MS] * len(beyond), "1 at most"),
        ],
    )
