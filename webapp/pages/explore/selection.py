"""The selection in a link of the Explore page: which runs, and how they are drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Literal, TypeVar, get_args

from lab.errors import UserError
from lab.metrics.catalogue import LATENCIES as LATENCY_METRICS
from warehouse.queries import free_percentiles, slices
from warehouse.queries.slices import VALIDITIES, Filters, Validity
from webapp.charts.explore.axes import BEGUN, COST, DIMENSIONS, LATENCIES, NUMBERS, OF_REQUESTS, PER_GPU, PER_USER, Axis
from webapp.shared import url_params

T = TypeVar("T")
Mark = Literal["Line", "Bar", "Scatter", "ECDF", "Pareto", "Percentile bands", "Acceptance"]
MARKS: tuple[Mark, ...] = get_args(Mark)
EVERY_STUDY = "every study"
#: Options that add all runs of an origin to the chosen studies.
BESIDE = {"everything published": "published", "everything imported": "imported"}
NO_FACET = "none"
_NUMBERS = {axis.label: axis for axis in NUMBERS}
#: Metrics of which the reader chooses the percentile: that of requests, tokens or chunks of one run.
ANY_PERCENTILE = {f"{axis.label}, any percentile": axis for axis in LATENCIES}
_FIRST_PERCENTILE = "97.5"
_MOST_DECIMALS = 3
_DIMENSIONS = {axis.label: axis for axis in (*DIMENSIONS, *OF_REQUESTS)}
_BY_COLUMN = {axis.column: axis for axis in (*NUMBERS, *DIMENSIONS)}
_LATENCIES = {axis.label: axis for axis in LATENCIES}


@dataclass(frozen=True)
class Frontier:
    """Two numbers that are both better when they are higher (`higher`), or both when they are lower."""

    label: str
    x: Axis
    y: Axis
    higher: bool


FRONTIERS: tuple[Frontier, ...] = (
    Frontier("Per user, per GPU", PER_USER, PER_GPU, higher=True),
    Frontier("TPOT and cost", COST, _BY_COLUMN["tpot_p50_ms"], higher=False),
    Frontier("TTFT and cost", COST, _BY_COLUMN["ttft_p50_ms"], higher=False),
)
_FRONTIERS = {frontier.label: frontier for frontier in FRONTIERS}
#: The parameters of each mark.
USES: dict[Mark, tuple[url_params.Param, ...]] = {
    "Line": (url_params.METRIC, url_params.X, url_params.COLOUR, url_params.FACET),
    "Bar": (url_params.METRIC, url_params.X, url_params.COLOUR, url_params.FACET),
    "Scatter": (url_params.METRIC, url_params.SCATTER_X, url_params.COLOUR, url_params.FACET),
    "ECDF": (url_params.LATENCY, url_params.COLOUR, url_params.FACET),
    "Pareto": (url_params.FRONTIER, url_params.COLOUR, url_params.FACET),
    "Percentile bands": (url_params.LATENCY, url_params.X, url_params.COLOUR, url_params.FACET),
    "Acceptance": (url_params.COLOUR, url_params.FACET),
}


@dataclass(frozen=True)
class Selection:
    """The filters, the mark and its axes. `facet` is None for a single panel."""

    filters: Filters
    mark: Mark
    metric: Axis
    x: Axis
    colour: Axis
    facet: Axis | None
    latency: Axis
    frontier: Frontier

    @property
    def of_requests(self) -> tuple[str, ...]:
        """The dimensions of requests (turn, context) used for drawing or filtering."""
        has_x = {url_params.X, url_params.SCATTER_X} & set(USES[self.mark])
        axes = (*((self.x,) if has_x else ()), self.colour, self.facet)
        columns = {*self.filters.of_requests, *(axis.column for axis in axes if axis is not None)}
        return tuple(axis.column for axis in OF_REQUESTS if axis.column in columns)

    @property
    def has_points(self) -> bool:
        """Whether the marks are runs, which can be clicked."""
        return self.mark in ("Line", "Scatter", "Pareto")

    @property
    def numbers(self) -> tuple[str, ...]:
        """The columns of numbers that the chart needs."""
        if self.mark == "Pareto":
            own = [self.frontier.x, self.frontier.y]
        else:
            own = [self.metric, self.x] if self.mark in ("Line", "Bar", "Scatter") else []
        return tuple(dict.fromkeys(axis.column for axis in own if axis.kind == "number"))


def _scatter_x() -> tuple[Axis, ...]:
    first = [_BY_COLUMN[name] for name in ("acceptance_length", "acceptance_rate")]
    return (*first, BEGUN, *DIMENSIONS, *OF_REQUESTS, *(axis for axis in NUMBERS if axis not in first))


_SCATTER_X = {axis.label: axis for axis in _scatter_x()}


def choices(param: url_params.Param) -> list[str]:
    """Return the options of a parameter that is not a filter, the default first."""
    names: dict[url_params.Param, Sequence[str]] = {
        url_params.MARK: MARKS,
        url_params.METRIC: [*_NUMBERS, *ANY_PERCENTILE],
        url_params.X: list(_DIMENSIONS),
        url_params.SCATTER_X: list(_SCATTER_X),
        url_params.COLOUR: ["Arm", *(label for label in _DIMENSIONS if label != "Arm")],
        url_params.FACET: ["Category", NO_FACET, *(label for label in _DIMENSIONS if label != "Category")],
        url_params.LATENCY: list(_LATENCIES),
        url_params.FRONTIER: list(_FRONTIERS),
        url_params.VALIDITY: VALIDITIES,
    }
    return list(names[param])


def parse(parameters: Mapping[str, Sequence[str]]) -> Selection:
    """Read the parameters of a link. Raises KeyError for an unknown value, ValueError for an invalid date, UserError
    for an invalid percentile.
    """
    mark: Mark = _chosen(parameters, url_params.MARK, {name: name for name in MARKS})
    x = url_params.SCATTER_X if mark == "Scatter" else url_params.X
    facet = url_params.first(parameters, url_params.FACET, "Category")
    selection = Selection(
        filters=_filters(parameters),
        mark=mark,
        metric=_metric(parameters),
        x=_chosen(parameters, x, _SCATTER_X if mark == "Scatter" else _DIMENSIONS),
        colour=_DIMENSIONS[url_params.first(parameters, url_params.COLOUR, "Arm")],
        facet=None if facet == NO_FACET else _DIMENSIONS[facet],
        latency=_chosen(parameters, url_params.LATENCY, _LATENCIES),
        frontier=_chosen(parameters, url_params.FRONTIER, _FRONTIERS),
    )
    if selection.of_requests:
        _check_of_requests(selection)
    return selection


def _check_of_requests(selection: Selection) -> None:
    """Refuse, with UserError, metrics that are known for whole runs only."""
    if selection.mark in ("Pareto", "Acceptance"):
        needed = "the throughput" if selection.mark == "Pareto" else "acceptance by position"
        raise UserError(
            f"{selection.mark} needs {needed}, which is not known by turn or context: choose another mark, or stop "
            "drawing and filtering by them"
        )
    is_pooled = url_params.LATENCY in USES[selection.mark]
    if is_pooled and selection.latency.column not in slices.OF_REQUESTS:
        known = [axis.label for axis in LATENCIES if axis.column in slices.OF_REQUESTS]
        raise UserError(
            f"{selection.latency.label} is not known by turn or context: choose {', '.join(known[:-1])} or {known[-1]}"
        )


def _metric(parameters: Mapping[str, Sequence[str]]) -> Axis:
    label = url_params.first(parameters, url_params.METRIC)
    if label not in ANY_PERCENTILE:
        return _chosen(parameters, url_params.METRIC, _NUMBERS)
    percent = percent_of(url_params.first(parameters, url_params.PERCENTILE))
    latency = ANY_PERCENTILE[label]
    name = free_percentiles.name_of(latency.column, percent)
    if name in _BY_COLUMN:
        return _BY_COLUMN[name]
    about = f"{percent:g}th percentile of {LATENCY_METRICS[latency.column].values}"
    return replace(latency, label=f"{latency.label} p{percent:g}", column=name, about=about)


def percent_of(text: str) -> float:
    """Return the entered percentile, or the first for an empty text. Raises UserError for any other text."""
    try:
        percent = round(float((text or _FIRST_PERCENTILE).removeprefix("p")), _MOST_DECIMALS)
    except ValueError:
        percent = math.nan
    if not 0 < percent < 100:
        raise UserError(f"{text!r} is not a valid percentile: enter a number above 0 and below 100, like 97.5")
    return percent


def _filters(parameters: Mapping[str, Sequence[str]]) -> Filters:
    values = {name: tuple(parameters.get(param.key, ())) for name, param in url_params.SLICED.items()}
    studies = values["study"]
    beside = tuple(BESIDE[name] for name in studies if name in BESIDE)
    if EVERY_STUDY in studies:
        del values["study"]
    validity: Validity = _chosen(parameters, url_params.VALIDITY, {name: name for name in VALIDITIES})
    return Filters(
        tuple((name, chosen) for name, chosen in values.items() if chosen),
        () if EVERY_STUDY in studies else beside,
        _day(parameters, url_params.BEGUN_FROM),
        _day(parameters, url_params.BEGUN_TO),
        validity,
    )


def _chosen(parameters: Mapping[str, Sequence[str]], param: url_params.Param, options: Mapping[str, T]) -> T:
    return options[url_params.first(parameters, param) or choices(param)[0]]


def _day(parameters: Mapping[str, Sequence[str]], param: url_params.Param) -> date | None:
    text = url_params.first(parameters, param)
    return date.fromisoformat(text) if text else None
