"""Which pages' figures can be pinned: a line each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from webapp import (
    advice_figures,
    compare_figures,
    cost_figures,
    explore_figures,
    results_figures,
    run_figures,
    sql_figures,
)
from webapp.charts.figures import Figure
from webapp.charts.theme import Mode

#: By its path in the URL: a page's figures from its link's parameters. A page that is not here has no button to pin.
FIGURES: dict[str, Callable[[Mapping[str, Sequence[str]], Mode], list[Figure]]] = {
    "results": results_figures.drawn,
    "compare": compare_figures.drawn,
    "advice": advice_figures.drawn,
    "explore": explore_figures.drawn,
    "cost": cost_figures.drawn,
    "run": run_figures.drawn,
    "sql": sql_figures.drawn,
}
