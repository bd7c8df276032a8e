"""The price book on the Cost page: what counts since when, entries added, withdrawn, and that undone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

import pandas as pd
import streamlit as st

from lab.errors import UserError
from warehouse.app_db.price_book import Entry
from webapp.pages.cost import data, price_entry, price_said
from webapp.shared.text import number


def show(hardware: str, day: date) -> None:
    """`hardware` and `day`: what the form begins with."""
    st.subheader("Price book", anchor=False)
    entries = data.entries()
    counting = [entry for entry in entries if entry.withdrawn_at is None]
    if entries:
        st.dataframe(table(entries), hide_index=True, column_config=_config(), alt="The price book", placeholder="")
        st.caption(
            "An entry counts from its day on, until a later one for the same hardware. Entries are added and withdrawn "
            "and never changed, so a cost of last month can be computed again."
        )
    else:
        st.caption("The price book is empty: add what your hardware costs, from which day on, and where that stands.")
    price_said.show()
    with st.container(horizontal=True, vertical_alignment="top"):
        price_entry.show(hardware, day)
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


def _withdraw(entry: Entry) -> None:
    try:
        data.withdraw(entry.price_id)
    except UserError as error:
        price_said.tell(str(error))
    else:
        price_said.tell(f"Entry {entry.price_id} counts no longer.", undo_add=entry.price)
