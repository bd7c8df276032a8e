"""A server's own counters, read from the page where it publishes them for Prometheus."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import aiohttp

from lab.errors import EngineError
from lab.records import ServerCounters

_SAMPLE = re.compile(
    r"^(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})?\s+"
    r"(?P<value>[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)(?:\s+-?\d+)?\s*$"
)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_TIMEOUT = aiohttp.ClientTimeout(total=10)


@dataclass(frozen=True)
class Metrics:
    """Where an engine publishes its numbers, and what it calls them.

    `counters` has our names (ServerCounters) for its cumulative ones, `gauges` for those of the moment: running and
    waiting requests, and the share of the KV cache in use (0 to 1). Where tokens are counted by their place in the
    draft, the sums are made from those.
    """

    counters: Mapping[str, str]
    gauges: Mapping[str, str]
    path: str = "/metrics"
    position_label: str = "position"
    accepted_per_position: str | None = None
    drafted_per_position: str | None = None


VLLM = Metrics(
    counters={
        "prompt_tokens": "vllm:prompt_tokens_total",
        "generation_tokens": "vllm:generation_tokens_total",
        "num_drafts": "vllm:spec_decode_num_drafts_total",
        "num_draft_tokens": "vllm:spec_decode_num_draft_tokens_total",
        "num_accepted_tokens": "vllm:spec_decode_num_accepted_tokens_total",
        "prefix_cache_queries": "vllm:prefix_cache_queries_total",
        "prefix_cache_hits": "vllm:prefix_cache_hits_total",
        "num_preemptions": "vllm:num_preemptions_total",
    },
    gauges={
        "requests_running": "vllm:num_requests_running",
        "requests_waiting": "vllm:num_requests_waiting",
        "kv_cache_usage": "vllm:kv_cache_usage_perc",
    },
    accepted_per_position="vllm:spec_decode_num_accepted_tokens_per_pos_total",
)
#: SGLang publishes acceptance as a gauge over its last batches, with the bonus token in it: no difference over a window
#: can be made of that, so accepted tokens are None here and come from each request (trap 9).
SGLANG = Metrics(
    counters={
        "prompt_tokens": "sglang:prompt_tokens_total",
        "generation_tokens": "sglang:generation_tokens_total",
        "num_drafts": "sglang:spec_verify_calls_total",
        "prefix_cache_queries": "sglang:prompt_tokens_total",
        "prefix_cache_hits": "sglang:cached_tokens_total",
        "num_preemptions": "sglang:num_retracted_requests_total",
    },
    gauges={
        "requests_running": "sglang:num_running_reqs",
        "requests_waiting": "sglang:num_queue_reqs",
        "kv_cache_usage": "sglang:token_usage",
    },
)
TENSORRT_LLM = Metrics(
    counters={
        "prompt_tokens": "trtllm_prompt_tokens_total",
        "generation_tokens": "trtllm_generation_tokens_total",
        "prefix_cache_queries": "trtllm_prompt_tokens_total",
        "prefix_cache_hits": "trtllm_prompt_cached_tokens_total",
    },
    gauges={
        "requests_running": "trtllm_num_requests_running",
        "requests_waiting": "trtllm_num_requests_waiting",
        "kv_cache_usage": "trtllm_kv_cache_utilization",
    },
    path="/prometheus/metrics",
    position_label="token_position",
    accepted_per_position="trtllm_spec_decode_accepted_tokens_total",
    drafted_per_position="trtllm_spec_decode_drafted_tokens_total",
)


async def read_counters(
    session: aiohttp.ClientSession, base_url: str, metrics: Sequence[Metrics] = (VLLM,), *, required: bool = True
) -> ServerCounters:
    """The counters at this moment; all None where there is no such page.

    Of several `metrics` the first that the server speaks counts. Raises EngineError if it cannot be asked, or (where
    they are `required`: on an engine of our own) answers with anything but the page or 404.
    """
    for dialect in metrics:
        text = await read_metrics(session, base_url, dialect.path, required=required)
        if text is not None and (counters := parse_counters(text, dialect)) != ServerCounters():
            return counters
    return ServerCounters()


async def read_metrics(
    session: aiohttp.ClientSession, base_url: str, path: str, *, required: bool = True
) -> str | None:
    """The page's text, or None where there is no such page. Raises EngineError as `read_counters` does."""
    url = base_url.rstrip("/") + path
    try:
        async with session.get(url, timeout=_TIMEOUT, allow_redirects=False) as response:
            if response.status == 404 or (response.status != 200 and not required):
                return None
            if response.status != 200:
                raise EngineError(f"{url} answered HTTP {response.status}")
            return (await response.read()).decode("utf-8", "replace")
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise EngineError(f"{url} cannot be read: {type(error).__name__}: {error}") from error


def parse_counters(text: str, metrics: Metrics = VLLM) -> ServerCounters:
    """Counters from Prometheus text, summed over labels (one engine may report for several ranks)."""
    samples = _Samples(text, metrics)
    counters = {ours: samples.totals.get(theirs) for ours, theirs in metrics.counters.items()}
    if counters.get("prefix_cache_hits") is None:
        counters["prefix_cache_queries"] = None  # where it is the prompt tokens, there is a cache only if it has hits
    accepted, drafted = (
        samples.by_position.get(name or "", {})
        for name in (metrics.accepted_per_position, metrics.drafted_per_position)
    )
    if drafted:  # a position that was drafted and never accepted is not printed
        accepted = {place: accepted.get(place, 0.0) for place in drafted}
        counters["num_drafts"] = drafted.get(0)  # every round drafts at least one token
        counters["num_draft_tokens"] = sum(drafted.values())
        counters["num_accepted_tokens"] = sum(accepted.values())
    return ServerCounters(
        **counters,
        num_accepted_tokens_per_position=tuple(accepted[place] for place in sorted(accepted)) or None,
    )


def parse_gauges(text: str, metrics: Metrics = VLLM) -> dict[str, float]:
    """The gauges that are there, by our names, from Prometheus text; summed over labels, the cache's share averaged."""
    samples = _Samples(text, metrics)
    found = {ours: name for ours, name in metrics.gauges.items() if name in samples.totals}
    return {
        ours: samples.totals[name] / (samples.counts[name] if ours == "kv_cache_usage" else 1)
        for ours, name in found.items()
    }


@dataclass
class _Samples:
    """The samples of a page, added up."""

    text: str
    metrics: Metrics
    totals: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    by_position: dict[str, dict[int, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, labels, value in _samples(self.text):
            self.totals[name] += value
            self.counts[name] += 1
            if name in (self.metrics.accepted_per_position, self.metrics.drafted_per_position):
                places, place = self.by_position.setdefault(name, {}), int(labels[self.metrics.position_label])
                places[place] = places.get(place, 0.0) + value


def _samples(text: str) -> Iterator[tuple[str, dict[str, str], float]]:
    """Each sample line as name, labels, value; NaN and infinities are left out."""
    for line in text.splitlines():
        if match := _SAMPLE.match(line):
            yield match["name"], dict(_LABEL.findall(match["labels"] or "")), float(match["value"])
