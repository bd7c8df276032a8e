"""What an hour of the hardware of a study's runs cost: as asked for, by the study itself, or by the price book."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

import duckdb

from lab import cost
from lab.cost import Price
from lab.errors import UnknownPriceError
from warehouse.app_db.price_book import price_from
from warehouse.queries.paired_runs import Row, dicts

_STUDY_PRICES = """
    SELECT study_id, json_extract(json, '$.price_usd_per_hour')::DOUBLE AS price FROM studies WHERE price IS NOT NULL
"""
_BOOK = "SELECT * EXCLUDE (price_id, added_at, withdrawn_at) FROM prices WHERE withdrawn_at IS NULL ORDER BY price_id"


@dataclass(frozen=True)
class Prices:
    """Where a price may come from, the first that knows one wins."""

    asked: float | None
    by_study: Mapping[str, float]
    book: Sequence[Price]
    utilisation: float | None = None  # share of the hours in which the hardware works; None: as the price says

    def of(self, row: Row) -> Price:
        """Of runs by their hardware, study_id and day. Raises UnknownPriceError where nobody knows it."""
        price = self._known(row)
        return price if self.utilisation is None else price.at(self.utilisation)

    def _known(self, row: Row) -> Price:
        hardware, day = row["hardware"], row["day"]
        if self.asked is not None:
            return _in_usd(row, self.asked, "as asked for")
        if row["study_id"] in self.by_study:
            return _in_usd(row, self.by_study[row["study_id"]], "the study's own price_usd_per_hour")
        if day is None or (price := cost.price_on(self.book, hardware, day)) is None:
            raise UnknownPriceError(hardware, day)
        return price


def prices(
    con: duckdb.DuckDBPyConnection, price_usd_per_hour: float | None = None, utilisation: float | None = None
) -> Prices:
    """`price_usd_per_hour` replaces every other price, and is for all arms; `utilisation` as `Price.at` takes it."""
    return Prices(
        price_usd_per_hour,
        {row["study_id"]: row["price"] for row in dicts(con, _STUDY_PRICES)},
        [price_from(row) for row in dicts(con, _BOOK)],
        utilisation,
    )


def _in_usd(row: Row, per_hour: float, source: str) -> Price:
    """Raises UserError for a price that is not above 0."""
    about = {"hardware": row["hardware"], "valid_from": row["day"] or date.min, "currency": "USD", "source": source}
    return price_from(about | {"rented_per_hour": per_hour})
