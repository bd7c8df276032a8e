"""What an engine says of this moment: requests it works on, requests that wait, how full its KV cache is."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import aiohttp

from jobs.engines.metric_names import Metrics
from lab.errors import EngineError
from workers.probes.counters import parse_gauges, read_metrics

#: An answer that comes later belongs to another second.
_TIMEOUT_S = 0.8


@dataclass(frozen=True)
class GaugeReading:
    """None where the engine does not tell."""

    engine_running: int | None = None
    engine_waiting: int | None = None
    kv_cache_usage: float | None = None


@dataclass
class Gauges:
    """An engine's page of numbers: asked with one request a second, and never again once there is no such page."""

    session: aiohttp.ClientSession
    base_url: str
    dialects: Sequence[Metrics]
    _spoken: list[Metrics] = field(init=False)

    def __post_init__(self) -> None:
        self._spoken = list(self.dialects)

    async def read(self) -> GaugeReading:
        """Nothing is known where the engine does not answer in time: its requests tell whether it is in trouble."""
        for dialect in tuple(self._spoken):
            try:
                async with asyncio.timeout(_TIMEOUT_S):
                    text = await read_metrics(self.session, self.base_url, dialect.path, required=False)
            except (EngineError, TimeoutError):
                return GaugeReading()
            reading = GaugeReading() if text is None else parse(text, dialect)
            if reading != GaugeReading():
                self._spoken = [dialect]
                return reading
            if text is None:
                self._spoken.remove(dialect)
        return GaugeReading()


def parse(text: str, dialect: Metrics) -> GaugeReading:
    """Only the lines that matter are looked at closely: the page has hundreds, and a window is being measured."""
    names = tuple(dialect.gauges.values())
    told = parse_gauges("\n".join(line for line in text.splitlines() if line.startswith(names)), dialect)
    running, waiting = (told.get(name) for name in ("requests_running", "requests_waiting"))
    return GaugeReading(
        engine_running=None if running is None else round(running),
        engine_waiting=None if waiting is None else round(waiting),
        kv_cache_usage=told.get("kv_cache_usage"),
    )
