"""`drafthouse cost`: what tokens cost with each arm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from cli.arguments import AsJson, PricePerHour, StudyId
from cli.output import figure, print_json, print_table, print_text
from cli.results import results_of
from lab.errors import UserError
from lab.metrics.number_format import between, number
from warehouse.queries.comparing.capacities import ArmCapacity
from warehouse.queries.comparing.carried_loads import CarriedLoad, carried_loads
from warehouse.queries.costs import ArmCost, saving_words, study_costs

Utilisation = Annotated[float | None, typer.Option(help="Share of the paid hours in use.")]


def cost(
    study: StudyId, *, price_per_hour: PricePerHour = None, utilisation: Utilisation = None, as_json: AsJson = False
) -> None:
    """Show what a million tokens cost with each arm, and what an arm saves."""
    if utilisation is not None and not 0 < utilisation <= 1:
        raise UserError(f"--utilisation {utilisation:g} is not a share above 0 and at most 1: 0.6 means 60 % busy")
    with results_of(study) as con:
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
    """Print the table of costs, with a column of answer tokens if any model reasoned before its answer."""
    has_answers = any(arm_cost.per_million_answer_tokens is not None for arm_cost in costs)
    answers = ("per 10^6 answer tokens",) if has_answers else ()
    figures = ("per 10^6 output tokens", *answers, "with start-up", "per 10^6 tokens", "per request", "electricity")
    print_table(
        ("arm", "verdict", "saving", "workload", "pattern", "", *figures, "currency", "price from"),
        [_row(arm_cost, has_answers=has_answers) for arm_cost in costs],
    )


def _print_capacities(carried: Sequence[CarriedLoad]) -> None:
    print_text("at the capacity within the SLO:")
    columns = ("workload", "pattern", "arm", "capacity", "95 % interval", "per 10^6 output tokens", "currency")
    print_table(columns, [_capacity_row(load.arm) for load in carried])
    baseline = next((load.arm.arm for load in carried if load.arm.is_baseline), "the baseline")
    for load in carried:
        if sentence := load.sentence(baseline):
            print_text(f"{sentence} ({load.arm.cell.workload}, {load.arm.cell.pattern})")


def _capacity_row(arm: ArmCapacity) -> tuple[object, ...]:
    where = (arm.cell.workload, arm.cell.pattern, arm.arm)
    cost = figure(arm.cost)
    if arm.found is None:
        beyond = f"above {number(arm.least)}" if arm.least is not None else f"below {number(arm.greatest)}"
        return (*where, f"{beyond} {arm.unit}", "", cost, arm.currency)
    interval = between(arm.found.value, arm.found.low, arm.found.high)
    return (*where, f"{number(arm.found.value)} {arm.unit}", interval, cost, arm.currency)


def _row(arm_cost: ArmCost, *, has_answers: bool) -> tuple[object, ...]:
    peak = "peak" if arm_cost.at_peak else ""
    others = (
        *((arm_cost.per_million_answer_tokens,) if has_answers else ()),
        arm_cost.with_start_up,
        arm_cost.per_million_tokens,
        arm_cost.per_request,
        arm_cost.electricity_per_million_output_tokens,
    )
    return (
        arm_cost.arm,
        "baseline" if arm_cost.is_baseline else arm_cost.verdict,
        "" if arm_cost.saving is None else saving_words(arm_cost),
        arm_cost.cell.workload,
        arm_cost.cell.pattern,
        peak,
        *map(figure, (arm_cost.per_million_output_tokens, *others)),
        arm_cost.currency,
        arm_cost.price_source,
    )
