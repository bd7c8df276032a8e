"""The load that each arm of a study carries within the SLO, beside that of the baseline."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb

from lab.errors import QueryError
from lab.metrics import number_format
from warehouse.queries.comparing.capacities import ArmCapacity, study_capacities
from warehouse.queries.comparing.comparisons import Pair, compare_study


@dataclass(frozen=True)
class CarriedLoad:
    """An arm's capacity, and its comparison with the baseline's; None for the baseline, or if either is unknown."""

    arm: ArmCapacity
    pair: Pair | None

    def sentence(self, baseline: str) -> str:
        """`eagle3 carries 1.40× [1.20, 1.60] the load of plain`; empty if the ratio is unknown."""
        ratio = None if self.pair is None else self.pair.ratio
        if ratio is None:
            return ""
        times = number_format.ratio(ratio.value, ratio.low, ratio.high)
        return f"{self.arm.arm} carries {times} the load of {baseline}"


def carried_loads(
    con: duckdb.DuckDBPyConnection,
    study: str,
    price_usd_per_hour: float | None = None,
    utilisation: float | None = None,
    *,
    strict: bool = False,
) -> list[CarriedLoad]:
    """Return what the searches of a study have found, the baseline first; empty without a search.

    Raises QueryError for an unknown study.
    """
    arms = study_capacities(con, study, price_usd_per_hour, utilisation)
    pairs: dict[tuple[object, str], Pair] = {}
    for metric in dict.fromkeys(arm.metric for arm in arms):
        try:
            comparison = compare_study(con, study, metric, strict=strict)
        except QueryError:  # the baseline's search has given nothing yet
            continue
        pairs |= {(pair.cell, pair.candidate.arm): pair for pair in comparison.pairs}
    return [CarriedLoad(arm, pairs.get((arm.cell, arm.arm))) for arm in arms]
