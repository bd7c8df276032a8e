"""The form's workloads: the prompts, and how many tokens are generated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from lab.quality.scores import SCORES
from lab.study.workload import RANDOM_LENGTHS
from webapp.pages.submit import form_options, row_widgets, validation_messages
from webapp.pages.submit.form_model import TIMED, Row
from webapp.pages.submit.row_widgets import Label, RowWidgets, row_container
from webapp.pages.submit.validation_messages import Problem
from webapp.shared.text import count, literal

TABLE = "workloads"
_WIDTH = 122
_LABELS: tuple[Label, ...] = (
    (
        "Dataset",
        "stretch",
        "A name, or the path of a JSONL file on the worker; the datasets on this host are listed below",
    ),
    ("Category", "stretch", "One category of the dataset; empty: all of them"),
    (
        "Input tokens",
        _WIDTH,
        "Prompt length of synthetic datasets (random, prefix_repetition)",
    ),
    ("Output tokens", _WIDTH, "Requested output length; an upper limit if each prompt has an output length of its own"),
)
_DETAILS = ("own_output_lengths", "ignore_eos", "score", "prefix_tokens", "num_prefixes")
_SESSIONS = ("session_answers", "max_turns", "think", "think_s")
_ANSWERS = {"own": "the model's own answers", "recorded": "the recorded answers"}
_THINK = {
    "recorded": "as the dataset records it",
    "none": "none",
    "fixed": "the same each time",
    "exponential": "drawn, exponential",
}
#: Of a pause that was just chosen, in seconds.
_FIRST_THINK_S = 2.0
_NEW = {"dataset": "reference", "output_tokens": 64, "ignore_eos": True}


def edit(problems: Sequence[Problem]) -> tuple[Row, ...]:
    rows = []
    with st.container(border=True, gap="xsmall", height="stretch"):
        st.markdown("**Workloads** :gray[– the prompts]")
        row_widgets.show_header(TABLE, _LABELS)
        for place, (number, initial) in enumerate(row_widgets.rows(TABLE)):
            rows.append(_row(RowWidgets(TABLE, number, initial)))
            row_widgets.show_row_problems(problems, TABLE, place)
        st.button(
            "Add a workload",
            icon=":material/add:",
            type="tertiary",
            on_click=row_widgets.add,
            args=(TABLE, {**_NEW, **(rows[-1] if rows else {}), "category": None}),
            key="add-workload",
        )
        row_widgets.show_problems(validation_messages.of_table(problems, TABLE), validation_messages.anchor(TABLE))
    return tuple(rows)


def _row(widgets: RowWidgets) -> Row:
    row: dict[str, Any] = {}
    with row_container():
        row["dataset"] = _dataset(widgets)
        row["category"] = _category(widgets, str(row["dataset"]))
        lengths = RANDOM_LENGTHS.get(str(row["dataset"]))
        row["input_tokens"] = _length(widgets, "input_tokens", "Input tokens", lengths and lengths[0])
        row["output_tokens"] = _length(widgets, "output_tokens", "Output tokens", lengths and lengths[1])
        if details := widgets.details("Sessions, scores, output lengths and shared prefixes"):
            with details:
                _show_details(widgets)
        widgets.show_remove_button("workload")
    row |= widgets.hidden_values(*_DETAILS, *_SESSIONS)
    if summary := details_summary(row):
        st.caption(literal(summary))
    return row


def details_summary(row: Row) -> str:
    """What the row's closed details change, like `sessions with the model's own answers · scored: number`."""
    parts = []
    if answers := row.get("session_answers"):
        turns, think, think_s = row.get("max_turns"), row.get("think"), row.get("think_s")
        parts.append(f"sessions with {_ANSWERS[answers]}")
        parts += [f"at most {count(turns, 'turn')}"] if turns else []
        timed = think in TIMED and think_s
        parts += [f"pauses of {think_s:g} s" + (" in the mean" if think == "exponential" else "")] if timed else []
        parts += ["no pauses"] if think == "none" else []
    parts += ["each prompt's own output length"] if row.get("own_output_lengths") else []
    parts += ["answers may end early"] if row.get("ignore_eos") is False else []
    parts += [f"scored: {row['score']}"] if row.get("score") else []
    return " · ".join(parts)


def _dataset(widgets: RowWidgets) -> str | None:
    labels = form_options.dataset_labels()
    return widgets.choice(
        "dataset",
        "Dataset",
        list(labels),
        format_func=lambda name: labels.get(name, name),
        accept_new_options=True,
        required=True,
        on_change=_drop_lacking_category,
        args=(widgets,),
    )


def _drop_lacking_category(widgets: RowWidgets) -> None:
    """After another dataset was chosen: forget a category that it does not have."""
    if widgets.value("category") not in form_options.categories(str(widgets.value("dataset"))):
        widgets.set_value("category", None)


def _category(widgets: RowWidgets, dataset: str) -> str | None:
    return widgets.choice(
        "category", "Category", form_options.categories(dataset), accept_new_options=True, placeholder="all"
    )


def _length(widgets: RowWidgets, column: str, label: str, fixed: int | None) -> int | None:
    """A number to enter, or the one that the dataset's name fixes."""
    if fixed is None:
        return widgets.count(column, label, placeholder="dataset's own", width=_WIDTH)
    widgets.placeholder(column, label, _WIDTH, f"{fixed}")
    return fixed


def _show_details(widgets: RowWidgets) -> None:
    _show_sessions(widgets)
    widgets.toggle(
        "own_output_lengths",
        "Use each prompt's own output length",
        default=False,
        help="As recorded in the dataset, up to the output tokens of this row",
    )
    widgets.toggle(
        "ignore_eos",
        "Ignore the end-of-text token",
        default=True,
        help="Generate to the full length (ignore_eos), so that every arm generates equally much",
    )
    widgets.choice(
        "score",
        "Score the answers",
        list(SCORES),
        format_func=lambda name: f"{name}: {SCORES[name]}" if name in SCORES else name,
        placeholder="not at all",
        help="Against `expected` of the dataset's rows; Compare then says whether a draft makes answers worse",
        inside=True,
    )
    widgets.count("prefix_tokens", "Shared prefix (tokens)", inside=True, placeholder="none")
    widgets.count("num_prefixes", "Number of prefixes", inside=True, placeholder="none")


def _show_sessions(widgets: RowWidgets) -> None:
    """Whether conversations are replayed turn by turn, and how."""
    answers = widgets.choice(
        "session_answers",
        "Replay whole sessions, turn by turn, with",
        list(_ANSWERS),
        format_func=lambda name: _ANSWERS.get(name, name),
        placeholder="first turns alone",
        help="Concurrency and prompts of the loads then count sessions",
        inside=True,
    )
    if answers is None:
        return
    widgets.count("max_turns", "Turns at most", inside=True, placeholder="all", min_value=1)
    think = widgets.choice(
        "think",
        "Pause before each later turn",
        list(_THINK),
        format_func=lambda name: _THINK.get(name, name),
        placeholder=_THINK["recorded"],
        inside=True,
    )
    if think in TIMED:
        if widgets.value("think_s") is None:
            widgets.set_value("think_s", _FIRST_THINK_S)
        widgets.number_field("think_s", "Seconds (the mean, if drawn)", inside=True, min_value=0.0)
