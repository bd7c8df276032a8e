"""The declaration of a metric: its name, label, unit, direction, number format and formula."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from lab.metrics.number_format import number

Better = Literal["higher", "lower"]
Value = float | int | tuple[float, ...] | None


@dataclass(frozen=True)
class Unit:
    """How numbers of a unit are shown: in which unit, and multiplied by which factor.

    `spec` is a format that Python, D3 and (after a `%`) Streamlit understand alike, for counts and for what cannot be
    written with three significant digits.
    """

    shown: str
    spec: str
    factor: float = 1.0


#: Units of counts. A heading names what is counted, so it does not repeat them.
_COUNTS = ("requests", "tokens", "rounds", "processes", "threads")
_UNITS: Mapping[str, Unit] = {
    **{unit: Unit(unit, ",.0f") for unit in (*_COUNTS, "J", "W", "MHz", "°C")},
    **{unit: Unit(unit, ",.1f") for unit in ("s", "ms", "tok/s", "tok/s/user", "tok/s/GPU")},
    **{unit: Unit(unit, ",.2f") for unit in ("requests/s", "tokens/round", "×")},
    "J/token": Unit("J/token", ",.3f"),
    "kWh": Unit("kWh", ",.4g"),
    "fraction": Unit("%", ",.1f", 100.0),
    "percent": Unit("%", ",.1f"),
    "bytes": Unit("GiB", ",.1f", 2.0**-30),
}
#: Amounts of money: the unit begins with `currency/`, as the currency is that of the price.
_MONEY = Unit("currency", ",.4g")
_UNKNOWN = "–"


@dataclass(frozen=True)
class Metric:
    """A number of a run, of a request, of a second of telemetry or of a comparison.

    Pages, charts, the command, exports and the data dictionary take everything they show of it from here. `formula`
    says in words how to compute it. `short` is a label for narrow columns and cards, or empty; `spec` is a format other
    than that of the unit, or empty. A metric that `has_several` numbers is on no axis and in no comparison.
    """

    name: str
    label: str
    unit: str
    formula: str
    better: Literal["higher", "lower", "neither"] = "neither"
    short: str = ""
    spec: str = ""
    has_several: bool = False

    @property
    def comment(self) -> str:
        """Return formula, unit and direction, as the data dictionary prints them."""
        direction = "" if self.better == "neither" else f"; {self.better} is better"
        return f"{self.formula} [{self.unit}{direction}]"

    @property
    def is_whole(self) -> bool:
        """Return whether its values are whole numbers: counts other than means, and bytes."""
        return (self.unit in _COUNTS or self.unit == "bytes") and "_mean" not in self.name

    @property
    def higher_is_better(self) -> bool:
        return self.better == "higher"

    @property
    def shown_unit(self) -> str:
        """Return the unit that people read: per cent for fractions, GiB for bytes."""
        return self._unit.shown

    @property
    def factor(self) -> float:
        """Return the factor from the stored unit to `shown_unit`."""
        return self._unit.factor

    @property
    def number_format(self) -> str:
        """Return the format of numbers in `shown_unit`, for Python and D3; Streamlit needs a `%` before it."""
        return self.spec or self._unit.spec

    @property
    def short_label(self) -> str:
        return self.short or self.label

    @property
    def title(self) -> str:
        """Return the label with its unit, for an axis."""
        return f"{self.label} ({self.shown_unit})"

    @property
    def heading(self) -> str:
        """Return the short label with its unit, for a column of a table."""
        counts = self.unit in _COUNTS or self.unit == "tokens/round"
        return self.short_label if counts else f"{self.short_label} ({self.shown_unit})"

    @property
    def ratio_label(self) -> str:
        """Return the label of its ratio to the baseline: only rates speed up."""
        return "Speed-up" if self.unit.endswith("/s") else "Ratio to the baseline"

    def format(self, value: float | Sequence[float] | None) -> str:
        """Return a stored `value` in `shown_unit`, without the unit; a dash where it is unknown."""
        if isinstance(value, Sequence):
            return ", ".join(map(self.format, value))
        if value is None or math.isnan(value):
            return _UNKNOWN
        shown = value * self.factor
        return format(shown, self.number_format) if self.spec or self.unit in _COUNTS else number(shown)

    def format_with_unit(self, value: float | None) -> str:
        """Return `format` with the unit behind it; a dash alone where the value is unknown."""
        text = self.format(value)
        return text if text == _UNKNOWN else f"{text} {self.shown_unit}"

    @property
    def _unit(self) -> Unit:
        return _MONEY if self.unit.startswith("currency/") else _UNITS[self.unit]
