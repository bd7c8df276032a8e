"""The price book on the Cost page: its entries, the form that adds one, and withdrawing one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import partial
from typing import Any, Literal

import pandas as pd
import streamlit as st

from access.web import visitor
from lab.cost import Price
from lab.errors import UserError
from lab.metrics.number_format import number, percentage
from lab.roles import Change
from warehouse.app_db import price_book
from warehouse.app_db.price_book import Entry, price_from
from webapp.shared import published_data, undo_banner
from webapp.shared.errors import callback
from webapp.shared.tables import DAY, MINUTE, Column, columns, show_rows
from webapp.shared.text import literal

_IN_FORCE, _WITHDRAWN = "in force", "withdrawn"
#: Whose last change `webapp.shared.undo_banner` shows above the form.
UNDO = "price"
#: Fields keep what was typed while the form is closed.
_PERSIST: Literal["page"] = "page"
RENTED, BOUGHT = "rented by the hour", "bought"
_PROBLEMS = "price-problems"
#: Fields of every price, and those by how the hardware was acquired.
_FIELDS = ("hardware", "source", "currency", "valid_from")
_FIELDS_OF = {RENTED: ("rented_per_hour",), BOUGHT: ("purchase_price", "lifetime_years", "utilisation")}
#: By field: whether what was entered is valid, and what to enter.
_CHECKS: Mapping[str, tuple[Callable[[Any], object], str]] = {
    "hardware": (bool, "enter the hardware: whole words of its name are enough"),
    "source": (bool, "enter where the price comes from"),
    "currency": (lambda text: re.fullmatch(r"[A-Z]{3}", text or ""), "enter three capital letters, like USD"),
    "valid_from": (bool, "enter the first day the price applies"),
    "rented_per_hour": (lambda price: (price or 0) > 0, "enter the price of an hour, above 0"),
    "purchase_price": (lambda price: (price or 0) > 0, "enter the purchase price, above 0"),
    "lifetime_years": (lambda years: (years or 0) > 0, "enter the years it will be used, above 0"),
    "utilisation": (
        lambda percent: 0 < (percent or 0) <= 100,
        "enter the share of hours in use, above 0 and at most 100 %",
    ),
}


def show(hardware: str, day: date) -> None:
    """Show the price book; its form starts with `hardware` and `day`."""
    st.subheader("Price book", anchor=False)
    entries = price_book.entries(published_data.engine())
    in_force = [entry for entry in entries if entry.withdrawn_at is None]
    if entries:
        show_rows(table(entries), _config(), "The price book")
        st.caption(
            "An entry applies from its first day until a later entry for the same hardware. Entries are never "
            "changed, only added and withdrawn, so last month's costs can be computed again."
        )
    else:
        how = " Add an hourly price, its start date and its source." if visitor.allowed_any(Change.PRICES) else ""
        st.caption(f"The price book is empty.{how}")
    undo_banner.show(UNDO)
    if not visitor.allowed_any(Change.PRICES):
        return
    with st.container(horizontal=True, vertical_alignment="top"):
        _show_form(hardware, day)
        if in_force:
            _show_withdraw(in_force)


def table(entries: Sequence[Entry]) -> pd.DataFrame:
    """Return the table of all entries, newest first, including withdrawn ones."""
    return pd.DataFrame([_row(entry) for entry in reversed(entries)])


def _row(entry: Entry) -> dict[str, Any]:
    price, owned = entry.price, entry.price.owned
    bought = owned and (
        f"bought for {number(owned.purchase_price)}, {owned.lifetime_years:g} years at {percentage(owned.utilisation)}"
    )
    return {
        "state": [_IN_FORCE if entry.withdrawn_at is None else _WITHDRAWN],
        "number": entry.price_id,
        "hardware": price.hardware,
        "from": price.valid_from,
        "per_hour": price.per_hour,
        "currency": price.currency,
        "how": bought or "rented",
        "source": price.source,
        "electricity": price.electricity_per_kwh,
        "added": entry.added_at,
    }


def _config() -> dict[str, Any]:
    return columns(
        pinned="",
        state=Column("State", width=90, states={_IN_FORCE: "green", _WITHDRAWN: "gray"}),
        number=Column("Entry", "%d", width=55),
        hardware={"width": 140},
        per_hour=Column("Per hour", "%,.4g", width=75),
        currency={"width": 75},
        how=Column("Acquired", width=85),
        electricity=Column("Electricity per kWh", "%.4g", "Where the hourly price does not include it", width=125),
        source={"width": 230},
        added=Column("Added (UTC)", MINUTE),
        **{"from": Column("From", DAY, width=90)},
    )


def _show_withdraw(in_force: Sequence[Entry]) -> None:
    labels = {entry.price_id: _label(entry) for entry in reversed(in_force)}
    with st.popover("Withdraw an entry", icon=":material/remove_circle:"):
        st.markdown("A withdrawn entry no longer applies, but stays in the book.")
        chosen = st.selectbox("Entry", list(labels), format_func=labels.__getitem__, key="price-withdraw")
        entry = next((candidate for candidate in in_force if candidate.price_id == chosen), None)
        st.button("Withdraw", key="price-withdraw-it", disabled=entry is None, on_click=_withdraw, args=(entry,))


def _label(entry: Entry) -> str:
    price = entry.price
    return f"{entry.price_id}: {price.hardware}, {number(price.per_hour)} {price.currency} from {price.valid_from}"


@callback
def _withdraw(entry: Entry) -> None:
    withdraw(entry.price_id, to_add_again=entry.price)


def _show_form(hardware: str, day: date) -> None:
    """Draw the form only while it is open; closed, it keeps what was typed. It starts with `hardware` and `day`."""
    problems: dict[str, str] = st.session_state.get(_PROBLEMS, {})
    form = st.expander(
        "Add an entry", icon=":material/add:", expanded=bool(problems), key="price-form", on_change="rerun"
    )
    if form.open:
        with form:
            _show_fields(hardware, day, problems)


@callback
def begin(per_hour: float) -> None:
    """Open the form with a price by the hour."""
    st.session_state["price-form"] = True
    st.session_state["price-kind"] = RENTED
    st.session_state["price-rented_per_hour"] = per_hour


def _show_fields(hardware: str, day: date, problems: Mapping[str, str]) -> None:
    kind = st.segmented_control(
        "Hardware is", [RENTED, BOUGHT], default=RENTED, required=True, key="price-kind", persist_state=_PERSIST
    )

    def show(field: str, draw: Callable[..., Any], label: str, **options: Any) -> None:
        with st.container(gap="xxsmall"):
            draw(label, key=f"price-{field}", persist_state=_PERSIST, **options)
            if problem := problems.get(field):
                st.caption(f":red[{literal(problem)}]")

    amount = partial(st.number_input, min_value=0.0, value=None, format="%.4g")
    with st.grid(4, gap="small", min_column_width=170):
        show("hardware", st.text_input, "Hardware", value=hardware, help="Whole words of its name are enough")
        if kind == BOUGHT:
            show("purchase_price", amount, "Purchase price")
            show("lifetime_years", amount, "Lifetime (years)")
            show("utilisation", amount, "Utilisation (%)")
        else:
            show("rented_per_hour", amount, "Price per hour")
        show("currency", st.text_input, "Currency", value="USD", max_chars=3)
        show("valid_from", st.date_input, "From", value=day, help="The first day it applies")
        show("electricity_per_kwh", amount, "Electricity per kWh", help="Only if the price does not include it")
        show("source", st.text_input, "Source", placeholder="price list of 2026-11")
    st.button("Add to the price book", type="primary", icon=":material/add:", on_click=_add, key="price-add")


@callback
def _add() -> None:
    values = {field: st.session_state.get(f"price-{field}") for field in ("kind", "electricity_per_kwh", *_CHECKS)}
    price, st.session_state[_PROBLEMS] = read(values)
    if price is None:
        return
    entry, is_new = _added(price)
    added = f"Entry {entry} was added."
    if is_new:
        undo_banner.record(UNDO, added, icon=":material/check_circle:", undo=lambda: withdraw(entry, None))
    elif undo_banner.message(UNDO) != added:  # a click that comes twice leaves the first one's message
        undo_banner.record(UNDO, f"Nothing was added: entry {entry} says the same.", icon=":material/info:")


def _added(price: Price) -> tuple[int, bool]:
    """Add a price unless an entry in force says the same. Returns the entry's number, and whether it is new."""
    engine = published_data.engine()
    earlier = {entry.price_id for entry in price_book.entries(engine)}
    number = price_book.add(engine, price, actor=visitor.actor())
    return number, number not in earlier


def withdraw(price_id: int, to_add_again: Price | None) -> None:
    """Withdraw an entry; undone by adding its price again, under a new number, where that is given."""
    try:
        price_book.withdraw(published_data.engine(), price_id, actor=visitor.actor())
    except UserError as error:
        undo_banner.record(UNDO, str(error), icon=":material/error:")
        return
    undo = None if to_add_again is None else lambda: _add_again(to_add_again)
    undo_banner.record(UNDO, f"Entry {price_id} was withdrawn.", icon=":material/remove_circle:", undo=undo)


def _add_again(price: Price) -> None:
    entry, _ = _added(price)
    undo_banner.record(UNDO, f"The price was added again, as entry {entry}.", icon=":material/check_circle:")


def read(values: Mapping[str, Any]) -> tuple[Price | None, dict[str, str]]:
    """Return the price as typed, or None and a sentence for each field to correct. Utilisation is in percent."""
    fields = (*_FIELDS, *_FIELDS_OF[values["kind"]])
    entered: dict[str, Any] = {field: values.get(field) for field in fields}
    entered |= {field: value.strip() for field, value in entered.items() if isinstance(value, str)}
    checks = {field: _CHECKS[field] for field in fields}
    problems = {field: sentence for field, (is_valid, sentence) in checks.items() if not is_valid(entered[field])}
    if problems:
        return None, problems
    if "utilisation" in entered:
        entered["utilisation"] /= 100
    try:
        return price_from(entered | {"electricity_per_kwh": values.get("electricity_per_kwh")}), {}
    except UserError as error:
        return None, {"hardware": str(error)}
