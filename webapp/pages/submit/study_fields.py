"""The form's fields of the study itself, and its rows of workloads and loads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from lab.metrics.number_format import percentage
from lab.quality.scores import SCORES
from lab.study import Load, Study, Workload
from lab.study.load import PATTERN_NAMES, PATTERNS, SWEEP, SWEEP_CONCURRENCIES, expand_pattern
from lab.study.model_base import Input
from lab.study.workload import RANDOM_LENGTHS
from webapp.pages.submit import form_options, inputs
from webapp.pages.submit.inputs import Fields, ShownProblem, Width, row_container
from webapp.pages.submit.values import (
    BUDGET,
    TIMED,
    Row,
    UnreadableError,
    field_of,
    flags_text,
    read_flags,
    row_of,
)
from webapp.shared.text import count, literal

#: In pixels: two fields side by side whose labels take one line.
_MIN_FIELDS_WIDTH = 400
FIRST = ("name", "target", "repeats", BUDGET)
#: Fields that most studies leave at their defaults, four side by side.
MORE = (
    ("order", "repeats_per_launch", "fresh_starts", "endpoint"),
    ("alone", "spread", "hardware"),
    ("sampling.temperature", "sampling.top_p", "sampling.seed", "seed"),
    ("slo.ttft_ms", "slo.tpot_ms", "slo.e2e_ms", "price_usd_per_hour"),
)
TEXT_AREAS = ("engine_flags", "tune")
_AREA_HEIGHT = 130
#: What chat templates call the switch for thinking, as keys of vLLM's flag.
THINKING_FLAGS = tuple(f"default-chat-template-kwargs.{name}" for name in ("enable_thinking", "thinking"))
_THINKING = {"": "as the model's template says", "true": "on", "false": "off"}
_PARSER_FLAG = "reasoning-parser"

_LENGTH_WIDTH = 122
_WORKLOAD_COLUMNS: Mapping[str, Width] = {
    "dataset": "stretch",
    "category": "stretch",
    "input_tokens": _LENGTH_WIDTH,
    "output_tokens": _LENGTH_WIDTH,
}
#: The length of a pause that was just chosen, in seconds.
_FIRST_THINK_S = 2.0
#: In pixels, the widest label with its question mark.
_LOAD_WIDTH = 106
_LOAD_COLUMNS: Mapping[str, Width] = {
    "max_concurrency": _LOAD_WIDTH,
    "num_prompts": _LOAD_WIDTH,
    "arrivals": "stretch",  # which is summed up here, and changed among the details
}
_LOAD_DETAILS = ("label", "request_rate_rps", "burstiness", "arrivals", "duration_s", "stop_on_error_share", "find")
#: The choice that continues the series of loads.
_NEXT_LOAD = "next"
_SEARCH = ("slo_share", "find_from", "find_to")


def edit_first(initial: Row, problems: Sequence[ShownProblem]) -> dict[str, Any]:
    fields = Fields(Study, initial, problems=problems)
    with st.grid(2, min_column_width=_MIN_FIELDS_WIDTH, gap="small"):
        columns = (*st.columns(2), *st.columns([2, 3]))
    entered = {}
    for path, column in zip(FIRST, columns, strict=True):
        with column:
            entered[path] = fields.draw(path, disabled=path == "repeats" and bool(fields.value(BUDGET)))
    return entered


def edit_more(initial: Row, problems: Sequence[ShownProblem]) -> dict[str, Any]:
    """Draw rarely changed fields in an expander, open when one of them has a problem; return their values."""
    fields = Fields(Study, initial, problems=problems)
    paths = (*(path for row in MORE for path in row), *TEXT_AREAS)
    wrong = {problem.anchor for problem in problems} & {inputs.anchor(path) for path in paths}
    opened = bool(initial["tune"] or wrong)
    expander = st.expander(
        "Order, hardware, sampling, thinking, SLO, price and engine flags",
        expanded=opened,
        icon=":material/tune:",
        key=fields.key(f"more-{opened}"),
        on_change="rerun",
    )
    if expander.open:
        with expander:
            for row in MORE:
                for path, column in zip(row, st.columns(4), strict=False):
                    with column:
                        fields.draw(path)
            _show_thinking(fields)
            for path, column in zip(TEXT_AREAS, st.columns(2), strict=True):
                with column:
                    fields.draw(path, height=_AREA_HEIGHT)
    return fields.values(*paths)


def _readable_flags(fields: Fields) -> dict[str, Any] | None:
    try:
        return read_flags(fields.value("engine_flags") or "")
    except UnreadableError:
        return None


def _show_thinking(fields: Fields) -> None:
    """Draw two fields for engine flags: whether the model thinks, and how the server separates its reasoning."""
    flags = _readable_flags(fields)
    if flags is None:
        return
    switch = flags.get(THINKING_FLAGS[0])
    fields.set_value("thinking", switch if switch in _THINKING else "")
    fields.set_value(_PARSER_FLAG, str(flags.get(_PARSER_FLAG, "")))

    def take(field: str, *names: str) -> None:
        current = _readable_flags(fields)  # not as drawn: another field may have changed them in the same click
        if current is not None:
            changed = current | dict.fromkeys(names, fields.value(field) or None)
            text = flags_text({name: value for name, value in changed.items() if value is not None})
            fields.set_value("engine_flags", text)

    first, second, _ = st.columns([1, 1, 2])
    first.selectbox(
        "Thinking",
        list(_THINKING),
        format_func=_THINKING.__getitem__,
        key=fields.key("thinking"),
        on_change=take,
        args=("thinking", *THINKING_FLAGS),
        help="A switch of the model's chat template, for vLLM and the chat endpoint: it becomes two of the flags "
        "below. Reasoning and answer tokens are always counted separately.",
    )
    second.text_input(
        "Reasoning parser",
        key=fields.key(_PARSER_FLAG),
        on_change=take,
        args=(_PARSER_FLAG, _PARSER_FLAG),
        placeholder="none, or like qwen3",
        help="The server then sends reasoning apart from the answer. Without it <think> tags in the text are read.",
    )


def edit_workloads(problems: Sequence[ShownProblem]) -> tuple[Row, ...]:
    with st.container(border=True, gap="xsmall", height="stretch"):
        st.markdown("**Workloads** :gray[– the prompts]")
        inputs.show_skip("workloads", "Skip workloads and loads", to="submit")
        rows = tuple(inputs.edit_rows("workloads", _WORKLOAD_COLUMNS, _workload, problems).values())
        new = {**(rows[-1] if rows else row_of(Workload, Workload())), "category": None}
        inputs.show_add_button("workloads", "Add a workload", new)
        inputs.show_problems(problems, inputs.anchor("workloads"))
    return rows


def _workload(fields: Fields) -> dict[str, Any]:
    row: dict[str, Any] = {}
    with row_container():
        row["dataset"] = fields.draw(
            "dataset",
            offered=form_options.dataset_labels(),
            in_row=True,
            on_change=_drop_lacking_category,
            args=(fields,),
        )
        dataset = str(row["dataset"])
        categories = form_options.categories(dataset)
        row["category"] = fields.draw("category", offered=dict(zip(categories, categories, strict=True)), in_row=True)
        fixed = RANDOM_LENGTHS.get(dataset, (None, None))
        has_own_lengths = not form_options.is_generated(dataset) and fields.value("input_tokens") is None
        for path, length in zip(("input_tokens", "output_tokens"), fixed, strict=True):
            if path == "input_tokens" and has_own_lengths:
                fields.show_disabled(path, _LENGTH_WIDTH, "dataset's own")
                row[path] = None
            elif length is None:
                row[path] = fields.draw(path, in_row=True, width=_LENGTH_WIDTH)
            else:
                fields.show_disabled(path, _LENGTH_WIDTH, f"{length}")
                row[path] = length
        if details := fields.details("Sessions, scores, output lengths and shared prefixes"):
            with details:
                _show_workload_details(fields)
                fields.show_remove_detail("workload")
        fields.show_remove_button("workload")
    row = fields.values(*row_of(Workload, None)) | row
    if summary := workload_summary(row):
        st.caption(literal(summary))
    return row


def _drop_lacking_category(fields: Fields) -> None:
    """Clear a category that the chosen dataset does not have."""
    if fields.value("category") not in form_options.categories(str(fields.value("dataset"))):
        fields.set_value("category", None)


def _show_workload_details(fields: Fields) -> None:
    if fields.draw("sessions.answers", optional=True, placeholder="first turns alone"):
        fields.draw("sessions.max_turns")
        if fields.draw("sessions.think") in TIMED:
            fields.draw("sessions.think_s", first=_FIRST_THINK_S)
        fields.draw("sessions.reasoning_field")
    fields.draw("own_output_lengths")
    fields.draw("ignore_eos")
    fields.draw("score", offered={name: f"{name}: {about}" for name, about in SCORES.items()})
    fields.draw("prefix_tokens")
    fields.draw("num_prefixes")


def workload_summary(row: Row) -> str:
    """Summarise what the row's details change: `sessions with the model's own answers · scored: number`."""
    parts = []
    if answers := row.get("sessions.answers"):
        turns, think, think_s = (row.get(f"sessions.{name}") for name in ("max_turns", "think", "think_s"))
        info, _ = field_of(Workload, "sessions.answers")
        called = next(of for of in info.metadata if isinstance(of, Input)).choices[answers]
        parts.append(f"sessions with {called}")
        parts += [f"at most {count(turns, 'turn')}"] if turns else []
        timed = think in TIMED and think_s
        parts += [f"pauses of {think_s:g} s" + (" in the mean" if think == "exponential" else "")] if timed else []
        parts += ["no pauses"] if think == "none" else []
    parts += ["each prompt's own output length"] if row.get("own_output_lengths") else []
    parts += ["answers may end early"] if row.get("ignore_eos") is False else []
    parts += [f"scored: {row['score']}"] if row.get("score") else []
    return " · ".join(parts)


def edit_loads(problems: Sequence[ShownProblem]) -> tuple[Row, ...]:
    with st.container(border=True, gap="xsmall", height="stretch"):
        st.markdown("**Loads** :gray[– the access patterns]")
        rows = tuple(inputs.edit_rows("loads", _LOAD_COLUMNS, _load, problems).values())
        following = _next_load(rows)
        st.menu_button(
            "Add a load",
            [_NEXT_LOAD, *PATTERN_NAMES],
            icon=":material/add:",
            type="tertiary",
            format_func=lambda name: pattern_label(name, following),
            help="The next of the series, or a named access pattern after published experiments",
            on_click=_add_load,
            args=(following,),
            key="add-load",
        )
        inputs.show_problems(problems, inputs.anchor("loads"))
    return rows


def _next_load(rows: Sequence[Row]) -> Row:
    """Return a load that continues the series: with twice the rate of the last one, or else twice its concurrency."""
    first = row_of(Load, Load(max_concurrency=1, num_prompts=16))
    last = rows[-1] if rows else {}
    concurrency, prompts, rate = (last.get(name) for name in ("max_concurrency", "num_prompts", "request_rate_rps"))
    if not concurrency or not prompts or last.get("find"):
        return first
    if rate:
        return {**first, **last, "label": None, "request_rate_rps": 2 * rate}
    more = {"max_concurrency": 2 * concurrency, "num_prompts": max(prompts, 2 * concurrency)}
    return {**first, **last, "label": None, **more}


def _add_load(following: Row) -> None:
    if name := st.session_state["add-load"]:
        inputs.add("loads", *([following] if name == _NEXT_LOAD else expand_pattern({"pattern": name})[0]))


def pattern_label(pattern: str, following: Row) -> str:
    """Describe a pattern: `burstiness_high: 64 requests/s, burstiness 0.2, 32 at once, 256 prompts`. `following`: the
    next load of the series.
    """
    if pattern == SWEEP:
        return f"{pattern}: {', '.join(map(str, SWEEP_CONCURRENCIES))} at once"
    load = following if pattern == _NEXT_LOAD else PATTERNS[pattern]
    rate = f"{of:g} requests/s, " if (of := load.get("request_rate_rps")) else ""
    burstiness = f"burstiness {of:g}, " if rate and (of := load.get("burstiness")) is not None else ""
    return f"{pattern}: {rate}{burstiness}{load['max_concurrency']} at once, {load['num_prompts']} prompts"


def _load(fields: Fields) -> dict[str, Any]:
    with row_container():
        row = {path: fields.draw(path, in_row=True, width=_LOAD_WIDTH) for path in ("max_concurrency", "num_prompts")}
        summary = st.container()
        if details := fields.details("Name, rate, when requests are sent, what ends the load, and whether it searches"):
            with details:
                _show_load_details(fields)
                fields.show_remove_detail("load")
        fields.show_remove_button("load")
    row |= fields.values(*_LOAD_DETAILS)
    row |= fields.values(*_SEARCH) if row["find"] else {}
    row |= fields.values("ramp_to_rps") if row["arrivals"] == "ramp" else {}
    summary.caption(literal(load_summary(row)))
    return row


def _show_load_details(fields: Fields) -> None:
    fields.draw("label")
    fields.draw("request_rate_rps")
    fields.draw("burstiness")
    if fields.draw("arrivals") == "ramp":
        fields.draw("ramp_to_rps")
    fields.draw("duration_s")
    fields.draw("stop_on_error_share")
    if fields.draw("find"):
        for path in _SEARCH:
            fields.draw(path)


def load_summary(row: Row) -> str:
    """Summarise the row's details: `bursts · 2 requests/s, burstiness 4 · ends after 60 s`."""
    rate, ends_s, failed = (row.get(name) for name in ("request_rate_rps", "duration_s", "stop_on_error_share"))
    sent = "" if row.get("find") == "rate" else "each when another has ended"
    sent = sent if rate is None else f"{rate:g} requests/s"
    if row.get("arrivals") == "trace":
        sent = "as recorded in the dataset"
    elif row.get("arrivals") == "ramp" and rate is not None and (to := row.get("ramp_to_rps")):
        sent = f"{rate:g} to {to:g} requests/s"
    elif row.get("arrivals") == "constant":
        sent += ", at a constant rate"
    if (burstiness := row.get("burstiness")) not in (None, 1.0):
        sent += f", burstiness {burstiness:g}"
    parts = [row.get("label"), sent]
    parts += [f"searches for the greatest {row['find']} within the SLO"] if row.get("find") else []
    parts += [f"ends after {ends_s:g} s"] if ends_s else []
    parts += [f"stops if over {percentage(failed)} fail"] if failed else []
    return " · ".join(filter(None, parts))
