"""What the judging verbs print: checks and costs."""

from __future__ import annotations

from dataclasses import asdict

from cli.output import print_json, print_table
from lab import validity
from lab.errors import UserError
from lab.validity.table import declarations
from warehouse.queries.connect import open_warehouse
from warehouse.queries.costs import ArmCost, study_costs
from warehouse.settings import load_settings


def show_checks(*, as_json: bool) -> None:
    if as_json:
        print_json(declarations())
    else:
        rows = [(check.name, check.severity, check.threshold, check.advice) for check in validity.ALL]
        print_table(("check", "severity", "fires", "what to do"), rows)


def show_costs(study: str, price_per_hour: float | None, utilisation: float | None, *, as_json: bool) -> None:
    """`utilisation` is a share. Raises UserError for what is none."""
    if utilisation is not None and not 0 < utilisation <= 1:
        raise UserError(f"--utilisation {utilisation:g} is no share: 0.6 means that it works in 60 % of the hours")
    with open_warehouse(load_settings().warehouse_file) as con:
        found = study_costs(con, study, price_per_hour, utilisation)
    if as_json:
        print_json([asdict(each) for each in found])
        return
    here = ("workload", "pattern", "arm")
    figures = ("per 10^6 output tokens", "", "with start-up", "per 10^6 tokens", "per request", "electricity", "saving")
    print_table((*here, *figures, "currency", "price from"), [_cost_row(each) for each in found])


def _cost_row(each: ArmCost) -> tuple[object, ...]:
    saved = "" if each.saving is None else f"{each.saving:.1%}"
    if each.saving_low is not None and each.saving_high is not None:
        saved += f" ({each.saving_low:.1%} to {each.saving_high:.1%})"
    peak = "peak" if each.at_peak else ""
    others = (each.with_start_up, each.per_million_tokens, each.per_request, each.electricity_per_million_output_tokens)
    figures = (each.per_million_output_tokens, peak, *others, saved)
    return (each.place.workload, each.place.pattern, each.arm, *figures, each.currency, each.price_source)
