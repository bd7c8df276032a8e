"""The provenance of a view's numbers: target, hardware, engine, study and date, for whatever leaves the lab."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from lab.errors import UserError
from webapp.shared import published_data, url_params
from webapp.shared.study_picker import REFERENCE_TARGET

#: Values of one kind that are named; the others are only counted.
_MOST_NAMED = 2
#: Studies that are read for it; more are only counted.
_MOST_READ = 24
#: For readers who do not know the model that this project ships.
REFERENCE = "reference model: not a useful model, only the shape of its curves carries over"


def of_view(parameters: Mapping[str, Sequence[str]], rows: pd.DataFrame | None = None) -> str:
    """Return `gpt-oss-120b · RTX PRO 6000 · vllm 0.32.0 · demo, 2026-11-21` for the jobs of the rows that are shown, or
    else for the studies that a link names; empty without either.
    """
    if rows is None or "job_id" not in rows:
        return _of_link(parameters)
    is_published = pd.Series(data=False, index=rows.index)
    if {"origin", "source"} <= set(rows.columns):  # the answer of a query may have any columns
        is_published = rows["origin"].eq("published")
    jobs = rows.loc[~is_published, "job_id"].dropna().astype(str).unique()
    parts = [of_jobs(jobs) if len(jobs) <= _MOST_READ else f"{len(jobs)} studies"]
    parts += [f"published by {_named(rows.loc[is_published, 'source'])}"] if is_published.any() else []
    return " · ".join(part for part in parts if part) or _of_link(parameters)


def _of_link(parameters: Mapping[str, Sequence[str]]) -> str:
    params = (url_params.JOB, url_params.WITH, url_params.SLICED["study"])
    labels = [label for param in params for label in parameters.get(param.key, ())]
    if run := url_params.first(parameters, url_params.RUN):
        found = published_data.run(run)
        labels += [] if found.empty else [str(found.iloc[0]["job_id"])]
    return of_jobs(map(url_params.job_id_of, labels))


def of_jobs(jobs: Iterable[str]) -> str:
    """Return `of_view` for studies by their jobs' ids; unknown ones are left out."""
    try:
        frames = [published_data.results(job) for job in dict.fromkeys(jobs)]
    except UserError:
        return ""
    frames = [frame for frame in frames if not frame.empty]
    if not frames:
        return ""
    runs = pd.concat(frames)
    engines = (runs["engine"].fillna("") + " " + runs["engine_version"].fillna("")).str.strip()
    days = pd.to_datetime(runs["started_at"]).dropna()
    measured = "" if days.empty else f", {days.min():%Y-%m-%d}"
    parts = [_named(runs["target"]), _named(runs["hardware"]), _named(engines)]
    parts += [f"{_named(runs['study_name'])}{measured}"]
    parts += [REFERENCE] if set(runs["target"].dropna()) == {REFERENCE_TARGET} else []
    return " · ".join(part for part in parts if part)


def _named(column: pd.Series) -> str:
    values = sorted({str(value) for value in column.dropna() if str(value)})
    more = f" and {len(values) - _MOST_NAMED} more" if len(values) > _MOST_NAMED else ""
    return ", ".join(values[:_MOST_NAMED]) + more
