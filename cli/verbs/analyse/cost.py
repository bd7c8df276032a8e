"""`drafthouse cost`: what tokens cost with each arm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from cli.arguments import AsJson, PricePerHour, StudyId
from cli.home import ready_settings
from cli.output import print_json, print_table
from cli.results import results_of
from lab.errors import UserError
from warehouse.queries.comparing.capacities import ArmCapacity
from warehouse.queries.comparing.carried_loads import CarriedLoad, carried_loads
from warehouse.queries.costs import ArmCost, study_costs

Utilisation = Annotated[
    float | None, typer.Option(help="Share of the paid hours in which the hardware is busy, above 0 and at most 1.")
]


def cost(
    study: StudyId, *, price_per_hour: PricePerHour = None, utilisation: Utilisation = None, as_json: AsJson = False
) -> None:
    """Show what a million tokens cost with each arm, and what an arm saves."""
    if utilisation is not None and not 0 < utilisation <= 1:
        raise UserError(f"--utilisation {utilisation:g} is not a share above 0 and at most 1: 0.6 means 60 % busy")
    with results_of(study, ready_settings().warehouse_file) as con:
        costs = study_costs(con, study, price_per_hour, utilisation)
        carried = carried_loads(con, study, price_per_hour, utilisation)
    if as_json:
        print_json([*(asdict(arm_cost) for arm_cost in costs), *({"capacity": asdict(load.arm)} for load in carried)])
        return
    if costs:
        _print_costs(costs)
    if carried:
        _print_capacities(carried)


def _print_costs(costs: Sequence[ArmCost]) -> None:
    figures = (
        "per 10^6 output tokens",
        "",
        "with start-up",
        "per 10^6 tokens",
        "per request",
        "electricity",
        "saving",
        "verdict",
    )
    print_table(
        ("workload", "pattern", "arm", *figures, "currency", "price from"), [_row(arm_cost) for arm_cost in costs]
    )


def _print_capacities(carried: Sequence[CarriedLoad]) -> None:
    print("at the capacity within the SLO:")
    columns = ("workload", "pattern", "arm", "capacity", "95 % interval", "per 10^6 output tokens", "currency")
    print_table(columns, [_capacity_row(load.arm) for load in carried])
    baseline = next((load.arm.arm for load in carried if load.arm.is_baseline), "the baseline")
    for load in carried:
        if sentence := load.sentence(baseline):
            print(f"{sentence} ({load.arm.cell.workload}, {load.arm.cell.pattern})")


def _capacity_row(arm: ArmCapacity) -> tuple[object, ...]:
    where = (arm.cell.workload, arm.cell.pattern, arm.arm)
    if arm.found is None:
        beyond = f"above {arm.least:.3g}" if arm.least is not None else f"below {arm.greatest:.3g}"
        return (*where, f"{beyond} {arm.unit}", "", arm.cost, arm.currency)
    return (
        *where,
        f"{arm.found.value:.3g} {arm.unit}",
        f"{arm.found.low:.3g} to {arm.found.high:.3g}",
        arm.cost,
        arm.currency,
    )


def _row(arm_cost: ArmCost) -> tuple[object, ...]:
    saving = "" if arm_cost.saving is None else f"{arm_cost.saving:.1%}"
    if arm_cost.saving_low is not None and arm_cost.saving_high is not None:
        saving += f" [{arm_cost.saving_low:.1%}, {arm_cost.saving_high:.1%}]"
    peak = "peak" if arm_cost.at_peak else ""
    others = (
        arm_cost.with_start_up,
        arm_cost.per_million_tokens,
        arm_cost.per_request,
        arm_cost.electricity_per_million_output_tokens,
    )
    figures = (arm_cost.per_million_output_tokens, peak, *others, saving, arm_cost.verdict)
    return (
        arm_cost.cell.workload,
        arm_cost.cell.pattern,
        arm_cost.arm,
        *figures,
        arm_cost.currency,
        arm_cost.price_source,
    )
