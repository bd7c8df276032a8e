"""The price book on the Cost page: what counts since when, entries added, withdrawn, and that undone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any, TypedDict

import pandas as pd
import streamlit as st

from lab.cost import Price
from lab.errors import UserError
from warehouse.price_book import Entry
from webapp import cost_data, price_form
from webapp.price_form import BOUGHT, RENTED
from webapp.text import literal, number

_PROBLEMS, _SAID = "price-problems", "price-said"
_FIELDS = ("hardware", "source", "currency", "valid_from", "kind", "electricity_per_kwh")
_PRICES = ("rented_per_hour", "purchase_price", "lifetime_years", "utilisation")


class Said(TypedDict):
    """What was done last, and the entry by which it is undone: withdrawn if it was added, added if withdrawn."""

    sentence: str
    undo_withdraw: int | None
    undo_add: Price | None


def show(hardware: str, day: date) -> None:
    """`hardware` and `day`: what the form begins with."""
    st.subheader("Price book", anchor=False)
    entries = cost_data.entries()
    counting = [entry for entry in entries if entry.withdrawn_at is None]
    if entries:
        st.dataframe(table(entries), hide_index=True, column_config=_config(), alt="The price book", placeholder="")
        st.caption(
            "An entry counts from its day on, until a later one for the same hardware. Entries are added and withdrawn "
            "and never changed, so a cost of last month can be computed again."
        )
    else:
        st.caption("The price book is empty: add what your hardware costs, from which day on, and where that stands.")
    _show_said()
    with st.container(horizontal=True, vertical_alignment="top"):
        _show_form(hardware, day)
        if counting:
            _show_withdraw(counting)


def table(entries: Sequence[Entry]) -> pd.DataFrame:
    """The newest first; withdrawn entries stay."""
    return pd.DataFrame([_row(entry) for entry in reversed(entries)])


def _row(entry: Entry) -> dict[str, Any]:
    price, owned = entry.price, entry.price.owned
    bought = owned and (
        f"bought for {number(owned.purchase_price)}, {owned.lifetime_years:g} years at {owned.utilisation:.0%}"
    )
    return {
        "state": ["counts" if entry.withdrawn_at is None else "withdrawn"],
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
    numbers, text = st.column_config.NumberColumn, st.column_config.TextColumn
    states, colours = ["counts", "withdrawn"], ["green", "gray"]
    return {
        "state": st.column_config.MultiselectColumn("State", options=states, color=colours, width=90),
        "number": numbers("Entry", format="%d", width=55),
        "hardware": text("Hardware", width=140),
        "from": st.column_config.DateColumn("From", format="YYYY-MM-DD", width=90),
        "per_hour": numbers("Per hour", format="%,.4g", width=75),
        "currency": text("Currency", width=75),
        "how": text("How", width=85),
        "electricity": numbers("Electricity per kWh", format="%.4g", help="Where the price is without it", width=125),
        "source": text("Source", width=230),
        "added": st.column_config.DatetimeColumn("Added (UTC)", format="YYYY-MM-DD HH:mm"),
    }


def _show_said() -> None:
    said: Said | None = st.session_state.get(_SAID)
    if said is None:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f":green[:material/check_circle:] {literal(said['sentence'])}", width="content")
        if said["undo_withdraw"] is not None or said["undo_add"] is not None:
            st.button("Undo", icon=":material/undo:", on_click=_undo, args=(said,), key="price-undo")


def _show_form(hardware: str, day: date) -> None:
    problems: dict[str, str] = st.session_state.get(_PROBLEMS, {})
    with st.expander("Add an entry", icon=":material/add:", expanded=bool(problems), key="price-form"):
        kind = st.segmented_control("Hardware is", [RENTED, BOUGHT], default=RENTED, required=True, key="price-kind")
        with st.grid(4, gap="small", min_column_width=170):
            with st.container(gap="xxsmall"):
                st.text_input("Hardware", hardware, key="price-hardware", help="Part of its name is enough")
                _say(problems, "hardware")
            if kind == BOUGHT:
                _amount("Purchase price", "purchase_price", problems)
                _amount("Lifetime (years)", "lifetime_years", problems)
                _amount("Utilisation (%)", "utilisation", problems)
            else:
                _amount("Price of an hour", "rented_per_hour", problems)
            with st.container(gap="xxsmall"):
                st.text_input("Currency", "USD", key="price-currency", max_chars=3)
                _say(problems, "currency")
            with st.container(gap="xxsmall"):
                st.date_input("From", day, key="price-valid_from", help="The first day it counts")
                _say(problems, "valid_from")
            _amount("Electricity per kWh", "electricity_per_kwh", problems, "Only where the price is without it")
            with st.container(gap="xxsmall"):
                st.text_input("Source", key="price-source", placeholder="price list of 2026-11")
                _say(problems, "source")
        st.button("Add to the price book", type="primary", icon=":material/add:", on_click=_add, key="price-add")


def _amount(label: str, field: str, problems: dict[str, str], help_text: str | None = None) -> None:
    with st.container(gap="xxsmall"):
        st.number_input(label, 0.0, value=None, format="%.4g", key=f"price-{field}", help=help_text)
        _say(problems, field)


def _say(problems: dict[str, str], field: str) -> None:
    if sentence := problems.get(field):
        st.caption(f":red[{literal(sentence)}]")


def _show_withdraw(counting: Sequence[Entry]) -> None:
    labels = {entry.price_id: _label(entry) for entry in reversed(counting)}
    with st.popover("Withdraw an entry", icon=":material/remove_circle:"):
        st.markdown("It counts no longer, and stays in the book.")
        chosen = st.selectbox("Entry", list(labels), format_func=labels.__getitem__, key="price-withdraw")
        entry = next((each for each in counting if each.price_id == chosen), None)
        st.button("Withdraw it", key="price-withdraw-it", disabled=entry is None, on_click=_withdraw, args=(entry,))


def _label(entry: Entry) -> str:
    price = entry.price
    return f"{entry.price_id}: {price.hardware}, {number(price.per_hour)} {price.currency} from {price.valid_from}"


def _add() -> None:
    values = {field: st.session_state.get(f"price-{field}") for field in (*_FIELDS, *_PRICES)}
    price, st.session_state[_PROBLEMS] = price_form.read(values)
    if price is None:
        return
    entry, is_new = cost_data.add(price)
    sentence = f"Entry {entry} is in the book." if is_new else f"Entry {entry} says this already, nothing was added."
    st.session_state[_SAID] = Said(sentence=sentence, undo_withdraw=entry if is_new else None, undo_add=None)


def _withdraw(entry: Entry) -> None:
    try:
        cost_data.withdraw(entry.price_id)
    except UserError as error:
        st.session_state[_SAID] = Said(sentence=str(error), undo_withdraw=None, undo_add=None)
        return
    sentence = f"Entry {entry.price_id} counts no longer."
    st.session_state[_SAID] = Said(sentence=sentence, undo_withdraw=None, undo_add=entry.price)


def _undo(said: Said) -> None:
    """An entry that was added is withdrawn; one that was withdrawn is added again, under a new number."""
    number_again = None
    try:
        if said["undo_withdraw"] is not None:
            cost_data.withdraw(said["undo_withdraw"])
            sentence = f"Entry {said['undo_withdraw']} counts no longer."
        elif said["undo_add"] is not None:
            number_again, _ = cost_data.add(said["undo_add"])
            sentence = f"It counts again, as entry {number_again}."
        else:
            return
    except UserError as error:
        sentence = str(error)
    st.session_state[_SAID] = Said(sentence=sentence, undo_withdraw=None, undo_add=None)
