"""Figures of several panels: their rows, and the scales that their panels share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import altair as alt
import pandas as pd

from lab.metrics.definition import Metric
from webapp.charts import results
from webapp.charts.axes import Setting, facets, load_axis, ratio_domain, without_wide
from webapp.charts.theme import ArmStyle, Drafting, Mode, arm_styles, styles_drawn

#: A title (empty where the figure's own suffices) and a chart.
Panel = tuple[str, alt.Chart | alt.LayerChart]

#: Half the width of a page in a window of 1280 pixels, beside the list of pages.
_HALF_WIDTH = 420


@dataclass(frozen=True, eq=False)
class Figure:
    """A titled figure: the styles of its arms, its panels side by side, and the rows behind them.

    `key` is unique among the figures of the page. Without `styles` the charts have legends of their own; without
    `panels` the figure is a table of its rows. A panel narrower than `least_width` px goes to the next row.
    """

    key: str
    title: str
    note: str
    styles: tuple[ArmStyle, ...]
    panels: tuple[Panel, ...]
    rows: pd.DataFrame
    least_width: int = 380

    @property
    def is_wide(self) -> bool:
        """Whether the figure takes the width of two."""
        return len(self.panels) > 1 or self.least_width > _HALF_WIDTH


def panels_of(
    parts: Iterable[tuple[object, pd.DataFrame]], draw: Callable[[pd.DataFrame], alt.Chart | alt.LayerChart]
) -> tuple[Panel, ...]:
    return tuple((str(title), draw(rows)) for title, rows in parts)


def throughput_figure(frame: pd.DataFrame, measure: Metric, styles: Sequence[ArmStyle], mode: Mode) -> Figure:
    rows = frame[frame["value"].notna()]
    drawn = styles_drawn(rows, styles)
    setting, top = Setting(load_axis(rows), drawn, mode), results.upper_end(rows)
    return Figure(
        "throughput",
        f"{measure.label} by load",
        measure.shown_unit + ("; bars: means, dots: repeats" if (rows["repeats"] > 1).any() else ""),
        drawn,
        panels_of(facets(rows), lambda part: results.throughput_panel(part, measure, setting, top)),
        rows.drop(columns="values"),
    )


def speedup_figure(frame: pd.DataFrame, measure: Metric, styles: Sequence[ArmStyle], mode: Mode) -> Figure:
    rows = frame[~frame["is_baseline"] & frame["ratio"].notna()].drop(columns="values")
    drawn = styles_drawn(rows, styles)
    setting, domain = Setting(load_axis(rows), drawn, mode), ratio_domain(rows)
    return Figure(
        "speedup",
        "Speed-up by load" if measure.higher_is_better else f"{measure.label} against the baseline",
        _speedup_note(rows, measure),
        drawn,
        panels_of(facets(rows), lambda part: results.speedup_panel(part, measure, setting, domain)),
        rows,
    )


def _speedup_note(rows: pd.DataFrame, measure: Metric) -> str:
    parts = ["" if measure.higher_is_better else "below 1× is better"]
    return "; ".join(part for part in (*parts, *verdict_notes(rows), "logarithmic") if part)


def verdict_notes(rows: pd.DataFrame) -> list[str]:
    """Explain bars and hollow marks of ratios, if any are drawn."""
    notes = ["bars: 95 % intervals"] if without_wide(rows)["low"].notna().any() else []
    return notes + (["hollow: inconclusive"] if (rows["verdict"] == "inconclusive").any() else [])


def acceptance_figure(frame: pd.DataFrame, styles: Sequence[ArmStyle]) -> Figure:
    rows = results.pooled_over_loads(frame)
    drawn, positions = styles_drawn(rows, styles), int(rows["position"].max())
    return Figure(
        "acceptance",
        "Acceptance by position in the draft",
        "share of drafts accepted up to this position; all loads together",
        drawn,
        panels_of(facets(rows), lambda part: results.acceptance_panel(part, drawn, positions)),
        rows,
    )


def arms_of(frame: pd.DataFrame, order: Iterable[str]) -> list[str]:
    """Return the arms in the order given, then the others of the frame."""
    return list(dict.fromkeys([*order, *frame["arm"]]))


def styles_of(frame: pd.DataFrame, mode: Mode, drafting: Mapping[str, Drafting] | None = None) -> tuple[ArmStyle, ...]:
    """Return the styles of a study's arms, in its own order if `drafting` has it; the same in all of its figures."""
    arms, baselines = arms_of(frame, drafting or ()), frame.loc[frame["is_baseline"], "arm"]
    return arm_styles(arms, None if baselines.empty else str(baselines.iloc[0]), mode, drafting)
