"""The data of the Cost page, read from the warehouse."""

from __future__ import annotations

import duckdb

from lab.errors import UnknownPriceError
from warehouse.queries.costs import ArmCost, slo_of, study_costs
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
