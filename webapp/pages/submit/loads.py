"""The form's loads: how many requests, how many at once, and when they leave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from lab.study.patterns import PATTERN_NAMES, PATTERNS, SWEEP, SWEEP_CONCURRENCIES, expand
from webapp.pages.submit import form_line, row_widgets, validation_messages
from webapp.pages.submit.form_line import Label, Line
from webapp.pages.submit.form_model import Row
from webapp.pages.submit.validation_messages import Problem

TABLE = "loads"
#: In pixels, the widest label with its question mark.
_WIDTH = 106
_LABELS: tuple[Label, ...] = (
    ("Name", "stretch", "Empty: after its figures, like c4-n16"),
    ("Concurrency", _WIDTH, "Requests in flight at most"),
    ("Prompts", _WIDTH, "How many are sent, without warm-up"),
    ("Rate (1/s)", _WIDTH, "Requests a second; empty: the next one leaves when one has ended"),
    ("Burstiness", _WIDTH, "Shape of the gamma distribution: 1 is Poisson, less comes in bursts. Needs a rate"),
)
_NEW = {"max_concurrency": 1, "num_prompts": 16, "burstiness": 1.0, "arrivals": "gamma"}
_DETAILS, _RAMP, _RAMP_END = ("arrivals", "duration_s", "stop_on_error_share"), "ramp", "ramp_to_rps"
_ARRIVALS = {
    "gamma": "random, with the burstiness above",
    "constant": "at a constant rate",
    _RAMP: "faster and faster, up to the rate below",
    "trace": "as the dataset recorded them",
}


def edit(problems: Sequence[Problem]) -> tuple[Row, ...]:
    rows = []
    with st.container(border=True, gap="xsmall", height="stretch"):
        st.markdown("**Loads** :gray[– how it is asked]")
        form_line.header(TABLE, _LABELS)
        for place, (number_, initial) in enumerate(row_widgets.rows(TABLE)):
            rows.append(_row(Line(TABLE, number_, initial)))
            row_widgets.say_row(problems, TABLE, place)
        with st.container(horizontal=True, gap="small"):
            st.button(
                "Add a load",
                icon=":material/add:",
                type="tertiary",
                on_click=row_widgets.add,
                args=(TABLE, _NEW),
                key="add-load",
            )
            _pattern_menu()
        row_widgets.say(validation_messages.of_table(problems, TABLE))
    return tuple(rows)


def _pattern_menu() -> None:
    st.menu_button(
        "Add a pattern",
        PATTERN_NAMES,
        icon=":material/ssid_chart:",
        type="tertiary",
        format_func=pattern_words,
        help="Access patterns of published experiments",
        on_click=_add_pattern,
        key="add-pattern",
    )


def _add_pattern() -> None:
    if pattern := st.session_state["add-pattern"]:
        row_widgets.add(TABLE, *expand({"pattern": pattern})[0])


def pattern_words(pattern: str) -> str:
    """`burstiness_high: 64 requests/s, burstiness 0.2, 32 at once, 256 prompts`."""
    if pattern == SWEEP:
        return f"{pattern}: {', '.join(map(str, SWEEP_CONCURRENCIES))} at once"
    load = PATTERNS[pattern]
    rate = f"{load['request_rate_rps']:g} requests/s, " if "request_rate_rps" in load else ""
    burstiness = f"burstiness {load['burstiness']:g}, " if "burstiness" in load else ""
    return f"{pattern}: {rate}{burstiness}{load['max_concurrency']} at once, {load['num_prompts']} prompts"


def _row(line: Line) -> Row:
    row: dict[str, Any] = {}
    with form_line.beside():
        row["label"] = line.text("label", "Name", placeholder="after its figures")
        row["max_concurrency"] = line.count("max_concurrency", "Concurrency", width=_WIDTH)
        row["num_prompts"] = line.count("num_prompts", "Prompts", width=_WIDTH)
        row["request_rate_rps"] = line.figure("request_rate_rps", "Rate (1/s)", placeholder="none", width=_WIDTH)
        row["burstiness"] = line.figure("burstiness", "Burstiness", step=0.1, width=_WIDTH)
        if opened := form_line.details(line, "When requests leave, and what ends the load"):
            with opened:
                _show_details(line)
        form_line.remove_button(line, "load")
    row |= line.within(*_DETAILS)
    if row["arrivals"] == _RAMP:
        row |= line.within(_RAMP_END)
    return row


def _show_details(line: Line) -> None:
    line.choice("arrivals", "Requests leave", list(_ARRIVALS), format_func=_ARRIVALS.get, inside=True)
    if line.within("arrivals")["arrivals"] == _RAMP:
        line.figure(_RAMP_END, "Rate at the end (1/s)", inside=True)
    line.figure("duration_s", "End after (s)", step=10.0, inside=True, placeholder="when all prompts were sent")
    line.figure(
        "stop_on_error_share",
        "Stop when more than this share fails (0 to 1)",
        step=0.05,
        inside=True,
        placeholder="never",
    )
