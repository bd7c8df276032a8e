"""The picture of the Home page: the newest answer of each target, from its link's parameters alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import duckdb
import pandas as pd

from lab.errors import UserError
from lab.metrics.catalogue import BY_NAME
from warehouse.queries.costs import ArmCost, costs_without_savings
from webapp.charts import interactivity
from webapp.charts.panels import Figure
from webapp.charts.theme import Mode, arm_styles
from webapp.pages.home import tables
from webapp.shared import published_data, url_params
from webapp.shared.published_data import cached_figures, published_query

#: What the y axis may show, by its name in a link; the default first.
YIELDS = ("Throughput", "Cost")
_THROUGHPUT, _TPOT = "output_tok_per_s", "tpot_p50_ms"
#: Panels, a target's workload each.
_MOST_PANELS = 6
_CELL = ["arm", "workload", "pattern", "concurrency"]
_PER_S = 1000.0


@cached_figures
def figures(parameters: Mapping[str, Sequence[str]], mode: Mode) -> list[Figure]:
    """Draw the newest answers; no figure before the first. Raises UserError without a warehouse."""
    of_cost = url_params.first(parameters, url_params.YIELD, YIELDS[0]) == "Cost"
    headlines = tables.read_headlines()
    rows = [
        _rows(headline.job_id, of_cost=of_cost).assign(target=headline.target, job_id=headline.job_id)
        for headline in headlines
    ]
    frame = pd.concat(rows) if rows else pd.DataFrame()
    if frame.empty:
        return []
    label = "Cost per 10⁶ output tokens" if of_cost else BY_NAME[_THROUGHPUT].label
    drafting = {arm: how for headline in headlines for arm, how in published_data.arms(headline.job_id).items()}
    baselines = frame.loc[frame["is_baseline"], "arm"]
    styles = arm_styles(
        list(dict.fromkeys(frame["arm"])), None if baselines.empty else str(baselines.iloc[0]), mode, drafting
    )
    parts = list(frame.groupby(["target", "workload", "unit"], sort=False))[:_MOST_PANELS]  # a currency of its own each
    panels = tuple(
        (f"{target}, {workload}", interactivity.panel(part, f"{label} ({unit})", styles))
        for (target, workload, unit), part in parts
    )
    better = "lower" if of_cost else "higher"
    note = f"newest answer of each target; {better} and further right is better; numbers: concurrency"
    name = "Cost" if of_cost else "Throughput"
    return [Figure("newest", f"{name} against speed for one user", note, styles, panels, frame)]


def _rows(job_id: str, *, of_cost: bool) -> pd.DataFrame:
    """Return each arm in each cell of a study: user_tok_per_s, value and its unit; without cells that lack one."""
    measured = published_data.cells(job_id, _THROUGHPUT)[[*_CELL, "is_baseline", "value"]]
    measured = measured.assign(unit=BY_NAME[_THROUGHPUT].shown_unit)
    if of_cost:
        measured = measured.drop(columns=["value", "unit"]).merge(_costs(job_id), on=_CELL)
    tpot = published_data.cells(job_id, _TPOT)[[*_CELL, "value"]].rename(columns={"value": "tpot_ms"})
    both = measured.merge(tpot, on=_CELL).dropna(subset=["value", "tpot_ms"])
    both = both[both["tpot_ms"] > 0]
    return both.assign(user_tok_per_s=_PER_S / both["tpot_ms"]).drop(columns="tpot_ms")


def has_costs() -> bool:
    """Return whether some newest answer has a price."""
    return any(not _costs(headline.job_id).empty for headline in tables.read_headlines())


def _costs(job_id: str) -> pd.DataFrame:
    rows = [
        (
            each.arm,
            each.cell.workload,
            each.cell.pattern,
            each.cell.concurrency,
            each.per_million_output_tokens,
            each.currency,
        )
        for each in _priced(job_id)
    ]
    return pd.DataFrame(rows, columns=[*_CELL, "value", "unit"])


@published_query()
def _priced(connection: duckdb.DuckDBPyConnection, job_id: str) -> list[ArmCost]:
    """Return the costs of a study; none without a price."""
    try:
        return costs_without_savings(connection, [job_id])
    except UserError:
        return []
