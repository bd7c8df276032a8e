"""Where each engine publishes its metrics, and their names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Metrics:
    """The metrics page of an engine and the names on it.

    `counters` maps our names (ServerCounters) to cumulative metrics, `gauges` to those of the moment: running and
    waiting requests, and the share of the KV cache in use (0 to 1). If an engine counts tokens by position in the
    draft, sums are computed from those. `formerly` has the names of older releases, read where the newer ones are not.
    """

    counters: Mapping[str, str]
    gauges: Mapping[str, str]
    path: str = "/metrics"
    position_label: str = "position"
    accepted_per_position: str | None = None
    drafted_per_position: str | None = None
    formerly: Mapping[str, str] = field(default_factory=dict)
