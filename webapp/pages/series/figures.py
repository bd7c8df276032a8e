"""The figures of the Series page, drawn from its link's parameters alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from jobs.series import store
from jobs.series.store import Night
from lab.metrics.catalogue import BY_NAME
from lab.metrics.number_format import number, ratio
from warehouse.queries.point_in_time import seen_as_of
from webapp.charts import series
from webapp.charts.panels import Figure
from webapp.charts.theme import Mode
from webapp.shared import published_data, url_params
from webapp.shared.text import moment

_NUMBERS = (
    *("speedup", "low", "high", "acceptance_length", "arm_tok_per_s", "baseline_tok_per_s"),
    *("predicted_low", "predicted_high"),
)
_NOTE = (
    "bars: 95 % interval of the night; band: 95 % of nights as predicted; triangles: confirmed changes; "
    "hollow: not confirmed; ✕: no value"
)


def figures(parameters: Mapping[str, Sequence[str]], mode: Mode) -> list[Figure]:
    """Draw a series. Raises KeyError if the parameters name no series, UserError if it does not exist."""
    name = parameters[url_params.SERIES.key][0]
    of = store.named(published_data.engine(), name)
    until = seen_as_of()
    nights = store.nights(published_data.engine(), name)
    rows = table([night for night in nights if until is None or night.due_at <= until])
    noted = store.annotations_of(published_data.engine(), name)
    notes = pd.DataFrame([each for each in noted if until is None or each[0] <= until], columns=["due_at", "text"])
    drawn: list[Figure] = []
    for number_, (arm, of_arm) in enumerate(rows.groupby("arm", sort=False), 1):
        suffix = f"-{number_}" if number_ > 1 else ""
        panel = series.speedups(of_arm, notes, mode)
        title = f"{arm} against the baseline, {of.study}"
        drawn.append(Figure(f"nights{suffix}", title, _NOTE, (), (("", panel),), of_arm, least_width=800))
        if of_arm["acceptance_length"].notna().any():
            panel = series.lengths(of_arm, mode)
            title = f"{BY_NAME['acceptance_length'].label} of {arm}"
            drawn.append(Figure(f"acceptance_length{suffix}", title, "by night", (), (("", panel),), of_arm))
    first = rows.drop_duplicates("due_at")
    if first["baseline_tok_per_s"].notna().any():
        title, panel = "The baseline's own speed", series.rates(first, mode)
        drawn.append(Figure("baseline_tok_per_s", title, "by night", (), (("", panel),), first))
    return drawn


def table(nights: Sequence[Night]) -> pd.DataFrame:
    """Return a row per night and arm, without re-measurements, as the charts draw it."""
    rows = pd.DataFrame(
        [vars(night) for night in nights if night.again_of is None], columns=list(Night.__annotations__)
    )
    rows = rows.astype(dict.fromkeys(_NUMBERS, float))
    intervals = zip(rows["speedup"], rows["low"], rows["high"], strict=True)
    versions = rows.groupby("arm")["engine_version"].ffill()
    earlier = versions.groupby(rows["arm"]).shift()
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
        label=rows["label"].fillna(""),
        is_new_version=rows["engine_version"].notna() & (versions != earlier),
    )
