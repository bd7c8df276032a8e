"""Published figures, as they were printed. Relative figures stay relative."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: What a figure is: a measured value, a share of the baseline's (baseline = 100), or a change from it, both in percent.
Scale = Literal["absolute", "percent of baseline", "percent change"]


@dataclass(frozen=True)
class PublishedFigure:
    """One number of a published table and its setting. None: the source does not say."""

    source: str  # names an entry of the sources
    study: str  # which experiment of the source
    hardware: str
    engine: str
    engine_version: str | None
    target: str
    method: str  # none without speculation
    draft_model: str | None
    num_speculative_tokens: int | None
    dataset: str
    access_pattern: str
    load: str | None  # as printed: a concurrency, or geomean, or peak over several
    metric: str
    printed: str  # the digits
    unit: str
    scale: Scale
    price_usd_per_hour: float | None = None  # of a cost
    note: str | None = None

    @property
    def value(self) -> float:
        return float(self.printed)

    @property
    def rounding(self) -> float:
        """Return the largest error that rounding for print can have caused."""
        _, _, decimals = self.printed.partition(".")
        return 0.5 * 10.0 ** -len(decimals)

    @property
    def max_concurrency(self) -> int | None:
        """The concurrency; None for a figure over several levels, or if the source does not say."""
        return int(self.load) if self.load is not None and self.load.isdigit() else None

    @property
    def ratio_to_baseline(self) -> float | None:
        """Return 1.254 for 125.4 % of the baseline and for a change of +25.4 %; None for an absolute figure."""
        if self.scale == "percent of baseline":
            return self.value / 100
        return 1 + self.value / 100 if self.scale == "percent change" else None

    @property
    def setting(self) -> tuple[object, ...]:
        """Return the setting of the measurement: equal for two figures of one run."""
        return (self.source, self.study, self.hardware, *self.row)

    @property
    def row(self) -> tuple[object, ...]:
        """Return the setting without source, study and hardware: the row of a table."""
        arm = (self.engine, self.engine_version, self.target, self.method, self.draft_model)
        return (*arm, self.num_speculative_tokens, self.dataset, self.access_pattern, self.load)


@dataclass(frozen=True)
class TauClaim:
    """An example that a source gives for the expected tokens of a round."""

    source: str
    alpha: float  # the chance that a drafted token is accepted
    gamma: int  # tokens drafted
    stated: str  # the digits


@dataclass(frozen=True)
class PublishedFinding:
    """An error or a contradiction in published figures."""

    check: str
    source: str
    sentence: str
    figures: tuple[PublishedFigure, ...] = ()
