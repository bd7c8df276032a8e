"""The metrics page of an engine: cumulative counters around a window, and gauges once a second inside it."""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import aiohttp
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from jobs.engines.metric_names import VLLM, Metrics
from lab.errors import EngineError
from lab.metrics.records import ServerCounters
from workers.load.client import read_page

_TIMEOUT = aiohttp.ClientTimeout(total=10)
#: A gauge that arrives later would belong to another second.
_GAUGE_TIMEOUT_S = 0.8


async def read_counters(
    session: aiohttp.ClientSession, base_url: str, metrics: Sequence[Metrics] = (VLLM,), *, required: bool = True
) -> ServerCounters:
    """Return the counters at this moment; all None if the server has no such page.

    Of several `metrics` the first one that matches the page is used. Raises EngineError if the server cannot be
    reached, or, if they are `required` (an engine that we started), answers with anything but the page or 404.
    """
    for names in metrics:
        text = await _fetch(session, base_url, names.path, required=required)
        if text is not None and (counters := parse_counters(text, names)) != ServerCounters():
            return counters
    return ServerCounters()


async def _fetch(session: aiohttp.ClientSession, base_url: str, path: str, *, required: bool) -> str | None:
    url = base_url.rstrip("/") + path
    try:
        async with session.get(url, timeout=_TIMEOUT, allow_redirects=False) as response:
            if response.status == 404 or (response.status != 200 and not required):
                return None
            if response.status != 200:
                raise EngineError(f"{url} answered HTTP {response.status}")
            return (await read_page(response)).decode("utf-8", "replace")
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise EngineError(f"{url} cannot be read: {type(error).__name__}: {error}") from error


def parse_counters(text: str, metrics: Metrics = VLLM) -> ServerCounters:
    """Parse counters from Prometheus text, summed over labels (one engine may report for several ranks)."""
    by_position = {name for name in (metrics.accepted_per_position, metrics.drafted_per_position) if name}
    totals: dict[str, float] = defaultdict(float)
    positions: dict[str, dict[int, float]] = {name: defaultdict(float) for name in by_position}
    for sample in _samples(text, by_position | _names(metrics, metrics.counters)):
        totals[sample.name] += sample.value
        if sample.name in by_position:
            positions[sample.name][int(sample.labels[metrics.position_label])] += sample.value
    counters = {ours: totals.get(_published(metrics, theirs, totals)) for ours, theirs in metrics.counters.items()}
    if counters.get("prefix_cache_hits") is None:
        counters["prefix_cache_queries"] = None  # SGLang and TensorRT-LLM: prompt tokens, a cache only if it has hits
    accepted = positions.get(metrics.accepted_per_position or "", {})
    drafted = positions.get(metrics.drafted_per_position or "", {})
    if drafted:  # a position that was drafted but never accepted is not printed
        accepted = {position: accepted.get(position, 0.0) for position in drafted}
        counters["num_drafts"] = drafted.get(0)  # every round drafts at least one token
        counters["num_draft_tokens"] = sum(drafted.values())
        counters["num_accepted_tokens"] = sum(accepted.values())
    return ServerCounters(
        **counters,
        num_accepted_tokens_per_position=tuple(accepted[position] for position in sorted(accepted)) or None,
    )


def _names(metrics: Metrics, of: Mapping[str, str]) -> set[str]:
    """The names on the page, today's and former ones."""
    return {name for theirs in of.values() for name in (theirs, metrics.formerly.get(theirs)) if name}


def _published(metrics: Metrics, name: str, values: Collection[str]) -> str:
    """The name under which the page has a metric: today's, or else the former one."""
    return name if name in values else metrics.formerly.get(name, name)


def _samples(text: str, names: Collection[str]) -> Iterator[Sample]:
    """Parse the samples with these names only: the page has hundreds of lines, and a window is being measured.

    NaN, infinities and malformed lines are skipped: their values are unknown.
    """
    prefixes = tuple(names)
    for line in text.splitlines():
        if line.startswith(prefixes):
            try:
                samples = [sample for family in text_string_to_metric_families(line) for sample in family.samples]
            except ValueError:
                continue
            yield from (sample for sample in samples if sample.name in names and math.isfinite(sample.value))


@dataclass(frozen=True)
class GaugeReading:
    """The load of an engine at one moment; None for a gauge that it does not publish."""

    engine_running: int | None = None
    engine_waiting: int | None = None
    kv_cache_usage: float | None = None


@dataclass
class Gauges:
    """Reads an engine's gauges with one request a second; asks no more once the page turned out to be missing."""

    session: aiohttp.ClientSession
    base_url: str
    metrics: Sequence[Metrics]
    _candidates: list[Metrics] = field(init=False)

    def __post_init__(self) -> None:
        self._candidates = list(self.metrics)

    async def read(self) -> GaugeReading:
        """Return an empty reading if the engine does not answer in time: its requests show whether it is in trouble."""
        for names in tuple(self._candidates):
            try:
                async with asyncio.timeout(_GAUGE_TIMEOUT_S):
                    text = await _fetch(self.session, self.base_url, names.path, required=False)
            except (EngineError, TimeoutError):
                return GaugeReading()
            reading = GaugeReading() if text is None else parse_gauges(text, names)
            if reading != GaugeReading():
                self._candidates = [names]
                return reading
            if text is None:
                self._candidates.remove(names)
        return GaugeReading()


def parse_gauges(text: str, metrics: Metrics = VLLM) -> GaugeReading:
    """Parse gauges from Prometheus text: requests are summed over labels, the share of the KV cache is averaged."""
    values: dict[str, list[float]] = defaultdict(list)
    for sample in _samples(text, _names(metrics, metrics.gauges)):
        values[sample.name].append(sample.value)
    running, waiting, usage = (
        values.get(_published(metrics, metrics.gauges[gauge], values))
        for gauge in ("requests_running", "requests_waiting", "kv_cache_usage")
    )
    return GaugeReading(
        engine_running=None if running is None else round(sum(running)),
        engine_waiting=None if waiting is None else round(sum(waiting)),
        kv_cache_usage=None if usage is None else sum(usage) / len(usage),
    )
