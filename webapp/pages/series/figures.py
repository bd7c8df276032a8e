"""The figures of the Series page, drawn from its link's parameters alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from jobs.series import store
from jobs.series.store import Night
from lab.metrics.catalogue import BY_NAME
from lab.metrics.number_format import number, ratio
from webapp.charts import series
from webapp.charts.panels import Figure
from webapp.charts.theme import Mode
from webapp.shared import published_data, url_params
from webapp.shared.text import moment

_NUMBERS = (
    *("speedup", "low", "high", "acceptance_length", "arm_tok_per_s", "baseline_tok_per_s"),
    *("predicted_low", "predicted_high"),
)


def figures(parameters: Mapping[str, Sequence[str]], mode: Mode) -> list[Figure]:
    """Draw a series. Raises KeyError for parameters that name none, UserError for one that does not exist."""
    name = parameters[url_params.SERIES.key][0]
    of = store.named(published_data.engine(), name)
    rows = table(store.nights(published_data.engine(), name))
    if rows.empty:
        return []
    notes = pd.DataFrame(store.annotations_of(published_data.engine(), name), columns=["due_at", "text"])
    note = (
        "bars: 95 % interval of the night; band: 95 % of nights as predicted; triangles: confirmed changes; "
        "hollow: not confirmed; ✕: no value"
    )
    speedup = series.speedups(rows, notes, mode)
    title = f"{of.arm} against the baseline, {of.study}"
    drawn = [Figure("nights", title, note, (), (("", speedup),), rows, least_width=800)]
    below = [
        (column, title, panel(rows, mode))
        for column, title, panel in (
            ("acceptance_length", BY_NAME["acceptance_length"].label, series.lengths),
            ("baseline_tok_per_s", "The baseline's own speed", series.rates),
        )
        if rows[column].notna().any()
    ]
    return drawn + [Figure(key, title, "by night", (), (("", chart),), rows) for key, title, chart in below]


def table(nights: Sequence[Night]) -> pd.DataFrame:
    """Return a row per night, without re-measurements, as the charts draw it."""
    rows = pd.DataFrame(
        [vars(night) for night in nights if night.again_of is None], columns=list(Night.__annotations__)
    )
    rows = rows.astype(dict.fromkeys(_NUMBERS, float))
    intervals = zip(rows["speedup"], rows["low"], rows["high"], strict=True)
    versions = rows["engine_version"].ffill()
    return rows.assign(
        due=rows["due_at"].map(moment),
        written=[ratio(*values) for values in intervals],
        length=rows["acceptance_length"].map(number),
        word=rows["speedup_finding"].fillna(""),
        acceptance_word=rows["acceptance_finding"].fillna(""),
        why=[
            f"{state}: {note}" if isinstance(note, str) else state
            for state, note in zip(rows["state"], rows["note"], strict=True)
        ],
        is_new_version=rows["engine_version"].notna() & (versions != versions.shift()),
    )
