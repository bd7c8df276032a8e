"""Charts of any table: the one that fits its columns, or the one that a reader chooses."""

from __future__ import annotations

import colorsys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, count, islice
from typing import Any, Literal, get_args

import altair as alt
import pandas as pd

from webapp.charts.custom_columns import drawable, interval_of, is_number, is_ordered, is_time, may_be_added
from webapp.charts.theme import INKS, ArmStyle, Mode

Mark = Literal["line", "bar", "point", "area"]
MARKS: tuple[Mark, ...] = get_args(Mark)
#: A browser draws more marks than this only slowly.
MOST_ROWS = 10_000
_HEIGHT = 380
#: About as many fit side by side below the narrowest chart, a card of a dashboard.
_LETTERS_ON_A_LINE = 40
_LABEL_LIMIT_PX = 120
#: Pixels of a letter in the legend, of a mark with its margins, and the most for a name.
_LETTER_PX, _MARK_PX, _MOST_NAME_PX = 6.5, 34, 260
_MAX_PANELS = 6
#: A column of more values gets no colours, and no evenly spaced axis, unless the reader chooses it.
_MAX_VALUES = 20
_ARM, _CONCURRENCY = "arm", "concurrency"
_GOLDEN_RATIO = 0.618034
_MAX_CANDIDATES = 120
_LIGHTNESS: dict[Mode, tuple[float, ...]] = {"light": (0.33, 0.5, 0.22), "dark": (0.68, 0.82, 0.52)}


@dataclass(frozen=True)
class ChartSpec:
    """The mark of a chart, and the columns it shows."""

    mark: Mark
    x: str
    y: str
    colour: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(column for column in (self.x, self.y, self.colour) if column is not None)


def automatic(frame: pd.DataFrame) -> ChartSpec:
    """Draw the chart that fits the columns: a measure over an ordered column, with a colour for each category.

    Counts are drawn only if nothing else was measured. Where rows share a position in the chart, it has points, which
    hide nothing and add nothing. `frame` has at least two drawable columns.
    """
    columns = drawable(frame)
    y = _measure(frame, columns)
    bounds = _bounds(frame, columns)
    others = [column for column in columns if column != y and column not in bounds] or [
        column for column in columns if column != y
    ]
    varying = [column for column in others if len(frame[column].unique()) > 1]
    ordered = sorted(
        (column for column in varying if is_ordered(frame[column])), key=lambda column: column != _CONCURRENCY
    )
    named = [column for column in varying if not is_number(frame[column]) and not is_time(frame[column])]
    categories = sorted((column for column in named if _is_short(frame[column])), key=lambda column: column != _ARM)
    x = next(chain(ordered, categories, varying, others))
    colours = [column for column in [*categories, *ordered] if column != x and _is_short(frame[column])]
    mark: Mark = "line" if x in ordered else "bar" if not is_number(frame[x]) else "point"
    spec = ChartSpec(mark, x, y, colours[0] if colours else None)
    drawn_once = is_number(frame[y]) and not shared_positions(frame, spec)
    return spec if drawn_once else ChartSpec("point", x, y, spec.colour)


def _measure(frame: pd.DataFrame, columns: Sequence[str]) -> str:
    """Return the first column that was measured, else the first count, else the last number, else the last column."""
    numbers = [column for column in columns if is_number(frame[column])]
    bounds = _bounds(frame, columns)
    measured = [column for column in numbers if not is_ordered(frame[column]) and column not in bounds]
    return next(
        chain((column for column in measured if not may_be_added(column)), measured, reversed(numbers)), columns[-1]
    )


def _bounds(frame: pd.DataFrame, columns: Sequence[str]) -> set[str]:
    """Return the ends of the intervals of other columns."""
    return {bound for column in columns for bound in interval_of(frame, column) or ()}


def _is_short(column: pd.Series) -> bool:
    return bool(column.nunique(dropna=False) <= _MAX_VALUES)


def parts(frame: pd.DataFrame, spec: ChartSpec) -> list[tuple[str, pd.DataFrame]]:
    """Return the rows of each panel with its title; one panel with all rows if they need no more.

    Rows at the same x and colour that differ in one or two further columns are drawn in panels of their own, since
    lines, bars and areas have one value per position.
    """
    keys = position_columns(spec)
    if spec.mark == "point" or not frame.duplicated(keys).any():
        return [("", frame)]
    candidates = [
        column
        for column in drawable(frame)
        if column not in spec.columns
        and (is_ordered(frame[column]) or not is_number(frame[column]))
        and 1 < frame[column].nunique(dropna=False) <= _MAX_PANELS
    ]
    for by in chain(*(combinations(candidates, size) for size in (1, 2))):
        if len(frame[list(by)].drop_duplicates()) <= _MAX_PANELS and not frame.duplicated([*keys, *by]).any():
            groups = frame.groupby(list(by), sort=False, dropna=False)
            return [
                (", ".join(str(v) if isinstance(v, str) else f"{n} {v}" for n, v in zip(by, values, strict=True)), rows)
                for values, rows in groups
            ]
    return [("", frame)]


def shared_positions(frame: pd.DataFrame, spec: ChartSpec) -> int:
    """Count the rows that share their panel, x and colour with another row."""
    return sum(int(rows.duplicated(position_columns(spec), keep=False).sum()) for _, rows in parts(frame, spec))


def position_columns(spec: ChartSpec) -> list[str]:
    return list(dict.fromkeys([spec.x] if spec.colour is None else [spec.x, spec.colour]))


def panels(
    frame: pd.DataFrame, spec: ChartSpec, mode: Mode, styles: Sequence[ArmStyle] = ()
) -> tuple[tuple[str, alt.Chart | alt.LayerChart], ...]:
    """Draw the first MOST_ROWS rows; several panels share the y axis and the colours. Raises KeyError for a missing
    column.

    `styles`: the styles of the arms that the colour stands for, so that they look as on other pages.
    """
    rows = frame.head(MOST_ROWS)
    titled_parts = parts(rows, spec)
    y = (
        alt.Scale()
        if len(titled_parts) == 1 or not is_number(rows[spec.y])
        else alt.Scale(domain=_y_range(titled_parts, spec))
    )
    colours = _colour(rows, spec, mode, styles)
    return tuple(
        (title, _panel(part, rows, spec, mode=mode, y_scale=y, colours=colours)) for title, part in titled_parts
    )


def _panel(
    part: pd.DataFrame, frame: pd.DataFrame, spec: ChartSpec, *, mode: Mode, y_scale: alt.Scale, colours: Any
) -> alt.Chart | alt.LayerChart:
    """Draw one panel of the rows `part` of `frame`; the tooltip shows every column used."""
    x, y, colour = spec.x, spec.y, spec.colour
    interval = interval_of(frame, y)
    used = list(dict.fromkeys([*spec.columns, *(interval or ())]))
    # Column names may contain dots and brackets, which Vega-Lite would read as paths.
    field = {column: f"c{number}" for number, column in enumerate(used)}
    rows = _without_nulls(part[used], colour).set_axis(list(field.values()), axis=1)
    kinds = {column: _kind(frame[column]) for column in used}
    x_kind = _x_kind(frame[x], spec.mark)
    encoded: dict[str, Any] = {
        "x": alt.X(
            f"{field[x]}:{x_kind}",
            title=x,
            sort="ascending" if x_kind == "O" else None,
            axis=_x_axis(frame[x], x_kind),
        ),
        "tooltip": [alt.Tooltip(f"{field[column]}:{kinds[column]}", title=column) for column in used],
    }
    if colour is not None:
        kind = "N" if colours.scale is not alt.Undefined else "Q"
        encoded["color"] = colours.copy(deep=False)
        encoded["color"].shorthand = f"{field[colour]}:{kind}"
        if spec.mark == "bar" and not may_be_added(y) and colour != x and x_kind in "NO" and kind == "N":
            encoded["xOffset"] = alt.XOffset(f"{field[colour]}:N", sort=None)
    stack: Any = "zero" if spec.mark in ("bar", "area") and may_be_added(y) else None
    base = alt.Chart(rows)
    marked: alt.Chart = {
        "line": base.mark_line(point=True),
        "bar": base.mark_bar(),
        "point": base.mark_point(filled=True, size=60),
        "area": base.mark_area(opacity=0.6),
    }[spec.mark]
    drawn = marked.encode(y=alt.Y(f"{field[y]}:{kinds[y]}", title=y, sort=None, stack=stack, scale=y_scale), **encoded)
    if interval is None or stack is not None:
        return drawn.properties(height=_HEIGHT)
    low, high = interval
    if spec.mark in ("bar", "area"):
        encoded["color"] = alt.ColorValue(INKS[mode].text)
    rule = base.mark_rule(strokeWidth=1.5).encode(
        y=alt.Y(f"{field[low]}:Q", title=y, scale=y_scale), y2=alt.Y2(f"{field[high]}:Q"), **encoded
    )
    return alt.LayerChart(layer=[drawn, rule], height=_HEIGHT)


def _colour(frame: pd.DataFrame, spec: ChartSpec, mode: Mode, styles: Sequence[ArmStyle]) -> alt.Color | None:
    """Return the colour scale and its legend: one colour per value, or shades for what was measured."""
    if spec.colour is None:
        return None
    column = frame[spec.colour]
    legend = None if spec.colour == spec.x else alt.Legend(columns=_columns(column))  # the x axis names the same values
    if is_number(column) and not (is_ordered(column) and _is_short(column)):
        return alt.Color(title=spec.colour, legend=legend)
    values = _without_nulls(frame[[spec.colour]], spec.colour)[spec.colour]
    if is_time(column):
        values = values.astype(str)
    names = values.drop_duplicates().tolist()
    if styles:
        shown = {style.arm for style in styles}
        names = [style.arm for style in styles] + [name for name in names if name not in shown]
    elif is_number(column):
        names = sorted(names, key=lambda name: (isinstance(name, str), name))
    scale = alt.Scale(domain=names, range=distinct_colours(names, mode, styles))
    return alt.Color(title=spec.colour, scale=scale, legend=legend, sort=None)


def _columns(names: pd.Series) -> alt.ExprRef:
    """Return as many columns of the legend as fit below the chart, on a phone as well."""
    letters = max((len(str(name)) for name in names.unique()), default=0)
    return alt.ExprRef(f"max(1, floor(width / {_MARK_PX + min(_MOST_NAME_PX, round(_LETTER_PX * letters))}))")


def distinct_colours(names: Sequence[Any], mode: Mode, styles: Sequence[ArmStyle] = ()) -> list[str]:
    """Return a distinct colour for each name: its style's, else the theme's, else the farthest from those in use."""
    styled = {style.arm: style.colour for style in styles}
    reserved, taken = set(styled.values()), set[str]()
    used = {*INKS[mode].arms, *reserved}
    free = (colour for colour in chain(INKS[mode].arms, _more_colours(mode, used)) if colour not in reserved)
    for name in names:
        wanted = styled.get(name)
        colour = (
            wanted
            if wanted and wanted not in taken
            else next(candidate for candidate in free if candidate not in taken)
        )
        styled[name] = colour
        taken.add(colour)
    return [styled[name] for name in names]


def _more_colours(mode: Mode, used: set[str]) -> Iterator[str]:
    """Yield the colours that differ most from the used ones and from each other, then any number of others."""
    endless = _hues(mode)
    near = list(dict.fromkeys(islice(endless, _MAX_CANDIDATES)))
    distances = {colour: min(_distance(colour, other) for other in used) for colour in near}
    while distances:
        farthest = max(distances, key=lambda colour: distances[colour])
        del distances[farthest]
        yield farthest
        distances = {colour: min(distance, _distance(colour, farthest)) for colour, distance in distances.items()}
    yield from endless


def _distance(colour: str, other: str) -> int:
    return sum((a - b) ** 2 for a, b in zip(bytes.fromhex(colour[1:]), bytes.fromhex(other[1:]), strict=True))


def _hues(mode: Mode) -> Iterator[str]:
    for index in count():
        lightness = _LIGHTNESS[mode][index % len(_LIGHTNESS[mode])]
        rgb = colorsys.hls_to_rgb((0.1 + index * _GOLDEN_RATIO) % 1, lightness, 0.6)
        yield "#" + "".join(f"{round(part * 255):02x}" for part in rgb)


def _without_nulls(rows: pd.DataFrame, colour: str | None) -> pd.DataFrame:
    """Replace SQL's nulls by a value with a colour of its own; as nulls they would share another value's colour."""
    if colour is None or not rows[colour].isna().any():
        return rows
    column = rows[colour].astype(object)
    return rows.assign(**{colour: column.where(column.notna(), "null")})


def _y_range(titled_parts: Sequence[tuple[str, pd.DataFrame]], spec: ChartSpec) -> list[float]:
    """From zero, or the lowest value below it, to the highest value of any panel."""
    ends = [0.0]
    for _, rows in titled_parts:
        for column in (spec.y, *(interval_of(rows, spec.y) or ())):
            ends += rows[column].dropna().astype(float).tolist()
        if may_be_added(spec.y):
            ends += rows.groupby(spec.x, dropna=False)[spec.y].sum().astype(float).tolist()
    return [min(ends), max(ends)]


def _x_kind(column: pd.Series, mark: Mark) -> str:
    """Return the type of the x axis: a few ordered values are spaced evenly, and bars are put side by side."""
    kind = _kind(column)
    return "O" if kind == "Q" and (mark == "bar" or (is_ordered(column) and _is_short(column))) else kind


def _x_axis(column: pd.Series, kind: str) -> alt.Axis:
    """Return the x axis; labels of many or long names are slanted, so that they do not overlap."""
    if kind != "N":
        return alt.Axis()
    letters = sum(len(str(value)) for value in column.head(MOST_ROWS).unique())
    return alt.Axis(labelAngle=-40, labelLimit=_LABEL_LIMIT_PX) if letters > _LETTERS_ON_A_LINE else alt.Axis()


def _kind(column: pd.Series) -> str:
    return "T" if is_time(column) else "Q" if is_number(column) else "N"
