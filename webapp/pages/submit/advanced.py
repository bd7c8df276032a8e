"""The fields that most studies leave at their defaults, in an expander that opens when one of them is wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import streamlit as st

from webapp.pages.submit import row_widgets, validation_messages
from webapp.pages.submit.form_model import Row, UnreadableError, flags_text, read_flags
from webapp.pages.submit.validation_messages import Problem

_SAMPLING = (
    ("sampling.temperature", "Temperature", 0.1, "0 is greedy"),
    ("sampling.top_p", "Top p", 0.05, "Nucleus sampling; 1 keeps all tokens"),
    ("sampling.seed", "Sampling seed", 1, "Sent with every request"),
    ("seed", "Workload seed", 1, "Selects the prompts, their order and their send times"),
)
_GOALS = (
    ("slo.ttft_ms", "TTFT bound (ms)", 50.0, "Requests with a longer TTFT are outside the SLO; empty: no bound"),
    ("slo.tpot_ms", "TPOT bound (ms)", 5.0, "Time per output token; empty: no bound"),
    ("slo.e2e_ms", "E2E latency bound (ms)", 500.0, "Whole request; empty: no bound"),
    ("price_usd_per_hour", "Price (USD per hour)", 0.1, "Of the whole machine; empty: the price book's price"),
)
ORDERS = {
    "interleaved": "interleaved: A B B A",
    "side_by_side": "all engines up side by side: cell by cell",
    "fewest_launches": "fewest engine starts",
}
FRESH_STARTS = {
    "as_declared": "drafts that remember",
    "every_cell": "every draft",
    "never": "none",
}
ALONE = {None: "as the host is", True: "alone", False: "beside others"}
SPREAD = {False: "one slot", True: "all slots of a host"}
#: What chat templates call the switch for thinking, as keys of vLLM's flag.
THINKING_FLAGS = tuple(f"default-chat-template-kwargs.{name}" for name in ("enable_thinking", "thinking"))
THINKING = {"": "as the model's template says", "true": "on", "false": "off"}
PARSER_FLAG = "reasoning-parser"
ENDPOINTS = {"completions": "completions", "chat": "chat"}
#: For widgets that are not drawn while the expander is closed.
_PERSIST = {"persist_state": row_widgets.PERSIST}
_NUMBERS = tuple(name for name, *_ in (*_SAMPLING, *_GOALS))
FIELDS = (
    *_NUMBERS,
    "order",
    "repeats_per_launch",
    "fresh_starts",
    "alone",
    "spread",
    "endpoint",
    "hardware",
    "engine_flags",
    "tune",
)


def edit(initial: Row, problems: Sequence[Problem]) -> dict[str, Any]:
    opened = bool(initial["tune"]) or any(validation_messages.of_field(problems, name) for name in FIELDS)
    expander = st.expander(
        "Order, hardware, sampling, thinking, SLO, price and engine flags",
        expanded=opened,
        icon=":material/tune:",
        key=row_widgets.key(f"more-{opened}"),
        on_change="rerun",
    )
    if expander.open:
        with expander:
            _show(initial, problems)
    return {name: st.session_state.get(row_widgets.key(name), initial[name]) for name in FIELDS}


def _show(initial: Row, problems: Sequence[Problem]) -> None:
    _show_execution(initial, problems)
    for row in (_SAMPLING, _GOALS):
        for column, (name, label, step, help_text) in zip(st.columns(4), row, strict=True):
            with column:
                field(name, label, initial, problems, st.number_input, step=step, help=help_text, **_PERSIST)
    _show_thinking(initial)
    label = "Engine flags for every arm (TOML, one per line)"
    flags, tune = st.columns(2)
    with flags:
        st.session_state.setdefault(row_widgets.key("engine_flags"), initial["engine_flags"])
        st.text_area(label, height=130, key=row_widgets.key("engine_flags"), persist_state=row_widgets.PERSIST)
        sentences = validation_messages.of_field(problems, "engine_flags")
        row_widgets.show_problems(sentences, validation_messages.anchor("engine_flags"))
    with tune:
        help_text = (
            "If anything stands here, the arms with speculation are drafts, and the best number of tokens for each "
            "load is found by measuring, then measured as the engine's own schedule. Repeats and order do not count."
        )
        label, example = "Tuning (TOML): numbers of tokens to try with each draft", "drafted_tokens = [1, 2, 3, 4, 5]"
        options = {"placeholder": example, "help": help_text, "height": 130}
        field("tune", label, initial, problems, st.text_area, **options, **_PERSIST)


def _show_execution(initial: Row, problems: Sequence[Problem]) -> None:
    (order, per_launch, fresh, endpoint), (alone, spread, hardware, _) = st.columns(4), st.columns(4)
    with order:
        help_text = (
            "Interleaving keeps a machine that is warming up from favouring one arm, at the price of one engine start "
            "per arm and repeat. Side by side, the engines of all arms are up together and only one gets requests: "
            "half as many starts, if the memory holds all of them. What idle engines take is recorded and judged. "
            "Fewest engine starts measures one arm after the other; its repeats say little, as they share a start."
        )
        _choice("order", "Order of the arms", ORDERS, initial, help_text)
    with per_launch:
        help_text = (
            "Repeats on one engine start cost no further start and show how runs differ; how starts differ shows only "
            "over several. Side by side: at least two."
        )
        label = "Repeats per engine start"
        field("repeats_per_launch", label, initial, problems, st.number_input, step=1, help=help_text, **_PERSIST)
    with fresh:
        help_text = (
            "A suffix tree keeps the answers of the process: on one engine start a later cell would replay those of "
            "the cells before. Such an arm gets an engine start for each cell and repeat."
        )
        _choice("fresh_starts", "A start for each cell of", FRESH_STARTS, initial, help_text)
    with alone:
        help_text = (
            "A host that is divided into slots measures several studies side by side. Alone waits until nothing else "
            "is measured there; so does a host without GPUs if nothing is chosen."
        )
        _choice("alone", "Measured", ALONE, initial, help_text)
    with spread:
        help_text = (
            "The workers of a host share the study: each takes the next repeat of all arms, so that what is compared "
            "was measured on one slot. Not for a tuning or a search for a capacity."
        )
        _choice("spread", "Measured on", SPREAD, initial, help_text)
    with endpoint:
        help_text = "The API that requests are sent to: /v1/completions or /v1/chat/completions"
        _choice("endpoint", "Endpoint", ENDPOINTS, initial, help_text)
    with hardware:
        options = {"placeholder": "any", "help": "Part of a worker's hardware name, like H200; empty: any worker"}
        field("hardware", "Hardware", initial, problems, st.text_input, **options, **_PERSIST)


def _show_thinking(initial: Row) -> None:
    """Two fields for flags that decide whether a model thinks, and whether the server tells that from the answer."""
    text = st.session_state.get(row_widgets.key("engine_flags"), initial["engine_flags"])
    try:
        flags = read_flags(text or "")
    except UnreadableError:
        return
    thinking, parser = row_widgets.key("thinking"), row_widgets.key("reasoning-parser")
    st.session_state[thinking] = flags.get(THINKING_FLAGS[0]) if flags.get(THINKING_FLAGS[0]) in THINKING else ""
    st.session_state[parser] = str(flags.get(PARSER_FLAG, ""))

    def take(key: str, *names: str) -> None:
        changed = read_flags(text or "") | dict.fromkeys(names, st.session_state.get(key) or None)
        kept = {name: value for name, value in changed.items() if value is not None}
        st.session_state[row_widgets.key("engine_flags")] = flags_text(kept)

    first, second, _ = st.columns([1, 1, 2])
    with first:
        st.selectbox(
            "Thinking",
            list(THINKING),
            format_func=THINKING.__getitem__,
            key=thinking,
            on_change=take,
            args=(thinking, *THINKING_FLAGS),
            help="A switch of the model's chat template, for vLLM and the chat endpoint: it becomes two of the flags "
            "below. Reasoning and answer tokens are counted apart in any case.",
        )
    with second:
        st.text_input(
            "Reasoning parser",
            key=parser,
            on_change=take,
            args=(parser, PARSER_FLAG),
            placeholder="none, or like qwen3",
            help="The server then sends reasoning apart from the answer. Without it <think> tags in the text are read.",
        )


def field(
    name: str, label: str, initial: Row, problems: Sequence[Problem], widget: Callable[..., Any], **options: Any
) -> Any:
    """One field, with its problems below."""
    value = initial[name]
    if widget is st.number_input:
        value = row_widgets.shown_number(value)
        value = float(value) if isinstance(options["step"], float) and value is not None else value
        options |= {"format": "%g"} if isinstance(options["step"], float) else {}
    entered = widget(label, value=value, key=row_widgets.key(name), **options)
    row_widgets.show_problems(validation_messages.of_field(problems, name), validation_messages.anchor(name))
    return entered


def _choice(name: str, label: str, labels: Mapping[Any, str], initial: Row, help_text: str) -> None:
    """A closed choice, which cannot be invalid. `labels`: what each option is shown as."""
    st.selectbox(
        label,
        list(labels),
        list(labels).index(initial[name]),
        labels.__getitem__,
        key=row_widgets.key(name),
        help=help_text,
        persist_state=row_widgets.PERSIST,
    )
