"""When each request of a run waited and was answered, and the telemetry of each second."""

from __future__ import annotations

import heapq

import altair as alt
import pandas as pd

from lab.metrics.catalogue import SAMPLED
from lab.metrics.definition import Metric
from webapp.charts.axes import SHORT
from webapp.charts.marks import number_tooltip, tips, with_written
from webapp.charts.theme import INKS, Mode

#: Two marks each; a browser is slow with more. Longer runs show their first requests.
MOST_REQUESTS = 1_000
_LANE_HEIGHT, _MOST_HEIGHT, _LEAST_HEIGHT = 14, 420, 80
_SECOND_HEIGHT = 150
#: The columns of a request that `timeline` uses.
DRAWN = ("index", "lane", "sent_s", "first_s", "until_s", "ttft_ms", "e2e_ms", "completion_tokens", "error")
_TIME = "Seconds of the measured window"
_FEW = 60  # so few seconds that each is a point


def in_lanes(requests: pd.DataFrame) -> pd.DataFrame:
    """Assign each sent request to the first free lane: as many lanes as requests were in flight at once."""
    sent = requests[requests["sent_s"].notna()].sort_values("sent_s").head(MOST_REQUESTS)
    last_s = float(requests[["sent_s", "end_s"]].max().max()) if len(sent) else 0.0
    ends = sent["end_s"].fillna(last_s)
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    lanes: list[int] = []
    for sent_s, end_s in zip(sent["sent_s"], ends, strict=True):
        while busy and busy[0][0] <= sent_s:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lane = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (float(end_s), lane))
        lanes.append(lane)
    return sent.assign(lane=lanes, until_s=ends, first_s=sent["first_token_s"].fillna(ends))


def timeline(requests: pd.DataFrame, mode: Mode) -> alt.LayerChart:
    """Draw requests: pale while waiting for the first token, then full; orange if failed. `requests`: of `in_lanes`."""
    ink = INKS[mode]
    lanes = int(requests["lane"].max()) + 1 if len(requests) else 1
    height = min(_MOST_HEIGHT, max(_LEAST_HEIGHT, lanes * _LANE_HEIGHT))
    tooltip = tips(
        *(("index:Q", "Request"), ("sent_s:Q", "Sent, s", ".3f")),
        *(number_tooltip("ttft_ms", "TTFT, ms"), number_tooltip("e2e_ms", "E2E, ms")),
        *(("completion_tokens:Q", "Output tokens"), ("error:N", "Error")),
    )
    base = alt.Chart(requests[list(DRAWN)]).encode(y=alt.Y("lane:O", title="Stream", axis=None), tooltip=tooltip)
    colour = alt.ColorValue(ink.arms[0], condition={"test": "isValid(datum.error)", "value": ink.loss})
    waited = base.mark_bar(opacity=0.35).encode(
        x=alt.X("sent_s:Q", title=_TIME, axis=alt.Axis(tickCount=12)), x2=alt.X2("first_s"), color=colour
    )
    answered = base.mark_bar(stroke=ink.ground, strokeWidth=1).encode(
        x=alt.X("first_s:Q"), x2=alt.X2("until_s"), color=colour
    )
    layers = alt.LayerChart(layer=[waited, answered])
    return with_written(layers, "ttft_ms", "e2e_ms").properties(height=height)


def second(telemetry: pd.DataFrame, figure: Metric, mode: Mode) -> alt.Chart:
    """Draw one metric over the seconds of the window."""
    rows = pd.DataFrame({"t_s": telemetry["t_s"], "value": telemetry[figure.name] * figure.factor}).dropna()
    drawn: alt.Chart = alt.Chart(rows, height=_SECOND_HEIGHT).mark_line(
        color=INKS[mode].arms[0], point={"color": INKS[mode].arms[0]} if len(rows) < _FEW else False
    )
    top = max(1.0, float(rows["value"].max()))  # else an axis of zeros alone has no numbers
    last_s = max(1.0, float(telemetry["t_s"].max()))  # the same for all metrics, of which one may have a single sample
    return with_written(drawn, "value").encode(
        x=alt.X("t_s:Q", title=_TIME, scale=alt.Scale(domain=[0, last_s]), axis=alt.Axis(tickMinStep=1, tickCount=6)),
        y=alt.Y("value:Q", title=None, scale=alt.Scale(domain=[0, top]), axis=alt.Axis(tickCount=3, labelExpr=SHORT)),
        tooltip=tips(("t_s:Q", _TIME, ".1f"), number_tooltip("value", figure.heading)),
    )


def known(telemetry: pd.DataFrame) -> list[Metric]:
    """Return the metrics that have any value."""
    return [figure for figure in SAMPLED if figure.name in telemetry and telemetry[figure.name].notna().any()]
