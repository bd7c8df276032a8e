"""What the Cost page reads, and what it writes: the price book."""

from __future__ import annotations

from contextlib import closing

import streamlit as st

from lab.cost import Price
from lab.errors import UnknownPriceError
from lab.study import Slo
from warehouse.app_db import price_book
from warehouse.app_db.price_book import Entry
from warehouse.queries import costs as study_costs
from warehouse.queries.connect import open_warehouse
from warehouse.queries.costs import ArmCost
from webapp.shared import published_data

_MOST_KEPT = 64


def costs(job_id: str, price_usd_per_hour: float | None, utilisation: float | None) -> list[ArmCost]:
    """Raises QueryError as `study_costs` does."""
    found = _costs(published_data.publication(), job_id, price_usd_per_hour, utilisation)
    if isinstance(found, UnknownPriceError):
        raise found.with_traceback(None)
    return found


@st.cache_resource(show_spinner=False, max_entries=_MOST_KEPT)
def _costs(
    publication: published_data.Publication, job_id: str, price: float | None, utilisation: float | None
) -> list[ArmCost] | UnknownPriceError:
    """That nobody knows the price is kept too, as it takes as long to find out."""
    del publication
    with closing(open_warehouse(published_data.settings().warehouse_file)) as connection:
        try:
            return study_costs.study_costs(connection, job_id, price, utilisation)
        except UnknownPriceError as error:
            return error


def slo(job_id: str) -> Slo | None:
    return _slo(published_data.publication(), job_id)


@st.cache_resource(show_spinner=False, max_entries=_MOST_KEPT)
def _slo(publication: published_data.Publication, job_id: str) -> Slo | None:
    del publication
    with closing(open_warehouse(published_data.settings().warehouse_file)) as connection:
        return study_costs.slo_of(connection, job_id)


def entries() -> list[Entry]:
    """The price book, withdrawn entries too."""
    return price_book.entries(published_data.engine())


def add(price: Price) -> tuple[int, bool]:
    """The entry's number, and whether it is new: what counts already is not added again."""
    known = {entry.price_id for entry in entries()}
    number = price_book.add(published_data.engine(), price)
    return number, number not in known


def withdraw(price_id: int) -> None:
    """Raises UserError where it does not count."""
    price_book.withdraw(published_data.engine(), price_id)
