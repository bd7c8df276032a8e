"""The metrics page of an engine: cumulative counters around a window, and gauges inside it."""

from __future__ import annotations

import asyncio
import io
import logging
import re
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import aiohttp
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from jobs.engines.kind import Metrics
from jobs.engines.kinds import vllm
from lab.errors import EngineError
from lab.metrics.records import ServerCounters
from lab.storable import MOST_CHARS, storable
from workers.load.client import Endpoint, PageTooLongError, open_session, read_page

logger = logging.getLogger(__name__)
T = TypeVar("T")
_REQUESTS = ("requests_running", "requests_waiting")
#: Timeout of all pages together: the window waits for them.
_TIMEOUT_S = 30
#: A gauge that arrives later would belong to another second.
_GAUGE_TIMEOUT_S = 0.8
#: vLLM's page has 100 KB. Reading megabytes each second would disturb the window.
_PAGE_BYTES = 4 * 2**20
#: Readings without gauges before giving up: SGLang publishes them only after some steps.
_MOST_IN_VAIN = 5
_NAME, _POSITION = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*"), re.compile(r"[0-9]{1,4}")
#: A float counts every whole number below this.
_MOST_COUNTED, _MOST_OF_A_GAUGE = 2**53, 2**31


class PageTooLargeError(EngineError):
    """A page of metrics is too long."""


async def read_counters(
    session: aiohttp.ClientSession,
    base_url: str,
    metrics: Sequence[Metrics] = (vllm.METRICS,),
    *,
    required: bool = True,
) -> ServerCounters:
    """Return the current counters; all None if the server has no such page.

    The first of several `metrics` that matches a page is used. Raises EngineError if a page cannot be read, or, if they
    are `required` (an engine that we started), if the response is neither the page nor 404.
    """
    pages = _Pages(session, base_url, required=required)
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            for names in metrics:
                page = await pages.read(names.path)
                if page is not None and (counters := await _parsed(parse_counters, page, names)) != ServerCounters():
                    return counters
    except TimeoutError:
        raise EngineError(f"{base_url}{names.path} gave no answer within {_TIMEOUT_S} s") from None
    return ServerCounters()


class _Pages:
    """Pages of a server at one moment, each fetched once."""

    def __init__(self, session: aiohttp.ClientSession, base_url: str, *, required: bool = False) -> None:
        self._session, self._base_url, self._required = session, base_url.rstrip("/"), required
        self._read: dict[str, bytes | None] = {}

    async def read(self, path: str) -> bytes | None:
        """Return the page, or None if it does not exist. Raises EngineError or TimeoutError."""
        if path not in self._read:
            self._read[path] = await self._fetch(f"{self._base_url}{path}")
        return self._read[path]

    async def _fetch(self, url: str) -> bytes | None:
        try:
            async with self._session.get(url, allow_redirects=False) as response:
                status, page = response.status, await read_page(response, _PAGE_BYTES)
        except PageTooLongError as error:
            raise PageTooLargeError(f"{url} cannot be read: {error}") from error
        except TimeoutError:
            raise
        except (aiohttp.ClientError, OSError) as error:
            raise EngineError(storable(f"{url} cannot be read: {type(error).__name__}: {error}", MOST_CHARS)) from error
        except Exception as bug:
            raise _bug(url, bug) from bug
        if status == 200:
            return page
        if status == 404 or (not self._required and 300 <= status < 500):
            return None
        raise EngineError(f"{url} answered HTTP {status}")


async def _parsed(parse: Callable[[str, Metrics], T], page: bytes, names: Metrics) -> T:
    """Parse a page in a thread: a long one must not hold up the chunks of a measured window. Raises EngineError."""
    try:
        return await asyncio.to_thread(lambda: parse(page.decode("utf-8", "replace"), names))
    except Exception as bug:
        raise _bug(names.path, bug) from bug


def _bug(page: str, bug: Exception) -> EngineError:
    """Report a bug of ours that a page reveals: only this page is lost, not the run; the traceback is in the worker's
    log.
    """
    logger.error("%s could not be read", page, exc_info=bug)
    why = f"an error inside Drafthouse at {page} ({type(bug).__name__}: {bug}): see the worker's log"
    return EngineError(storable(why, MOST_CHARS))


def parse_counters(text: str, metrics: Metrics = vllm.METRICS) -> ServerCounters:
    """Parse counters from Prometheus text, summed over labels (one engine may report for several ranks)."""
    by_position = [name for name in (metrics.accepted_per_position, metrics.drafted_per_position) if name]
    names = {*by_position, *_names(metrics, metrics.counters), *metrics.added.values()}
    samples = _samples(text, names, _MOST_COUNTED)
    counters = {ours: _sum(_of(samples, metrics, theirs), _MOST_COUNTED) for ours, theirs in metrics.counters.items()}
    for ours, theirs in metrics.added.items():
        counters[ours] = _with(counters[ours], samples[theirs])
    if counters.get("prefix_cache_hits") is None:
        counters["prefix_cache_queries"] = None  # SGLang and TensorRT-LLM: prompt tokens, a cache only if it has hits
    accepted, drafted = (
        _by_position(samples[name], metrics.position_label) if name else {}
        for name in (metrics.accepted_per_position, metrics.drafted_per_position)
    )
    if drafted:
        if accepted is not None:  # a position that was drafted but never accepted is not printed
            accepted = {position: accepted.get(position, 0.0) for position in drafted}
        counters["num_drafts"] = drafted.get(0)  # every round drafts at least one token
        counters["num_draft_tokens"] = sum(drafted.values())
        counters["num_accepted_tokens"] = None if accepted is None else sum(accepted.values())
    return ServerCounters(**counters, num_accepted_tokens_per_position=_in_order(accepted))


def _names(metrics: Metrics, of: Mapping[str, str]) -> set[str]:
    """Return the names of metrics on the page, current and former ones."""
    return {name for theirs in of.values() for name in (theirs, metrics.formerly.get(theirs)) if name}


#: The samples of a name; None if a line of it cannot be believed.
_Samples = Sequence[Sample] | None


def _of(samples: Mapping[str, _Samples], metrics: Metrics, name: str) -> _Samples:
    """Return the samples of a metric, under its current or else its former name, without copies."""
    former = metrics.formerly.get(name)
    found = samples[former] if former is not None and samples[name] == [] else samples[name]
    if not found or not metrics.copies:
        return found
    greatest: dict[Any, Sample] = {}
    for sample in sorted(found, key=lambda sample: sample.value):
        greatest[frozenset(label for label in sample.labels.items() if label[0] not in metrics.copies)] = sample
    return list(greatest.values())


def _totals(samples: _Samples) -> _Samples:
    """Return the samples without those that are parts of another: SGLang, scheduling by priority, publishes a gauge's
    total under an empty priority and each priority beside it.
    """
    return None if samples is None else [sample for sample in samples if not sample.labels.get("priority")]


def _sum(samples: _Samples, below: float) -> float | None:
    total = sum(sample.value for sample in samples) if samples else None
    return total if total is not None and total < below else None


def _with(counter: float | None, added: _Samples) -> float | None:
    """Return the counter with what further samples add; None if either is unknown."""
    more = 0.0 if added == [] else _sum(added, _MOST_COUNTED)
    return None if counter is None or more is None else counter + more


def _by_position(samples: _Samples, label: str) -> dict[int, float] | None:
    """Return the sums by position label; None if a label is not a position."""
    sums: dict[int, float] = defaultdict(float)
    for sample in samples or ():
        position = sample.labels.get(label, "")
        if not _POSITION.fullmatch(position):
            return None
        sums[int(position)] += sample.value
    return None if samples is None else sums


def _in_order(by_position: Mapping[int, float] | None) -> tuple[float, ...] | None:
    """Return the values in order of position; None if one is missing in between, which would shift the later ones."""
    if not by_position or sorted(by_position) != [*range(len(by_position))]:
        return None
    return tuple(by_position[position] for position in range(len(by_position)))


def _samples(text: str, names: Collection[str], below: float) -> dict[str, _Samples]:
    """Parse the samples with these names only: the page has hundreds of lines, and a window is being measured.

    A malformed, negative, too large or duplicate line makes its name unknown: the sum without it would be wrong. A name
    that is on no line has no samples.
    """
    found: dict[str, list[Sample]] = {name: [] for name in names}
    unknown, seen, prefixes = set[str](), set[Any](), tuple(names)
    for line in io.StringIO(text):  # one by one, so that other threads run meanwhile
        if not line.startswith(prefixes) or (match := _NAME.match(line)) is None or (name := match[0]) not in found:
            continue
        try:
            (sample,) = (sample for family in text_string_to_metric_families(line) for sample in family.samples)
        except Exception:  # noqa: BLE001 - the parser raises whatever a malformed line leads to
            unknown.add(name)
            continue
        series = (name, frozenset(sample.labels.items()))
        if not 0 <= sample.value < below or series in seen:
            unknown.add(name)
        seen.add(series)
        found[name].append(sample)
    return {name: None if name in unknown else samples for name, samples in found.items()}


@dataclass(frozen=True)
class GaugeReading:
    """The load of an engine at one moment; None for a gauge that it does not publish."""

    engine_running: int | None = None
    engine_waiting: int | None = None
    kv_cache_usage: float | None = None


@dataclass
class Gauges:
    """Reads an engine's gauges with one request in a thread of its own; stops once no page turns out to have them."""

    endpoint: Endpoint
    metrics: Sequence[Metrics]
    _candidates: list[Metrics] = field(init=False)
    _in_vain: int = field(default=0, init=False)
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock, init=False)  # as in Telemetry

    def __post_init__(self) -> None:
        self._candidates = list(self.metrics)

    async def read(self) -> GaugeReading:
        """Read the gauges; empty if the engine does not answer in time, as its requests show any trouble."""
        return await asyncio.to_thread(self._read_here)

    def _read_here(self) -> GaugeReading:
        """Read in an event loop of this thread: that of the window has chunks to read."""
        with self._one_at_a_time:
            if not self._candidates:
                return GaugeReading()
            reading = asyncio.run(self._read())
            self._in_vain = self._in_vain + 1 if reading == GaugeReading() else 0
            if self._in_vain >= _MOST_IN_VAIN:
                self._candidates = []
            return reading

    async def _read(self) -> GaugeReading:
        try:
            async with asyncio.timeout(_GAUGE_TIMEOUT_S), open_session(self.endpoint) as session:
                pages = _Pages(session, self.endpoint.base_url)
                for names in tuple(self._candidates):
                    page = await pages.read(names.path)
                    reading = GaugeReading() if page is None else await _parsed(parse_gauges, page, names)
                    if reading != GaugeReading():
                        self._candidates = [names]
                        return reading
                    if page is None:
                        self._candidates.remove(names)
        except PageTooLargeError:
            self._candidates = []
        except (EngineError, TimeoutError):
            pass
        return GaugeReading()


def parse_gauges(text: str, metrics: Metrics = vllm.METRICS) -> GaugeReading:
    """Parse gauges from Prometheus text: requests are summed over labels, the share of the KV cache is averaged."""
    samples = _samples(text, _names(metrics, metrics.gauges), _MOST_OF_A_GAUGE)
    of = {gauge: _totals(_of(samples, metrics, theirs)) for gauge, theirs in metrics.gauges.items()}
    running, waiting = (_sum(of[gauge], _MOST_OF_A_GAUGE) for gauge in _REQUESTS)
    usage = [sample.value for sample in of.get("kv_cache_usage") or ()]
    return GaugeReading(
        engine_running=None if running is None else round(running),
        engine_waiting=None if waiting is None else round(waiting),
        kv_cache_usage=sum(usage) / len(usage) if usage and max(usage) <= 1 else None,
    )
