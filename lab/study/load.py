"""The access pattern under which prompts are sent, and the patterns that have names (`pattern = "..."` in a study).

The five patterns and the sweep have the figures of the published experiments that `presets/` repeats. A study is
stored with its loads expanded, so that changing a figure here does not change earlier studies.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from lab.study.model_base import Frozen, Input, Name

#: The fields of a Load by pattern. Without a rate, requests are sent as fast as the concurrency allows.
PATTERNS: dict[str, dict[str, Any]] = {
    "throughput_low": {"max_concurrency": 1, "num_prompts": 16},
    "throughput_high": {"max_concurrency": 32, "num_prompts": 256},
    "burstiness_high": {"request_rate_rps": 64.0, "burstiness": 0.2, "max_concurrency": 32, "num_prompts": 256},
    "burstiness_mid": {"request_rate_rps": 8.0, "burstiness": 1.0, "max_concurrency": 32, "num_prompts": 256},
    "burstiness_low": {"request_rate_rps": 2.0, "burstiness": 4.0, "max_concurrency": 32, "num_prompts": 256},
}
#: The pattern that expands to several loads: one per concurrency, each with this many prompts per stream.
SWEEP = "concurrency_sweep"
SWEEP_CONCURRENCIES = (1, 5, 25, 50, 100, 200)
SWEEP_PROMPTS_PER_STREAM = 8
#: Keys of a load in addition to the fields of Load.
PATTERN_KEYS = ("pattern", "concurrencies", "prompts_per_stream")
PATTERN_NAMES = (*PATTERNS, SWEEP)
Problem = tuple[str, str]
#: The share of requests that must meet the SLO, unless a search says otherwise.
SLO_SHARE = 0.95
#: The bounds of a search for a rate: slower ones take hours, and a client of one thread could not send faster ones.
_LEAST_RPS, _GREATEST_RPS = 1 / 64, 4096.0


#: The most requests at once that a load may ask for.
MOST_AT_ONCE = 4096


class Load(Frozen):
    """The access pattern. `request_rate_rps` of None sends as fast as `max_concurrency` allows (closed loop).

    With a rate, arrivals are gamma distributed (`burstiness` is the shape; 1 is Poisson), constant, or a ramp from
    `request_rate_rps` to `ramp_to_rps`; a trace replays the dataset's own arrival times (scaled to the rate if one is
    set). The load ends when `num_prompts` were sent, or after `duration_s`, whichever comes first, or as soon as more
    than `stop_on_error_share` of the ended requests have failed (judged from the tenth on). A ramp takes `duration_s`
    where one is set, and as long as its prompts last where none is. docs/patterns.md says more.

    With `find`, the load is a search for an arm's capacity: the greatest request rate, or concurrency, at which
    `slo_share` of the requests meet the study's SLO, from `find_from` to `find_to` (a concurrency up to
    `max_concurrency`). Each of its runs is a load of its own (`lab.study.trial`) with these prompts and arrivals.
    """

    label: Annotated[Name | None, Input("automatic")] = Field(
        default=None, title="Name", description="Empty: named after its parameters, like c4-n16"
    )
    max_concurrency: int = Field(
        ge=1, le=MOST_AT_ONCE, title="Concurrency", description="Maximum number of requests in flight"
    )
    num_prompts: int = Field(ge=1, le=1_000_000, title="Prompts", description="Number of requests, without warm-up")
    request_rate_rps: Annotated[float | None, Input("none", step=0.5)] = Field(
        default=None,
        ge=1e-4,
        le=1e6,
        title="Rate (1/s)",
        description="Requests per second; empty: closed loop, each request is sent when another has ended",
    )
    burstiness: Annotated[float, Input(step=0.1)] = Field(
        default=1.0,
        gt=0,
        le=1e6,
        title="Burstiness",
        description="Shape of the gamma distribution: 1 is Poisson, less is burstier. Needs a rate",
    )
    arrivals: Annotated[
        Literal["gamma", "constant", "ramp", "trace"],
        Input(
            choices={
                "gamma": "randomly, with the burstiness above",
                "constant": "at a constant rate",
                "ramp": "at a rising rate, up to the rate below",
                "trace": "as recorded in the dataset",
            }
        ),
    ] = Field(default="gamma", title="Requests are sent")
    ramp_to_rps: Annotated[float | None, Input(step=0.5)] = Field(
        default=None, ge=1e-4, le=1e6, title="Rate at the end (1/s)"
    )
    duration_s: Annotated[float | None, Input("when all prompts are sent", step=10.0)] = Field(
        default=None, gt=0, le=7 * 86_400, title="End after (s)"
    )
    stop_on_error_share: Annotated[float | None, Input("never", step=0.05)] = Field(
        default=None, gt=0, lt=1, title="Stop if more than this share fails (0 to 1)"
    )
    find: Annotated[
        Literal["rate", "concurrency"] | None,
        Input(
            "nothing: one load",
            choices={
                "rate": "the greatest request rate within the SLO",
                "concurrency": "the greatest concurrency within the SLO",
            },
        ),
    ] = Field(default=None, title="Search for")
    slo_share: Annotated[float, Input(step=0.01)] = Field(
        default=SLO_SHARE, ge=0.5, le=0.999, title="Share of requests within the SLO"
    )
    find_from: Annotated[float | None, Input("1", step=0.5)] = Field(default=None, gt=0, le=1e6, title="Search from")
    find_to: Annotated[float | None, Input("for a rate: 4096", step=0.5)] = Field(
        default=None, gt=0, le=1e6, title="Search up to (1/s)"
    )

    @model_validator(mode="before")
    @classmethod
    def _infinite_rate_is_closed_loop(cls, data: Any) -> Any:
        """Accept what `vllm bench serve` calls an unlimited rate: "inf" or an infinite float."""
        if isinstance(data, dict) and data.get("request_rate_rps") in ("inf", math.inf):
            return {**data, "request_rate_rps": None}
        return data

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        for problem in self._problems():
            raise ValueError(problem)
        return self

    def _problems(self) -> Iterator[str]:
        """Yield what does not fit together; only the first is sure to be right."""
        if self.max_concurrency > self.num_prompts:
            yield (
                f"max_concurrency {self.max_concurrency} can never be reached with num_prompts {self.num_prompts}: "
                f"ask for at least {self.max_concurrency} prompts"
            )
        without_rate = self.request_rate_rps is None and self.find != "rate"
        if self.burstiness != 1.0 and (without_rate or self.arrivals != "gamma"):
            yield "burstiness needs a request_rate_rps and gamma arrivals: set a rate, or leave burstiness out"
        if without_rate and self.arrivals in ("constant", "ramp"):
            yield f"{self.arrivals} arrivals need a request_rate_rps: set a rate"
        if (self.arrivals == "ramp") != (self.ramp_to_rps is not None):
            yield 'a ramp needs arrivals = "ramp" and ramp_to_rps: set both, or neither'
        if self.find is not None:
            yield from self._problems_of_a_search()
        elif (self.slo_share, self.find_from, self.find_to) != (SLO_SHARE, None, None):
            yield 'slo_share, find_from and find_to belong to a search: set find = "rate", or remove them'

    def _problems_of_a_search(self) -> Iterator[str]:
        if self.request_rate_rps is not None:
            yield "a load with find has no request_rate_rps, which the search chooses: write find_from"
        if self.stop_on_error_share is not None:
            yield "a load with find needs no stop_on_error_share: a failed request misses the SLO"
        if self.arrivals not in ("gamma", "constant"):
            yield f"a search has gamma or constant arrivals, not a {self.arrivals}"
        if self.find == "concurrency" and self.find_to is not None:
            yield "a search for the concurrency ends at max_concurrency: remove find_to"
        if self.find == "concurrency" and (self.find_from or 1) % 1:
            yield "find_from should be a whole number of requests at once"
        if self.find_from is not None and self.find_from >= self.find_greatest:
            yield f"find_from should be below {self.find_greatest:g}, the greatest load of the search"

    @property
    def find_start(self) -> float:
        """Return the rate or concurrency of a search's first run."""
        return self.find_from or 1.0

    @property
    def find_least(self) -> float:
        """Return the smallest rate or concurrency of a search."""
        return self.find_from or (1.0 if self.find == "concurrency" else min(_LEAST_RPS, self.find_greatest))

    @property
    def find_greatest(self) -> float:
        """Return the greatest rate or concurrency of a search."""
        return float(self.max_concurrency) if self.find == "concurrency" else self.find_to or _GREATEST_RPS

    @property
    def closed_loop(self) -> bool:
        """Return whether each request is sent as soon as a stream is free, independent of the clock."""
        return self.request_rate_rps is None and self.arrivals == "gamma" and self.find != "rate"

    @property
    def ramp_s(self) -> float | None:
        """Seconds from `request_rate_rps` to `ramp_to_rps`; None unless it is a ramp."""
        if self.request_rate_rps is None or self.ramp_to_rps is None:
            return None
        return self.duration_s or 2 * self.num_prompts / (self.request_rate_rps + self.ramp_to_rps)

    @property
    def name(self) -> str:
        """The label, or else a name made of concurrency, prompts and arrivals; unique within a study."""
        if self.label is not None:
            return self.label
        parts = [f"c{self.max_concurrency}-n{self.num_prompts}"]
        if self.find is not None:
            parts = [f"capacity-{self.find}", *parts, f"{self.slo_share:g}"]
        if self.arrivals != "gamma":
            parts.append(self.arrivals)
        if self.request_rate_rps is not None:
            parts.append(f"{self.request_rate_rps:g}rps")
            parts += [f"b{self.burstiness:g}"] if self.arrivals == "gamma" else []
        parts += [f"to{self.ramp_to_rps:g}rps"] if self.ramp_to_rps is not None else []
        parts += [f"{self.duration_s:g}s"] if self.duration_s is not None else []
        return "-".join(parts)


def expand_pattern(load: Mapping[str, Any]) -> tuple[list[dict[str, Any]], list[Problem]]:
    """Expand a load with a `pattern` into loads, and return problems as (key, sentence).

    Further keys override the pattern's. A load without a pattern is returned as it is.
    """
    own = {key: value for key, value in load.items() if key not in PATTERN_KEYS}
    pattern = load.get("pattern")
    if pattern == SWEEP:
        return _sweep(load, own)
    problems = [(key, f"belongs to pattern {SWEEP}: remove it") for key in PATTERN_KEYS[1:] if key in load]
    if "pattern" not in load:
        return [own], problems
    if not isinstance(pattern, str) or pattern not in PATTERNS:
        return [], [*problems, ("pattern", _unknown(pattern))]
    return [{"label": pattern, **PATTERNS[pattern], **own}], problems


def _sweep(load: Mapping[str, Any], own: dict[str, Any]) -> tuple[list[dict[str, Any]], list[Problem]]:
    concurrencies = load.get("concurrencies", SWEEP_CONCURRENCIES)
    per_stream = load.get("prompts_per_stream", SWEEP_PROMPTS_PER_STREAM)
    problems = []
    if "max_concurrency" in own:
        problems.append(("max_concurrency", "a sweep has several: write concurrencies = [1, 8, 32]"))
    if not isinstance(concurrencies, list | tuple) or not concurrencies or not all(map(_is_count, concurrencies)):
        problems.append(("concurrencies", f"should be a list of whole numbers from 1 on, got {concurrencies!r}"))
    elif len(set(concurrencies)) < len(concurrencies):
        problems.append(("concurrencies", f"should differ from each other, got {list(concurrencies)!r}"))
    if not _is_count(per_stream):
        problems.append(("prompts_per_stream", f"should be a whole number from 1 on, got {per_stream!r}"))
    if problems:
        return [], problems
    label = own.pop("label") if isinstance(own.get("label"), str) else SWEEP
    loads = [{"label": f"{label} c{n}", "max_concurrency": n, "num_prompts": n * per_stream} for n in concurrencies]
    return [load | own for load in loads], []


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _unknown(pattern: object) -> str:
    close = difflib.get_close_matches(str(pattern), PATTERN_NAMES, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    return f"{str(pattern)[:80]!r} is not a known pattern: {hint}The patterns are {', '.join(PATTERN_NAMES)}"
