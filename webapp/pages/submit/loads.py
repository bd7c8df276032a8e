"""The form's loads: how many requests are sent, how many at once, and when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from lab.study.load import PATTERN_NAMES, PATTERNS, SWEEP, SWEEP_CONCURRENCIES, expand_pattern
from webapp.pages.submit import row_widgets, validation_messages
from webapp.pages.submit.form_model import Row
from webapp.pages.submit.row_widgets import Label, RowWidgets, row_container
from webapp.pages.submit.validation_messages import Problem

TABLE = "loads"
#: In pixels, the widest label with its question mark.
_WIDTH = 106
_LABELS: tuple[Label, ...] = (
    ("Name", "stretch", "Empty: named after its parameters, like c4-n16"),
    ("Concurrency", _WIDTH, "Maximum number of requests in flight"),
    ("Prompts", _WIDTH, "Number of requests, without warm-up"),
    ("Rate (1/s)", _WIDTH, "Requests per second; empty: closed loop, each request is sent when another has ended"),
    ("Burstiness", _WIDTH, "Shape of the gamma distribution: 1 is Poisson, less is burstier. Needs a rate"),
)
_NEW = {"max_concurrency": 1, "num_prompts": 16, "burstiness": 1.0, "arrivals": "gamma"}
_DETAILS, _RAMP, _RAMP_END = ("arrivals", "duration_s", "stop_on_error_share"), "ramp", "ramp_to_rps"
_ARRIVALS = {
    "gamma": "randomly, with the burstiness above",
    "constant": "at a constant rate",
    _RAMP: "at a rising rate, up to the rate below",
    "trace": "as recorded in the dataset",
}
_FIND, _SEARCH = "find", ("slo_share", "find_from", "find_to")
_FINDS = {
    "rate": "the greatest request rate within the SLO",
    "concurrency": "the greatest concurrency within the SLO",
}


def edit(problems: Sequence[Problem]) -> tuple[Row, ...]:
    rows = []
    with st.container(border=True, gap="xsmall", height="stretch"):
        st.markdown("**Loads** :gray[– the access patterns]")
        row_widgets.show_header(TABLE, _LABELS)
        for place, (number, initial) in enumerate(row_widgets.rows(TABLE)):
            rows.append(_row(RowWidgets(TABLE, number, initial)))
            row_widgets.show_row_problems(problems, TABLE, place)
        with st.container(horizontal=True, gap="small"):
            st.button(
                "Add a load",
                icon=":material/add:",
                type="tertiary",
                on_click=row_widgets.add,
                args=(TABLE, _NEW),
                key="add-load",
            )
            _show_pattern_menu()
        row_widgets.show_problems(validation_messages.of_table(problems, TABLE), validation_messages.anchor(TABLE))
    return tuple(rows)


def _show_pattern_menu() -> None:
    st.menu_button(
        "Add a pattern",
        PATTERN_NAMES,
        icon=":material/ssid_chart:",
        type="tertiary",
        format_func=pattern_label,
        help="Named access patterns, after published experiments",
        on_click=_add_pattern,
        key="add-pattern",
    )


def _add_pattern() -> None:
    if pattern := st.session_state["add-pattern"]:
        row_widgets.add(TABLE, *expand_pattern({"pattern": pattern})[0])


def pattern_label(pattern: str) -> str:
    """`burstiness_high: 64 requests/s, burstiness 0.2, 32 at once, 256 prompts`."""
    if pattern == SWEEP:
        return f"{pattern}: {', '.join(map(str, SWEEP_CONCURRENCIES))} at once"
    load = PATTERNS[pattern]
    rate = f"{load['request_rate_rps']:g} requests/s, " if "request_rate_rps" in load else ""
    burstiness = f"burstiness {load['burstiness']:g}, " if "burstiness" in load else ""
    return f"{pattern}: {rate}{burstiness}{load['max_concurrency']} at once, {load['num_prompts']} prompts"


def _row(widgets: RowWidgets) -> Row:
    row: dict[str, Any] = {}
    with row_container():
        row["label"] = widgets.text("label", "Name", placeholder="automatic")
        row["max_concurrency"] = widgets.count("max_concurrency", "Concurrency", width=_WIDTH)
        row["num_prompts"] = widgets.count("num_prompts", "Prompts", width=_WIDTH)
        row["request_rate_rps"] = widgets.number_field(
            "request_rate_rps", "Rate (1/s)", placeholder="none", width=_WIDTH
        )
        row["burstiness"] = widgets.number_field("burstiness", "Burstiness", step=0.1, width=_WIDTH)
        if details := widgets.details("When requests are sent, what ends the load, and whether it searches"):
            with details:
                _show_details(widgets)
        widgets.show_remove_button("load")
    row |= widgets.hidden_values(*_DETAILS, _FIND)
    if row[_FIND]:
        row |= widgets.hidden_values(*_SEARCH)
    if row["arrivals"] == _RAMP:
        row |= widgets.hidden_values(_RAMP_END)
    return row


def _show_details(widgets: RowWidgets) -> None:
    widgets.choice("arrivals", "Requests are sent", list(_ARRIVALS), format_func=_ARRIVALS.get, inside=True)
    if widgets.hidden_values("arrivals")["arrivals"] == _RAMP:
        widgets.number_field(_RAMP_END, "Rate at the end (1/s)", inside=True)
    widgets.number_field("duration_s", "End after (s)", step=10.0, inside=True, placeholder="when all prompts are sent")
    widgets.number_field(
        "stop_on_error_share",
        "Stop if more than this share fails (0 to 1)",
        step=0.05,
        inside=True,
        placeholder="never",
    )
    widgets.choice(
        _FIND, "Search for", list(_FINDS), format_func=_FINDS.get, inside=True, placeholder="nothing: one load"
    )
    if widgets.hidden_values(_FIND)[_FIND]:
        widgets.number_field(
            "slo_share", "Share of requests within the SLO", step=0.01, inside=True, placeholder="0.95"
        )
        widgets.number_field("find_from", "Search from", inside=True, placeholder="1")
        widgets.number_field("find_to", "Search up to (1/s)", inside=True, placeholder="for a rate: 4096")
