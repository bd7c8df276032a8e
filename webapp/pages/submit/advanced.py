"""The fields of a study that most studies leave as they are, folded away until something in them is wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

from webapp.pages.submit import row_widgets, validation_messages
from webapp.pages.submit.form_model import Row
from webapp.pages.submit.validation_messages import Problem

_SAMPLING = (
    ("sampling.temperature", "Temperature", 0.1, "0 is greedy"),
    ("sampling.top_p", "Top p", 0.05, "Nucleus sampling; 1 leaves all tokens in"),
    ("sampling.seed", "Sampling seed", 1, "Sent with every request"),
    ("seed", "Prompts' seed", 1, "Which prompts, in which order, and when they leave"),
)
_GOALS = (
    ("slo.ttft_ms", "TTFT bound (ms)", 50.0, "A request slower than this is not good; empty: no bound"),
    ("slo.tpot_ms", "TPOT bound (ms)", 5.0, "Per output token; empty: no bound"),
    ("slo.e2e_ms", "Latency bound (ms)", 500.0, "Whole request; empty: no bound"),
    ("price_usd_per_hour", "Price (USD per hour)", 0.1, "Of the whole machine; empty: no cost figures"),
)
ORDERS = {"interleaved": "interleaved: A B B A", "fewest_launches": "fewest engine starts"}
ENDPOINTS = {"completions": "completions", "chat": "chat"}
#: What is folded away keeps what was typed.
_KEPT = {"persist_state": row_widgets.KEPT}
_NUMBERS = tuple(name for name, *_ in (*_SAMPLING, *_GOALS))
FIELDS = (*_NUMBERS, "order", "endpoint", "hardware", "engine_flags")


def edit(initial: Row, problems: Sequence[Problem]) -> dict[str, Any]:
    wrong = any(validation_messages.of_field(problems, name) for name in FIELDS)
    folded = st.expander(
        "Order, hardware, sampling, service level, price and engine flags",
        expanded=wrong,
        icon=":material/tune:",
        key=row_widgets.key(f"more-{wrong}"),
        on_change="rerun",
    )
    if folded.open:
        with folded:
            _show(initial, problems)
    return {name: st.session_state.get(row_widgets.key(name), initial[name]) for name in FIELDS}


def _show(initial: Row, problems: Sequence[Problem]) -> None:
    _show_how(initial, problems)
    for row in (_SAMPLING, _GOALS):
        for column, (name, label, step, said) in zip(st.columns(4), row, strict=True):
            with column:
                field(name, label, initial, problems, st.number_input, step=step, help=said, **_KEPT)
    label = "Engine flags of every arm (TOML, one a line)"
    field("engine_flags", label, initial, problems, st.text_area, height=130, **_KEPT)


def _show_how(initial: Row, problems: Sequence[Problem]) -> None:
    order, endpoint, hardware = st.columns([1, 1, 2])
    with order:
        said = (
            "Interleaved keeps a machine that warms up from favouring one arm; it starts an engine per arm and repeat."
        )
        _choice("order", "Order of the arms", ORDERS, initial, said)
    with endpoint:
        said = "Which of the engine's addresses the requests go to: /v1/completions or /v1/chat/completions"
        _choice("endpoint", "Requests go to", ENDPOINTS, initial, said)
    with hardware:
        said = "Only workers with this in their hardware's name take the study, like H200; empty: any worker"
        field("hardware", "Hardware", initial, problems, st.text_input, placeholder="any", help=said, **_KEPT)


def field(
    name: str, label: str, initial: Row, problems: Sequence[Problem], widget: Callable[..., Any], **options: Any
) -> Any:
    """One field with what is wrong with it below."""
    value = initial[name]
    if widget is st.number_input:
        value = float(value) if isinstance(options["step"], float) and value is not None else value
        options |= {"format": "%g"} if isinstance(options["step"], float) else {}
    given = widget(label, value=value, key=row_widgets.key(name), **options)
    row_widgets.say(validation_messages.of_field(problems, name))
    return given


def _choice(name: str, label: str, words: dict[str, str], initial: Row, said: str) -> None:
    """One of these and nothing else: it cannot be wrong."""
    st.selectbox(
        label,
        list(words),
        list(words).index(initial[name]),
        words.__getitem__,
        key=row_widgets.key(name),
        help=said,
        persist_state=row_widgets.KEPT,
    )
