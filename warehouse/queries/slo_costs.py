"""The cheapest arm that keeps the study's bounds, at each workload."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb

from lab.study import Slo
from warehouse.queries.costs import ArmCost
from warehouse.queries.paired_runs import jobs_of

#: A run counts as keeping the SLO where at least this share of its requests did.
KEPT_SHARE = 0.99
#: What a count of requests is off by in floating point.
_TINY = 1e-9
_SLO = "SELECT any_value(slo_json) FROM runs WHERE job_id IN (SELECT unnest(?)) AND slo_json IS NOT NULL"


def slo_of(con: duckdb.DuckDBPyConnection, study: str) -> Slo | None:
    """None where no bound was given. Raises QueryError for a study that is not there."""
    ((found,),) = con.execute(_SLO, [jobs_of(con, study)]).fetchall()
    slo = Slo() if found is None else Slo.model_validate_json(found)
    return None if slo == Slo() else slo


def keeps(each: ArmCost, least_share: float = KEPT_SHARE) -> bool | None:
    """Whether so many of its requests kept every bound; None where that is unknown."""
    return None if each.within_slo is None else each.within_slo >= least_share - _TINY


def cheapest(costs: Sequence[ArmCost], least_share: float = KEPT_SHARE) -> dict[str, ArmCost | None]:
    """By workload: the arm and load of the least cost per million output tokens of those that keep the SLO; None where
    none does. Costs in several currencies are not compared: there is no cheapest then.
    """
    found: dict[str, ArmCost | None] = {each.place.workload: None for each in costs}
    if len({each.currency for each in costs}) > 1:
        return found
    for each in sorted(costs, key=lambda each: each.per_million_output_tokens or 0.0, reverse=True):
        if each.per_million_output_tokens is not None and keeps(each, least_share):
            found[each.place.workload] = each
    return found
