"""The cost of tokens: a dated price book, and cost per million tokens. Unknown is None, never 0.

Cost per million tokens = price per hour / 3600 / throughput x 10^6, as the published cost studies compute it. A price
covers everything the engine ran on, not one GPU of several. Currencies are never converted: figures in two currencies
are not compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from pydantic import Field

from lab.errors import UserError
from lab.study.model_base import MOST_PRICE, Frozen

_S_PER_HOUR = 3600.0
_MILLION = 1e6
_J_PER_KWH = 3.6e6
_HOURS_PER_YEAR = 365.25 * 24


class Owned(Frozen):
    """Purchased hardware: its price is spread over the hours in which it works."""

    purchase_price: float = Field(gt=0, le=1000 * MOST_PRICE)
    lifetime_years: float = Field(ge=0.001, le=1000)
    utilisation: float = Field(ge=0.0001, le=1)  # share of its lifetime in which it works

    @property
    def per_hour(self) -> float:
        return self.purchase_price / (self.lifetime_years * _HOURS_PER_YEAR * self.utilisation)


class Price(Frozen):
    """The hourly price of some hardware from a day on. Entries are added, never changed, so old figures stay."""

    hardware: str = Field(min_length=1)  # whole words of the hardware's name, in any case
    valid_from: date
    currency: str = Field(pattern=r"^[A-Z]{3}$")
    source: str = Field(min_length=1)  # where the price was found
    rented_per_hour: float | None = Field(default=None, gt=0, le=MOST_PRICE)
    owned: Owned | None = None
    electricity_per_kwh: float | None = Field(
        default=None, ge=0, le=MOST_PRICE
    )  # only if the price does not include it

    @property
    def per_hour(self) -> float:
        """The hourly price without electricity. Raises UserError for an entry with neither price, or both."""
        if self.rented_per_hour is not None and self.owned is None:
            return self.rented_per_hour
        if self.owned is not None and self.rented_per_hour is None:
            return self.owned.per_hour
        raise UserError(
            f"the price of {self.hardware!r} needs either rented_per_hour or owned "
            "(purchase_price, lifetime_years, utilisation)"
        )

    def at(self, utilisation: float) -> Price:
        """Return the price at a utilisation: the share (0 to 1) of paid hours in which the hardware works.

        A rented hour is paid for whether it is used or not; for purchased hardware the share replaces the entry's own.
        """
        if self.owned is not None:
            return self.model_copy(update={"owned": self.owned.model_copy(update={"utilisation": utilisation})})
        return self.model_copy(update={"rented_per_hour": self.per_hour / utilisation})


def price_on(book: Iterable[Price], hardware: str, day: date) -> Price | None:
    """Return the price valid for this hardware on that day.

    The latest of the entries whose name matches best; of two for the same day, the later one in the book. Only whole
    words match: an H20 is no H200.
    """
    fitting = [price for price in book if price.valid_from <= day and _names(price.hardware, hardware)]
    return max(enumerate(fitting), key=lambda at: (len(at[1].hardware), at[1].valid_from, at[0]), default=(0, None))[1]


def _names(part: str, hardware: str) -> bool:
    return re.search(rf"(?<![^\W_]){re.escape(part)}(?![^\W_])", hardware, re.IGNORECASE) is not None


def per_million_tokens(price_per_hour: float | None, tok_per_s: float | None) -> float | None:
    """Cost per million tokens: of output tokens or of all tokens, depending on the rate given."""
    if price_per_hour is None or not tok_per_s:
        return None
    return price_per_hour / _S_PER_HOUR / tok_per_s * _MILLION


def per_request(price_per_hour: float | None, request_per_s: float | None) -> float | None:
    if price_per_hour is None or not request_per_s:
        return None
    return price_per_hour / _S_PER_HOUR / request_per_s


@dataclass(frozen=True)
class Window:
    """A measured window: its length and the tokens it produced."""

    duration_s: float
    tokens: int


def per_million_with_start_up(price_per_hour: float, start_s: float | None, windows: Iterable[Window]) -> float | None:
    """Cost per million tokens including the engine's start, over every window measured on it.

    The weight of the start depends on how long the engine is used afterwards: here, on the benchmark itself. None if
    the start was not timed.
    """
    windows = list(windows)
    tokens = sum(window.tokens for window in windows)
    if start_s is None or not tokens:
        return None
    seconds = start_s + sum(window.duration_s for window in windows)
    return price_per_hour / _S_PER_HOUR * seconds / tokens * _MILLION


def saving(throughput_ratio: float, price_ratio: float = 1.0) -> float:
    """Return the share of the baseline's cost that is saved; negative if it costs more.

    Both ratios are candidate / baseline, of throughputs and of hourly prices. The saving grows with the throughput
    ratio, so the bounds of the ratio's interval give those of the saving.
    """
    return 1 - price_ratio / throughput_ratio


def kwh_per_million_tokens(energy_j_per_token: float | None) -> float | None:
    return None if energy_j_per_token is None else energy_j_per_token * _MILLION / _J_PER_KWH


def electricity_per_million_tokens(energy_j_per_token: float | None, per_kwh: float | None) -> float | None:
    """Cost of electricity of the GPUs alone: host and cooling are not measured."""
    kwh = kwh_per_million_tokens(energy_j_per_token)
    return None if kwh is None or per_kwh is None else kwh * per_kwh
