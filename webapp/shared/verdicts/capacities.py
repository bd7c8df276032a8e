"""The capacity of each arm of a study within the SLO, for pages that compare arms and their costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import pandas as pd
import streamlit as st

from lab.capacity.result import UNITS
from lab.comparison.verdict import READING_WORDS
from lab.metrics.number_format import between, bounds, number, times
from warehouse.queries.comparing import carried_loads as queries
from warehouse.queries.comparing.carried_loads import CarriedLoad
from webapp.shared import published_data
from webapp.shared.cards import Card, show_cards
from webapp.shared.tables import Column, columns, show_table
from webapp.shared.text import literal
from webapp.shared.url_params import View
from webapp.shared.verdicts.tables import SIGNS

_MOST_CARDS = 6
_carried_loads = published_data.published_query()(queries.carried_loads)


def has_ordinary_runs(job_id: str) -> bool:
    """Return whether the study has runs that are not trials of a search."""
    return bool(published_data.results(job_id)["search"].isna().any())


def show(
    job_id: str, view: View, price: float | None = None, utilisation: float | None = None, *, strict: bool = False
) -> None:
    """Show a card and a row for each arm; nothing for a study without a search."""
    loads = _carried_loads(job_id, price, utilisation, strict=strict)
    if not loads:
        return
    st.subheader("Capacity within the SLO", anchor=False)
    show_cards([_card(carried) for carried in loads[:_MOST_CARDS]])
    st.caption(
        f"The greatest load at which at least {loads[0].arm.slo_share:.4g} of the requests meet the SLO, with its 95 % "
        f"interval; {READING_WORDS[strict]}."
    )
    show_table(table(loads), _config(loads), "Capacity within the SLO", view, "capacities")


def _card(carried: CarriedLoad) -> Card:
    ratio = None if carried.pair is None else carried.pair.ratio
    if carried.pair is None or ratio is None:
        return Card(
            carried.arm.arm,
            _capacity(carried),
            f"{carried.arm.unit}, {_interval(carried)}, {carried.arm.cell.workload}",
        )
    within = f" {bounds(ratio.value, ratio.low, ratio.high)}".rstrip()
    detail = f"the load: {SIGNS[carried.pair.verdict.word]}{within}, {_capacity(carried)} {carried.arm.unit}"
    return Card(carried.arm.arm, times(ratio.value, ratio.low, ratio.high), f"{detail}, {carried.arm.cell.workload}")


def _capacity(carried: CarriedLoad) -> str:
    if carried.arm.found is not None:
        return _load(carried, carried.arm.found.value)
    return (
        f"> {_load(carried, carried.arm.least)}"
        if carried.arm.least is not None
        else f"< {_load(carried, carried.arm.greatest)}"
    )


def _interval(carried: CarriedLoad) -> str:
    interval = carried.arm.found
    return (
        "beyond the bounds of the search"
        if interval is None
        else between(interval.value, interval.low, interval.high, partial(_load, carried))
    )


def _load(carried: CarriedLoad, load: float | None) -> str:
    """Format a load: a count of requests at once, or a measured rate."""
    return f"{load:,.0f}" if load is not None and carried.arm.unit == UNITS["concurrency"] else number(load)


def table(loads: Sequence[CarriedLoad]) -> pd.DataFrame:
    """Return a table with a row per arm and search; without a price it has no column of costs."""
    rows = pd.DataFrame([_row(carried) for carried in loads])
    return rows if rows["cost"].notna().any() else rows.drop(columns="cost")


def _row(carried: CarriedLoad) -> dict[str, object]:
    arm, pair = carried.arm, carried.pair
    ratio = None if pair is None else pair.ratio
    return {
        "arm": arm.arm,
        "verdict": "" if pair is None else SIGNS[pair.verdict.word],
        "workload": arm.cell.workload,
        "pattern": arm.cell.pattern,
        "capacity": _capacity(carried),
        "interval": _interval(carried),
        "unit": arm.unit,
        "ratio": math.nan if ratio is None else ratio.value,
        "low": None if ratio is None else ratio.low,
        "high": None if ratio is None else ratio.high,
        "cost": arm.cost,
        "trials": arm.trials,
        "basis": "" if pair is None else pair.comparison.basis,
    }


def _config(loads: Sequence[CarriedLoad]) -> dict[str, object]:
    currencies = "/".join(sorted({carried.arm.currency for carried in loads if carried.arm.currency}))
    return columns(
        *("arm", "workload", "pattern", "ratio", "low", "high", "unit", "verdict"),
        capacity=Column("Capacity", help="Greatest load at which the required share of requests meets the SLO"),
        interval=Column("95 % interval"),
        cost=Column(
            f"Per 10⁶ within the SLO ({literal(currencies or 'no price')})",
            "%,.4g",
            "Cost of a million output tokens of requests within the SLO, at the capacity",
        ),
        trials=Column("Trials", "%d", "Valid runs of the search, over all repeats"),
        basis={"label": "Ratio from", "width": "large"},
    )
