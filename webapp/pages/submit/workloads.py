"""The form's workloads: which prompts, and how much is generated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from lab.study.workload import RANDOM_LENGTHS
from webapp.pages.submit import form_line, form_options, row_widgets, validation_messages
from webapp.pages.submit.form_line import Label, Line
from webapp.pages.submit.form_model import Row
from webapp.pages.submit.validation_messages import Problem

TABLE = "workloads"
_WIDTH = 122
_LABELS: tuple[Label, ...] = (
    ("Dataset", "stretch", "By name, or the path of a JSONL file on the worker; the list below says which are here"),
    ("Category", "stretch", "One category of the dataset; empty: all of them"),
    (
        "Input tokens",
        _WIDTH,
        "Length of the prompts, for datasets that are made and not read (random, prefix_repetition)",
    ),
    ("Output tokens", _WIDTH, "How many are asked for; at most so many where each prompt asks for its own length"),
)
_DETAILS = ("own_output_lengths", "ignore_eos", "prefix_tokens", "num_prefixes")
_NEW = {"dataset": "reference", "output_tokens": 64, "ignore_eos": True}


def edit(problems: Sequence[Problem]) -> tuple[Row, ...]:
    rows = []
    with st.container(border=True, gap="xsmall", height="stretch"):
        st.markdown("**Workloads** :gray[– what is asked]")
        form_line.header(TABLE, _LABELS)
        for place, (number, initial) in enumerate(row_widgets.rows(TABLE)):
            rows.append(_row(Line(TABLE, number, initial)))
            row_widgets.say_row(problems, TABLE, place)
        st.button(
            "Add a workload",
            icon=":material/add:",
            type="tertiary",
            on_click=row_widgets.add,
            args=(TABLE, {**_NEW, **(rows[-1] if rows else {}), "category": None}),
            key="add-workload",
        )
        row_widgets.say(validation_messages.of_table(problems, TABLE))
    return tuple(rows)


def _row(line: Line) -> Row:
    row: dict[str, Any] = {}
    with form_line.beside():
        row["dataset"] = _dataset(line)
        row["category"] = _category(line, str(row["dataset"]))
        lengths = RANDOM_LENGTHS.get(str(row["dataset"]))
        row["input_tokens"] = _length(line, "input_tokens", "Input tokens", lengths and lengths[0])
        row["output_tokens"] = _length(line, "output_tokens", "Output tokens", lengths and lengths[1])
        if opened := form_line.details(line, "How long answers become, and shared beginnings of prompts"):
            with opened:
                _show_details(line)
        form_line.remove_button(line, "workload")
    row |= line.within(*_DETAILS)
    return row


def _dataset(line: Line) -> str | None:
    labels = form_options.dataset_labels()
    return line.choice(
        "dataset",
        "Dataset",
        list(labels),
        format_func=lambda name: labels.get(name, name),
        accept_new_options=True,
    )


def _category(line: Line, dataset: str) -> str | None:
    return line.choice(
        "category", "Category", form_options.categories(dataset), accept_new_options=True, placeholder="all"
    )


def _length(line: Line, column: str, label: str, fixed: int | None) -> int | None:
    """A number to fill in, or the one that the dataset's name says."""
    if fixed is None:
        return line.count(column, label, placeholder="its own", width=_WIDTH)
    line.blank(column, label, _WIDTH, f"{fixed}")
    return fixed


def _show_details(line: Line) -> None:
    line.toggle(
        "own_output_lengths",
        "Each prompt asks for its own output length",
        otherwise=False,
        help="As its dataset records it, and for the output tokens of this row at most",
    )
    line.toggle(
        "ignore_eos",
        "Write on past the end of the text",
        otherwise=True,
        help="To the full length (ignore_eos), so that every arm writes as much",
    )
    line.count("prefix_tokens", "Shared beginning (tokens)", inside=True, placeholder="none")
    line.count("num_prefixes", "How many beginnings", inside=True, placeholder="none")
