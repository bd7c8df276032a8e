"""What each arm of a study carries within the SLO, for the pages that compare arms and their costs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import duckdb
import pandas as pd
import streamlit as st

from lab.capacity.result import UNITS
from lab.comparison.verdict import READING_WORDS
from warehouse.queries.comparing import carried_loads as queries
from warehouse.queries.comparing.carried_loads import CarriedLoad
from webapp.shared import published_data
from webapp.shared.cards import Card, show_cards
from webapp.shared.tables import columns, show_table
from webapp.shared.text import literal, number, span, times
from webapp.shared.url_params import View
from webapp.shared.verdict_tables import SIGNS

_MOST_CARDS = 6


def has_ordinary_runs(job_id: str) -> bool:
    """Whether the study has runs that are no trials of a search."""
    return bool(published_data.results(job_id)["search"].isna().any())


@published_data.published_query()
def carried_loads(
    connection: duckdb.DuckDBPyConnection, job_id: str, price: float | None, utilisation: float | None, *, strict: bool
) -> list[CarriedLoad]:
    return queries.carried_loads(connection, job_id, price, utilisation, strict=strict)


def show(
    job_id: str, view: View, price: float | None = None, utilisation: float | None = None, *, strict: bool = False
) -> None:
    """Show a card and a row for each arm; nothing for a study without a search."""
    found = carried_loads(job_id, price, utilisation, strict=strict)
    if not found:
        return
    st.subheader("Capacity within the SLO", anchor=False)
    show_cards([_card(each) for each in found[:_MOST_CARDS]])
    st.caption(
        f"The greatest load at which at least {found[0].arm.slo_share:.4g} of the requests meet the SLO, with its 95 % "
        f"interval; {READING_WORDS[strict]}."
    )
    show_table(table(found), _config(found), "Capacity within the SLO", view, "capacities")


def _card(each: CarriedLoad) -> Card:
    ratio = None if each.pair is None else each.pair.comparison.ratio
    if each.pair is None or ratio is None:
        return Card(each.arm.arm, _capacity(each), f"{each.arm.unit}, {_interval(each)}, {each.arm.cell.workload}")
    bounds = "" if ratio.low is None or ratio.high is None else f" ({span(ratio.low, ratio.high)})"
    detail = f"the load: {SIGNS[each.pair.verdict.word]}{bounds}, {_capacity(each)} {each.arm.unit}"
    return Card(each.arm.arm, times(ratio.value), f"{detail}, {each.arm.cell.workload}")


def _capacity(each: CarriedLoad) -> str:
    if each.arm.found is not None:
        return _load(each, each.arm.found.value)
    return f"> {_load(each, each.arm.least)}" if each.arm.least is not None else f"< {_load(each, each.arm.greatest)}"


def _interval(each: CarriedLoad) -> str:
    found = each.arm.found
    return (
        "beyond the bounds of the search" if found is None else f"{_load(each, found.low)} to {_load(each, found.high)}"
    )


def _load(each: CarriedLoad, load: float | None) -> str:
    """Requests at once are counted; rates are measured."""
    return f"{load:,.0f}" if load is not None and each.arm.unit == UNITS["concurrency"] else number(load)


def table(found: Sequence[CarriedLoad]) -> pd.DataFrame:
    """One row for each arm and search; without a price no column of costs."""
    rows = pd.DataFrame([_row(each) for each in found])
    return rows if rows["cost"].notna().any() else rows.drop(columns="cost")


def _row(each: CarriedLoad) -> dict[str, object]:
    arm, pair = each.arm, each.pair
    ratio = None if pair is None else pair.comparison.ratio
    return {
        "arm": arm.arm,
        "verdict": "" if pair is None else SIGNS[pair.verdict.word],
        "workload": arm.cell.workload,
        "pattern": arm.cell.pattern,
        "capacity": _capacity(each),
        "interval": _interval(each),
        "unit": arm.unit,
        "ratio": math.nan if ratio is None else ratio.value,
        "low": None if ratio is None else ratio.low,
        "high": None if ratio is None else ratio.high,
        "cost": arm.cost,
        "trials": arm.trials,
        "basis": "" if pair is None else pair.comparison.basis,
    }


def _config(found: Sequence[CarriedLoad]) -> dict[str, object]:
    of_numbers, text = st.column_config.NumberColumn, st.column_config.TextColumn
    currencies = "/".join(sorted({each.arm.currency for each in found if each.arm.currency}))
    return columns("arm", "workload", "pattern", "ratio", "low", "high") | {
        "capacity": text("Capacity", help="Greatest load at which the required share of requests meets the SLO"),
        "interval": text("95 % interval"),
        "unit": text("Unit"),
        "verdict": text("Verdict"),
        "cost": of_numbers(
            f"Per 10⁶ within the SLO ({literal(currencies or 'no price')})",
            format="%,.4g",
            help="Cost of a million output tokens of requests within the SLO, at the capacity",
        ),
        "trials": of_numbers("Trials", format="%d", help="Valid runs of the search, over all repeats"),
        "basis": text("Ratio from", width="large"),
    }
