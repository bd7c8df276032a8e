"""The figures of the Run page, from its link's parameters alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from webapp.charts import timeline
from webapp.charts.panels import Figure
from webapp.charts.theme import Mode
from webapp.shared import published_data, url_params
from webapp.shared.published_data import cached_figures
from webapp.shared.text import count


@cached_figures
def figures(parameters: Mapping[str, Sequence[str]], mode: Mode) -> list[Figure]:
    """Draw when each request was answered, and the telemetry of each second; figures without rows are left out.

    Raises KeyError without a run, UserError without a warehouse.
    """
    run_id = url_params.job_id_of(parameters[url_params.RUN.key][0])
    return [*_timeline(published_data.requests_of(run_id), mode), *_seconds(published_data.telemetry(run_id), mode)]


def _timeline(requests: pd.DataFrame, mode: Mode) -> list[Figure]:
    if requests["sent_s"].isna().all():
        return []
    shown = timeline.in_lanes(requests)
    note = "one lane per stream; pale: waiting for the first token, full: receiving tokens, orange: failed"
    if len(shown) < int(requests["sent_s"].notna().sum()):
        note += f"; only the first {count(timeline.MOST_REQUESTS, 'request')}"
    rows = shown[list(timeline.DRAWN)]
    return [Figure("timeline", "Requests", note, (), (("", timeline.timeline(shown, mode)),), rows)]


def _seconds(telemetry: pd.DataFrame, mode: Mode) -> list[Figure]:
    metrics = timeline.known(telemetry)
    if not metrics or len(telemetry) < 2:
        return []
    panels = tuple((metric.heading, timeline.second(telemetry, metric, mode)) for metric in metrics)
    note = f"{len(telemetry)} samples of the measured window"
    return [Figure("seconds", "By second", note, (), panels, telemetry)]
