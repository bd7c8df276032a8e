"""The data of the Cost page, read from the warehouse; and the price book in the app database, read and written."""

from __future__ import annotations

import duckdb

from access.web import visitor
from lab.cost import Price
from lab.errors import UnknownPriceError
from warehouse.app_db import price_book
from warehouse.app_db.price_book import Entry
from warehouse.queries.costs import ArmCost, slo_of, study_costs
from webapp.shared import published_data
from webapp.shared.published_data import published_query

#: The study's SLO, or None if it sets none.
slo = published_query()(slo_of)


def costs(job_id: str, price_usd_per_hour: float | None, utilisation: float | None) -> list[ArmCost]:
    """Return the cost of each arm and cell. Raises QueryError as `study_costs` does."""
    answer = _costs(job_id, price_usd_per_hour, utilisation)
    if isinstance(answer, UnknownPriceError):
        raise answer.with_traceback(None)
    return answer


@published_query()
def _costs(
    connection: duckdb.DuckDBPyConnection, job_id: str, price: float | None, utilisation: float | None
) -> list[ArmCost] | UnknownPriceError:
    """Return the costs or the missing price; the latter is cached too, as it takes as long to find."""
    try:
        return study_costs(connection, job_id, price, utilisation)
    except UnknownPriceError as error:
        return error


def entries() -> list[Entry]:
    """Return all entries of the price book, including withdrawn ones."""
    return price_book.entries(published_data.engine())


def add(price: Price) -> tuple[int, bool]:
    """Add a price unless an entry in force says the same. Returns the entry's number, and whether it is new."""
    earlier = {entry.price_id for entry in entries()}
    number = price_book.add(published_data.engine(), price, actor=visitor.actor())
    return number, number not in earlier


def withdraw(price_id: int) -> None:
    """Withdraw an entry. Raises UserError if it is unknown or already withdrawn."""
    price_book.withdraw(published_data.engine(), price_id, actor=visitor.actor())
