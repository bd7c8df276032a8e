"""The form that adds an entry to the price book, drawn while it is open; folded away it keeps what was typed."""

from __future__ import annotations

from datetime import date

import streamlit as st

from webapp.pages.cost import data, price_book_form, price_said
from webapp.pages.cost.price_book_form import BOUGHT, RENTED
from webapp.pages.submit.row_widgets import KEPT
from webapp.shared.text import literal

_PROBLEMS = "price-problems"
_FIELDS = ("hardware", "source", "currency", "valid_from", "kind", "electricity_per_kwh")
_PRICES = ("rented_per_hour", "purchase_price", "lifetime_years", "utilisation")


def show(hardware: str, day: date) -> None:
    problems: dict[str, str] = st.session_state.get(_PROBLEMS, {})
    folded = st.expander(
        "Add an entry", icon=":material/add:", expanded=bool(problems), key="price-form", on_change="rerun"
    )
    if folded.open:
        with folded:
            _show_fields(hardware, day, problems)


def _show_fields(hardware: str, day: date, problems: dict[str, str]) -> None:
    kind = st.segmented_control(
        "Hardware is", [RENTED, BOUGHT], default=RENTED, required=True, key="price-kind", persist_state=KEPT
    )
    with st.grid(4, gap="small", min_column_width=170):
        with st.container(gap="xxsmall"):
            st.text_input(
                "Hardware", hardware, key="price-hardware", persist_state=KEPT, help="Part of its name is enough"
            )
            _say(problems, "hardware")
        if kind == BOUGHT:
            _amount("Purchase price", "purchase_price", problems)
            _amount("Lifetime (years)", "lifetime_years", problems)
            _amount("Utilisation (%)", "utilisation", problems)
        else:
            _amount("Price of an hour", "rented_per_hour", problems)
        with st.container(gap="xxsmall"):
            st.text_input("Currency", "USD", key="price-currency", persist_state=KEPT, max_chars=3)
            _say(problems, "currency")
        with st.container(gap="xxsmall"):
            st.date_input("From", day, key="price-valid_from", persist_state=KEPT, help="The first day it counts")
            _say(problems, "valid_from")
        _amount("Electricity per kWh", "electricity_per_kwh", problems, "Only where the price is without it")
        with st.container(gap="xxsmall"):
            st.text_input("Source", key="price-source", persist_state=KEPT, placeholder="price list of 2026-11")
            _say(problems, "source")
    st.button("Add to the price book", type="primary", icon=":material/add:", on_click=_add, key="price-add")


def _amount(label: str, field: str, problems: dict[str, str], help_text: str | None = None) -> None:
    with st.container(gap="xxsmall"):
        st.number_input(label, 0.0, value=None, format="%.4g", key=f"price-{field}", persist_state=KEPT, help=help_text)
        _say(problems, field)


def _say(problems: dict[str, str], field: str) -> None:
    if sentence := problems.get(field):
        st.caption(f":red[{literal(sentence)}]")


def _add() -> None:
    values = {field: st.session_state.get(f"price-{field}") for field in (*_FIELDS, *_PRICES)}
    price, st.session_state[_PROBLEMS] = price_book_form.read(values)
    if price is None:
        return
    entry, is_new = data.add(price)
    sentence = f"Entry {entry} is in the book." if is_new else f"Entry {entry} says this already, nothing was added."
    price_said.tell(sentence, undo_withdraw=entry if is_new else None)
