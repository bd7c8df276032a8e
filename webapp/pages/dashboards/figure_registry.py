"""Which pages' figures can be pinned: a line each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from webapp.charts.panels import Figure
from webapp.charts.theme import Mode
from webapp.pages.advice import figures as advice_figures
from webapp.pages.compare import figures as compare_figures
from webapp.pages.cost import figures as cost_figures
from webapp.pages.explore import figures as explore_figures
from webapp.pages.results import figures as results_figures
from webapp.pages.run import figures as run_figures
from webapp.pages.sql import figures as sql_figures

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
