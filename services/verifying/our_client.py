"""Our measuring client as a process of its own, so that its CPU seconds can be counted; argv[1] is the run as JSON."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from jobs.datasets.prompt import Prompt
from lab.errors import EngineError
from lab.metrics.latency import tpot_ms, ttft_ms
from lab.metrics.request_table import RequestTable
from lab.study import Load, Sampling
from workers.load.client import Endpoint, RequestParams
from workers.load.connections import Connections
from workers.load.driver import LoadResult, drive, warm_up


@dataclass(frozen=True)
class Figures:
    """The figures that both clients report."""

    output_tok_per_s: float
    ttft_ms: float  # median
    tpot_ms: float  # median
    gap_p99_ms: float  # between two chunks of a stream


async def measured(
    base_url: str, model: str, dataset: str, output_tokens: int, concurrency: int, *, warm: bool = False
) -> LoadResult:
    """Send every prompt of the file in its order, greedily, with answers of exactly `output_tokens` tokens.

    With `warm`, every stream gets a short answer first, as in a run.
    """
    prompts = _prompts(Path(dataset))
    load = Load(max_concurrency=concurrency, num_prompts=len(prompts))
    params = RequestParams(Sampling(), output_tokens, ignore_eos=True, timeout_s=600)
    target = Endpoint(base_url, model, token_ids=True)
    async with Connections() as connections:
        if warm:
            short = replace(params, output_tokens=16)
            await warm_up(connections, target, prompts[:concurrency], load=load, params=short)
        return await drive(connections, target, prompts, load=load, params=params, seed=0)


def _prompts(dataset: Path) -> list[Prompt]:
    rows = map(json.loads, dataset.read_text(encoding="utf-8").splitlines())
    return [Prompt(str(index), None, row["prompt"]) for index, row in enumerate(rows)]


def figures(result: LoadResult) -> Figures:
    """Compute the figures. Raises EngineError if a request failed, as then there is nothing to compare."""
    if errors := [request.error for request in result.requests if request.error]:
        raise EngineError(f"{len(errors)} requests failed: {errors[0]}")
    requests = RequestTable.of(result.requests)
    tokens, ttfts, tpots = requests.numbers("completion_tokens"), ttft_ms(requests), tpot_ms(requests)
    gaps_s = np.concatenate([np.diff(request.chunk_s) for request in result.requests])
    return Figures(
        output_tok_per_s=float(np.nansum(tokens)) / result.duration_s,
        ttft_ms=float(np.nanmedian(ttfts)),
        tpot_ms=float(np.nanmedian(tpots)),
        gap_p99_ms=float(np.percentile(gaps_s, 99)) * 1000,
    )


def main() -> None:
    run: dict[str, Any] = json.loads(sys.argv[1])
    result = asyncio.run(measured(**run))
    print(json.dumps({"figures": asdict(figures(result)), "client": result.client.model_dump()}))


if __name__ == "__main__":
    main()
