"""A server's own counters, read from the page where it publishes them for Prometheus."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import aiohttp

from jobs.engines.metric_names import VLLM, Metrics
from lab.errors import EngineError
from lab.metrics.records import ServerCounters

_SAMPLE = re.compile(
    r"^(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})?\s+"
    r"(?P<value>[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)(?:\s+-?\d+)?\s*$"
)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_TIMEOUT = aiohttp.ClientTimeout(total=10)


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
