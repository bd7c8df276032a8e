"""What the reader selects on the Cost page, read from its link's parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

import pandas as pd

from webapp.shared import url_params

_MAX_PRICE = 1e9


#: The kinds of cost, with the field of ArmCost that has each.
MEASURES = {
    "Per million output tokens": "per_million_output_tokens",
    "Per million output tokens, with start-up": "with_start_up",
    "Per million tokens, input and output": "per_million_tokens",
    "Per request": "per_request",
}
#: The share of requests that must stay within every bound of the SLO.
SLO_SHARES = {"99 % of requests": 0.99, "95 % of requests": 0.95, "90 % of requests": 0.90, "every request": 1.0}


@dataclass(frozen=True)
class Selection:
    """The selection on the Cost page. `price`: USD per hour; `utilisation`: a share. Both are None unless entered.
    `measure`: one of MEASURES.
    """

    job_id: str
    price: float | None
    utilisation: float | None
    measure: str
    least_share: float


def parse(parameters: Mapping[str, Sequence[str]]) -> Selection:
    """Read the parameters of a link.

    Raises KeyError for parameters that name something unknown, UserError for an invalid number.
    """
    measure = url_params.first(parameters, url_params.PER, next(iter(MEASURES)))
    if measure not in MEASURES:
        raise KeyError(measure)
    return Selection(
        url_params.job_id_of(parameters[url_params.JOB.key][0]),
        price_of(url_params.first(parameters, url_params.PRICE)),
        utilisation_of(url_params.first(parameters, url_params.UTILISATION)),
        measure,
        SLO_SHARES[url_params.first(parameters, url_params.SLO_SHARE, next(iter(SLO_SHARES)))],
    )


def price_of(text: str) -> float | None:
    """Return USD per hour, or None for an empty text. Raises UserError for anything else."""
    what = "a valid price: enter USD per hour, above 0, like 3.50"
    return url_params.number_in(text, what, lambda price: 0 < price < _MAX_PRICE)


def utilisation_of(text: str) -> float | None:
    """Return a share, from percent; None for an empty text. Raises UserError for anything else."""
    what = "a valid utilisation: enter percent, above 0 and at most 100, like 60"
    percent = url_params.number_in(text, what, lambda percent: 0 < percent <= 100, "%")
    return None if percent is None else percent / 100


def likely_entry(studies: pd.DataFrame) -> tuple[str, date]:
    """Return the likely hardware and first day of a new price: the newest study's, where recorded.

    `studies` are the rows of `published_data.studies_with_results`; imported runs may lack both fields.
    """
    newest = studies.iloc[0] if len(studies) else None
    hardware, submitted_at = (None, None) if newest is None else (newest["hardware"], newest["submitted_at"])
    day = datetime.now(UTC) if submitted_at is None or pd.isna(submitted_at) else submitted_at
    return "" if hardware is None or pd.isna(hardware) else hardware.partition(", ")[0], day.date()
