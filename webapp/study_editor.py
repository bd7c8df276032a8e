"""The submit page's form: fields and tables for a draft that lives as long as the visitor's session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from lab.arm import METHODS
from lab.study_text import study_from_toml
from webapp import study_problems
from webapp.study_form import NO_SPECULATION, FormValues, from_study
from webapp.study_problems import Problem
from webapp.text import literal

DEMO_FILE = Path(__file__).parents[1] / "presets" / "demo.toml"
FIELDS = (
    *("name", "target", "repeats", "order", "seed", "endpoint", "price_usd_per_hour", "engine_flags"),
    *("sampling.temperature", "sampling.top_p", "sampling.seed", "slo.ttft_ms", "slo.tpot_ms", "slo.e2e_ms"),
)
_DRAFT, _VERSION, _CURRENT = "submit-draft", "submit-version", "submit-current"


def load(toml: str) -> None:
    """Fill the form from TOML. Raises StudyError."""
    _begin(from_study(study_from_toml(toml)))


def _begin(values: FormValues) -> None:
    """New keys for every widget: they start from these values and forget the old ones."""
    st.session_state[_DRAFT] = st.session_state[_CURRENT] = values
    st.session_state[_VERSION] = st.session_state.get(_VERSION, 0) + 1


def ensure_draft() -> None:
    """The demo study at first; what was typed, when the visitor comes back from another page."""
    if _DRAFT not in st.session_state:
        load(DEMO_FILE.read_text(encoding="utf-8"))
    elif _key("name") not in st.session_state:
        _begin(st.session_state[_CURRENT])


def edit(problems: list[Problem]) -> FormValues:
    """Draw the form, each problem beside its field, and return what it holds now."""
    draft: FormValues = st.session_state[_DRAFT]
    fields = _study_fields(draft, problems)
    arms = _table("arms", "Arms", _arm_columns(), draft.arms, problems)
    left, right = st.columns(2, gap="medium")
    with left:
        workloads = _table("workloads", "Workloads", _workload_columns(), draft.workloads, problems)
    with right:
        loads = _table("loads", "Loads", _load_columns(), draft.loads, problems)
    fields |= _more_fields(draft, problems)
    values = FormValues(fields, arms, workloads, loads)
    st.session_state[_CURRENT] = values
    return values


def _key(field: str) -> str:
    return f"submit-{st.session_state[_VERSION]}-{field}"


def _study_fields(draft: FormValues, problems: list[Problem]) -> dict[str, Any]:
    name, target, repeats, order, endpoint = st.columns([3, 2.6, 1.2, 1.8, 1.6])
    with name:
        fields: dict[str, Any] = {"name": _field("name", "Name", draft, problems, st.text_input)}
    with target:
        said = "`reference` is the model this project ships; else a folder on the worker or a hub name."
        fields["target"] = _field("target", "Target model", draft, problems, st.text_input, help=said)
    with repeats:
        fields["repeats"] = _field("repeats", "Repeats", draft, problems, st.number_input, step=1)
    with order:
        said = (
            "Interleaved (A B B A) keeps a machine that warms up from favouring one arm; it starts engines more often."
        )
        fields["order"] = _choice("order", "Order", ["interleaved", "fewest_launches"], draft, problems, said=said)
    with endpoint:
        fields["endpoint"] = _choice("endpoint", "Endpoint", ["completions", "chat"], draft, problems)
    return fields


def _choice(
    field: str, label: str, options: list[str], draft: FormValues, problems: list[Problem], *, said: str | None = None
) -> str:
    index = options.index(draft.fields[field])
    chosen = st.selectbox(label, options, index, _spaced, key=_key(field), help=said)
    _say(study_problems.of_field(problems, field))
    return chosen


def _spaced(option: str) -> str:
    return option.replace("_", " ")


def _more_fields(draft: FormValues, problems: list[Problem]) -> dict[str, Any]:
    """What most studies leave as it is, folded away until something in it is wrong."""
    names = [name for name in FIELDS if "." in name or name in ("seed", "price_usd_per_hour", "engine_flags")]
    wrong = any(study_problems.of_field(problems, name) for name in names)
    fields: dict[str, Any] = {}
    with st.expander("Sampling, service level, price and engine flags", expanded=wrong, icon=":material/tune:"):
        rows = (
            (
                ("sampling.temperature", "Temperature", 0.1, "0 is greedy"),
                ("sampling.top_p", "Top p", 0.05, "Nucleus sampling; 1 leaves all tokens in"),
                ("sampling.seed", "Sampling seed", 1, "Sent with every request"),
                ("seed", "Order seed", 1, "Which prompts, and in which order"),
            ),
            (
                ("slo.ttft_ms", "TTFT bound (ms)", 50.0, "A request slower than this is not good; empty: no bound"),
                ("slo.tpot_ms", "TPOT bound (ms)", 5.0, "Per output token; empty: no bound"),
                ("slo.e2e_ms", "Latency bound (ms)", 500.0, "Whole request; empty: no bound"),
                ("price_usd_per_hour", "Price (USD per hour)", 0.1, "Of the whole machine; empty: no cost figures"),
            ),
        )
        for row in rows:
            for column, (field, label, step, said) in zip(st.columns(4), row, strict=True):
                with column:
                    fields[field] = _field(field, label, draft, problems, st.number_input, step=step, help=said)
        label = "Engine flags of every arm (TOML, one a line)"
        fields["engine_flags"] = _field("engine_flags", label, draft, problems, st.text_area, height=120)
    return fields


def _field(
    field: str, label: str, draft: FormValues, problems: list[Problem], widget: Callable[..., Any], **options: Any
) -> Any:
    value = draft.fields[field]
    if widget is st.number_input and isinstance(options["step"], float) and value is not None:
        value = float(value)
    given = widget(label, value=value, key=_key(field), **options)
    _say(study_problems.of_field(problems, field))
    return given


def _table(
    table: str, title: str, columns: dict[str, Any], frame: pd.DataFrame, problems: list[Problem]
) -> pd.DataFrame:
    st.markdown(f"**{title}**")
    edited: pd.DataFrame = st.data_editor(
        frame,
        num_rows="dynamic",
        hide_index=True,
        column_config=columns,
        placeholder="",
        key=_key(table),
        alt=f"{title} of the study",
    )
    _say(study_problems.of_table(problems, table))
    return edited.reset_index(drop=True)


def _say(sentences: list[str]) -> None:
    for sentence in sentences:
        st.markdown(f":red[:material/error: {literal(sentence)}]")


def _arm_columns() -> dict[str, Any]:
    text, number = st.column_config.TextColumn, st.column_config.NumberColumn
    methods = [NO_SPECULATION, *METHODS]
    return {
        "name": text("Name", width=135),
        "baseline": st.column_config.CheckboxColumn("Baseline", default=False, width=88, help="One arm only"),
        "engine": text("Engine", default="vllm", width=78),
        "method": st.column_config.SelectboxColumn("Method", options=methods, default=NO_SPECULATION, width=100),
        "draft_model": text("Draft model", help="A folder or hub name; none for n-gram", width=125),
        "k": number("k", help="Speculative tokens a round", step=1, width=50),
        "lookup_min": number("n min", help="n-gram only: shortest match (prompt_lookup_min)", step=1, width=76),
        "lookup_max": number("n max", help="n-gram only: longest match (prompt_lookup_max)", step=1, width=76),
        "flags": text("Flags", help="Of this arm, in TOML, like max-num-seqs = 8, enforce-eager = true", width=110),
    }


def _workload_columns() -> dict[str, Any]:
    text, number = st.column_config.TextColumn, st.column_config.NumberColumn
    ignore_eos = "Write on past the end of the text, to the full length"
    return {
        "dataset": text("Dataset", default="reference", help="`reference`, or a JSONL file on the worker", width=100),
        "category": text("Category", help="Empty: all of them", width=90),
        "output_tokens": number("Output tokens", default=64, step=1, width=105),
        "ignore_eos": st.column_config.CheckboxColumn("No EOS", default=True, help=ignore_eos, width=80),
    }


def _load_columns() -> dict[str, Any]:
    number = st.column_config.NumberColumn
    return {
        "max_concurrency": number("Concurrency", step=1, help="Requests in flight at most", width=108),
        "num_prompts": number("Prompts", step=1, width=85),
        "request_rate_rps": number("Rate (1/s)", help="Requests sent a second; empty: no waiting", width=92),
        "burstiness": number("Burstiness", default=1.0, help="1 is Poisson, less is burstier; needs a rate", width=95),
    }
