"""What the Cost page is asked for, from its link's parameters. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab.errors import UserError
from webapp.shared import url_params

_MOST_PRICE = 1e9


@dataclass(frozen=True)
class CostMeasure:
    """One kind of cost: what a reader calls it, and the field of ArmCost that holds it."""

    label: str
    field: str

    def title(self, currency: str) -> str:
        return f"Cost {self.label[0].lower()}{self.label[1:]} ({currency})"


MEASURES = (
    CostMeasure("Per million output tokens", "per_million_output_tokens"),
    CostMeasure("Per million output tokens, with start-up", "with_start_up"),
    CostMeasure("Per million tokens, input and output", "per_million_tokens"),
    CostMeasure("Per request", "per_request"),
)
BY_LABEL = {measure.label: measure for measure in MEASURES}
#: Of its requests, so many must keep every bound.
KEPT = {"99 % of requests": 0.99, "95 % of requests": 0.95, "90 % of requests": 0.90, "every request": 1.0}


@dataclass(frozen=True)
class Choice:
    """`price` is of an hour in USD, `utilisation` a share; each None where the reader gives none."""

    job_id: str
    price: float | None
    utilisation: float | None
    measure: CostMeasure
    least_share: float


def of(parameters: Mapping[str, Sequence[str]]) -> Choice:
    """Raises KeyError for parameters that name nothing there is, UserError for a number that cannot be one."""
    return Choice(
        url_params.job_id_of(parameters[url_params.JOB.key][0]),
        price_of(_first(parameters, url_params.PRICE, "")),
        utilisation_of(_first(parameters, url_params.UTILISATION, "")),
        BY_LABEL[_first(parameters, url_params.PER, MEASURES[0].label)],
        KEPT[_first(parameters, url_params.KEPT, next(iter(KEPT)))],
    )


def _first(parameters: Mapping[str, Sequence[str]], param: url_params.Param, default: str) -> str:
    return next(iter(parameters.get(param.key, ())), default)


def price_of(text: str) -> float | None:
    """None for nothing. Raises UserError for what is no price."""
    if not text:
        return None
    found = _number(text)
    if found is None or not 0 < found < _MOST_PRICE:
        raise UserError(f"{text!r} is no price: write what an hour costs in USD, above 0, like 3.50")
    return found


def utilisation_of(text: str) -> float | None:
    """A share, from percent; None for nothing. Raises UserError for what is none."""
    if not text:
        return None
    found = _number(text.removesuffix("%"))
    if found is None or not 0 < found <= 100:
        raise UserError(f"{text!r} is no utilisation: write percent, above 0 and at most 100, like 60")
    return found / 100


def _number(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None
