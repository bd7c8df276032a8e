"""A server's own counters, read from its `/metrics`."""

from __future__ import annotations

import re
from collections.abc import Iterator

import aiohttp

from lab.errors import EngineError
from lab.records import ServerCounters

_SAMPLE = re.compile(
    r"^(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})?\s+"
    r"(?P<value>[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)(?:\s+-?\d+)?\s*$"
)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_TIMEOUT = aiohttp.ClientTimeout(total=10)

#: Our name -> vLLM's.
_COUNTERS = {
    "prompt_tokens": "vllm:prompt_tokens_total",
    "generation_tokens": "vllm:generation_tokens_total",
    "num_drafts": "vllm:spec_decode_num_drafts_total",
    "num_draft_tokens": "vllm:spec_decode_num_draft_tokens_total",
    "num_accepted_tokens": "vllm:spec_decode_num_accepted_tokens_total",
    "prefix_cache_queries": "vllm:prefix_cache_queries_total",
    "prefix_cache_hits": "vllm:prefix_cache_hits_total",
    "num_preemptions": "vllm:num_preemptions_total",
}
_PER_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos_total"


async def read_counters(session: aiohttp.ClientSession, base_url: str) -> ServerCounters:
    """The counters at this moment; all None where there is no `/metrics`. Raises EngineError if it cannot be asked."""
    url = base_url.rstrip("/") + "/metrics"
    try:
        async with session.get(url, timeout=_TIMEOUT) as response:
            if response.status == 404:
                return ServerCounters()
            if response.status != 200:
                raise EngineError(f"{url} answered HTTP {response.status}")
            return parse_counters((await response.read()).decode("utf-8", "replace"))
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise EngineError(f"{url} cannot be read: {type(error).__name__}: {error}") from error


def parse_counters(text: str) -> ServerCounters:
    """Counters from Prometheus text, summed over labels (one engine may report for several ranks)."""
    totals: dict[str, float] = {}
    positions: dict[int, float] = {}
    for name, labels, value in _samples(text):
        totals[name] = totals.get(name, 0.0) + value
        if name == _PER_POSITION:
            place = int(labels["position"])
            positions[place] = positions.get(place, 0.0) + value
    return ServerCounters(
        **{ours: totals.get(theirs) for ours, theirs in _COUNTERS.items()},
        num_accepted_tokens_per_position=tuple(positions[place] for place in sorted(positions)) or None,
    )


def _samples(text: str) -> Iterator[tuple[str, dict[str, str], float]]:
    """Each sample line as name, labels, value; NaN and infinities are left out."""
    for line in text.splitlines():
        if match := _SAMPLE.match(line):
            yield match["name"], dict(_LABEL.findall(match["labels"] or "")), float(match["value"])
