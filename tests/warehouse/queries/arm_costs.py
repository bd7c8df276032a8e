"""What an arm's tokens cost at one load, to change."""

from __future__ import annotations

from warehouse.queries.comparing.paired_runs import CellKey
from warehouse.queries.costs import ArmCost

COST = ArmCost(
    cell=CellKey("w", "c1", 1),
    arm="a",
    is_baseline=False,
    hardware="H200",
    price_per_hour=1.0,
    currency="USD",
    price_source="list",
    per_million_output_tokens=3.0,
    per_million_tokens=1.0,
    per_request=0.1,
    with_start_up=None,
    kwh_per_million_output_tokens=None,
    electricity_per_million_output_tokens=None,
    within_slo=1.0,
)
