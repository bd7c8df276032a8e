"""The price book on the Cost page: its entries, the form that adds one, and withdrawing one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

import pandas as pd
import streamlit as st

from warehouse.app_db.price_book import Entry
from webapp.pages.cost import data, price_book_form
from webapp.shared import undo_banner
from webapp.shared.text import number

_IN_FORCE, _WITHDRAWN = "in force", "withdrawn"


def show(hardware: str, day: date) -> None:
    """The form starts with `hardware` and `day`."""
    st.subheader("Price book", anchor=False)
    entries = data.entries()
    in_force = [entry for entry in entries if entry.withdrawn_at is None]
    if entries:
        st.dataframe(table(entries), hide_index=True, column_config=_config(), alt="The price book", placeholder="")
        st.caption(
            "An entry applies from its first day until a later entry for the same hardware. Entries are never "
            "changed, only added and withdrawn, so last month's costs can be computed again."
        )
    else:
        st.caption("The price book is empty. Add what your hardware costs, from which day, and where that is stated.")
    undo_banner.show(price_book_form.UNDO)
    with st.container(horizontal=True, vertical_alignment="top"):
        price_book_form.show(hardware, day)
        if in_force:
            _show_withdraw(in_force)


def table(entries: Sequence[Entry]) -> pd.DataFrame:
    """All entries, newest first, withdrawn ones too."""
    return pd.DataFrame([_row(entry) for entry in reversed(entries)])


def _row(entry: Entry) -> dict[str, Any]:
    price, owned = entry.price, entry.price.owned
    bought = owned and (
        f"bought for {number(owned.purchase_price)}, {owned.lifetime_years:g} years at {owned.utilisation:.0%}"
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
    numbers, text = st.column_config.NumberColumn, st.column_config.TextColumn
    states, colours = [_IN_FORCE, _WITHDRAWN], ["green", "gray"]
    return {
        "state": st.column_config.MultiselectColumn("State", options=states, color=colours, width=90),
        "number": numbers("Entry", format="%d", width=55),
        "hardware": text("Hardware", width=140),
        "from": st.column_config.DateColumn("From", format="YYYY-MM-DD", width=90),
        "per_hour": numbers("Per hour", format="%,.4g", width=75),
        "currency": text("Currency", width=75),
        "how": text("Acquired", width=85),
        "electricity": numbers(
            "Electricity per kWh", format="%.4g", help="Where the hourly price does not include it", width=125
        ),
        "source": text("Source", width=230),
        "added": st.column_config.DatetimeColumn("Added (UTC)", format="YYYY-MM-DD HH:mm"),
    }


def _show_withdraw(in_force: Sequence[Entry]) -> None:
    labels = {entry.price_id: _label(entry) for entry in reversed(in_force)}
    with st.popover("Withdraw an entry", icon=":material/remove_circle:"):
        st.markdown("A withdrawn entry no longer applies, but stays in the book.")
        chosen = st.selectbox("Entry", list(labels), format_func=labels.__getitem__, key="price-withdraw")
        entry = next((each for each in in_force if each.price_id == chosen), None)
        st.button("Withdraw", key="price-withdraw-it", disabled=entry is None, on_click=_withdraw, args=(entry,))


def _label(entry: Entry) -> str:
    price = entry.price
    return f"{entry.price_id}: {price.hardware}, {number(price.per_hour)} {price.currency} from {price.valid_from}"


def _withdraw(entry: Entry) -> None:
    price_book_form.withdraw(entry.price_id, to_add_again=entry.price)
