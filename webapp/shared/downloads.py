"""Figures and tables as files, and the buttons that download them; a file is made when its button is clicked.

Each file is self-explanatory: it has its title, source, date and link.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urljoin

import altair as alt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import streamlit as st
import vl_convert

from interchange.export import FORMULA
from lab.errors import UserError
from webapp.charts.panels import Figure
from webapp.charts.theme import INKS, ArmStyle, Mode, colour_scale, fill_scale, shape_scale, themed
from webapp.charts.vega_spec import plain
from webapp.shared import dialogs, published_data, url_params
from webapp.shared.study_picker import REFERENCE_TARGET
from webapp.shared.text import count, literal, moment
from webapp.shared.url_params import View

#: The publisher named in the files.
SOURCE = "Drafthouse"
#: Key of the description in a Parquet file's metadata.
_KEY = b"drafthouse"
_NOT_IN_NAMES = re.compile(r"[^\w.-]+")
_MAX_NAME_LETTERS = 80
_MAX_COLUMNS = 3
_PANEL_WIDTH, _WIDE_PANEL_WIDTH = 380, 760
#: Pixels of a legend: one letter (about), one mark with its margins, one line.
_LETTER_WIDTH, _MARK_WIDTH, _LINE_HEIGHT = 7.2, 34, 22
_PNG_SCALE = 2.0
VEGA_LITE = "6.4"

#: Values of one kind that are named; the others are only counted.
_MOST_NAMED = 2
#: Studies that are read for it; more are only counted.
_MOST_READ = 24
#: For readers who do not know the model that this project ships.
REFERENCE = "reference model: not a useful model, only the shape of its curves carries over"


def about(title: str, note: str, view: View, rows: pd.DataFrame | None = None) -> About:
    """Return the description of what is shown now; its link leads back to this view."""
    link, subject = urljoin(st.context.url or "", view.link), provenance_of_view(view.parameters, rows)
    return About(title, note, published_data.published_at(), link, subject)


def show_figure_menu(figure: Figure, view: View, mode: Mode) -> None:
    """Show a menu to download the figure or its rows, and a button to pin it to a dashboard."""
    with st.container(horizontal=True, gap="xxsmall", width="content"):
        dialogs.show_pin_button(figure.title, view, figure.key)
        show_files(figure, about(figure.title, figure.note, view, figure.rows), mode)


def show_files(figure: Figure, described: About, mode: Mode) -> None:
    """Show a menu; its content is built when it opens. `figure.key` is unique among the page's figures and tables."""
    name = f"Files of “{literal(figure.title)}”"
    menu = st.popover(
        name,
        icon=":material/download:",
        help=name,
        type="tertiary",
        key=f"files-{figure.key}",
        on_change="rerun",
    )
    if not menu.open:
        return
    with menu:
        if figure.panels:
            _button("PNG", lambda: png(figure, described, mode), described, "image/png", figure.key)
            _button("SVG", lambda: svg(figure, described, mode), described, "image/svg+xml", figure.key)
        _rows(lambda: figure.rows, described, figure.key)


def show_table_buttons(rows: Callable[[], pd.DataFrame], title: str, view: View, key: str) -> None:
    """Show buttons to download the rows of a table. `key` is unique among the figures and tables of the page."""
    with st.container(horizontal=True):
        _rows(rows, about(title, "", view), key)


def _rows(rows: Callable[[], pd.DataFrame], described: About, key: str) -> None:
    _button("CSV", lambda: csv(rows(), described), described, "text/csv", key)
    _button("Parquet", lambda: parquet(rows(), described), described, "application/vnd.apache.parquet", key)


def _button(kind: str, make: Any, described: About, mime: str, key: str) -> None:
    st.download_button(
        kind,
        make,
        described.file_name(kind.lower()),
        mime,
        key=f"file-{key}-{kind}",
        icon=":material/download:",
        on_click="ignore",
    )


@dataclass(frozen=True)
class About:
    """The description in a file. `as_of`: time of the data, if known; `link`: the view; `subject`: what the numbers are
    of (`provenance_of_view`).
    """

    title: str
    note: str = ""
    as_of: datetime | None = None
    link: str = ""
    subject: str = ""

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines below the title."""
        source = f"{SOURCE}, data of {moment(self.as_of)}"
        return tuple(line for line in (self.note, self.subject, source, self.link) if line)

    def file_name(self, ending: str) -> str:
        """Return the title as a file name valid on every file system."""
        name = _NOT_IN_NAMES.sub("-", self.title).strip("-.")[:_MAX_NAME_LETTERS]
        return f"{name or 'drafthouse'}.{ending}"


def csv(frame: pd.DataFrame, about: About) -> bytes:
    """Return a CSV file in UTF-8; its first lines begin with `#` (pandas: `comment="#"`; DuckDB detects them).

    Text that a spreadsheet would run as a formula begins with an apostrophe.
    """
    safe = frame.map(lambda value: re.sub(FORMULA, r"'\1", value) if isinstance(value, str) else value)
    header = "".join(f"# {' '.join(line.split())}\n" for line in (about.title, *about.lines))
    return (header + safe.to_csv(index=False)).encode()


def parquet(frame: pd.DataFrame, about: About) -> bytes:
    """Return a Parquet file with the description in its metadata, under the key `drafthouse`."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    header = "\n".join((about.title, *about.lines))
    metadata = {**(table.schema.metadata or {}), _KEY: header.encode()}
    sink = io.BytesIO()
    pq.write_table(table.replace_schema_metadata(metadata), sink)
    return sink.getvalue()


def svg(figure: Figure, about: About, mode: Mode) -> bytes:
    text: str = vl_convert.vegalite_to_svg(_text(figure, about, mode), vl_version=VEGA_LITE)
    return text.encode()


def png(figure: Figure, about: About, mode: Mode) -> bytes:
    return bytes(vl_convert.vegalite_to_png(_text(figure, about, mode), vl_version=VEGA_LITE, scale=_PNG_SCALE))


def whole(figure: Figure, about: About, mode: Mode) -> alt.VConcatChart:
    """Return the figure with title, legend and panels in one chart."""
    width = _WIDE_PANEL_WIDTH if len(figure.panels) == 1 else max(_PANEL_WIDTH, figure.least_width)
    panels = [_titled(_sized(chart, width), title) for title, chart in figure.panels]
    grid = alt.concat(*panels, columns=_MAX_COLUMNS)
    across = width * min(len(panels), _MAX_COLUMNS)
    parts = [legend(figure.styles, mode, across), grid] if figure.styles else [grid]
    return alt.vconcat(*parts, title=_title(about, mode), padding=16)


def legend(styles: Sequence[ArmStyle], mode: Mode, width: float) -> alt.LayerChart:
    """Return the arms with their colours and marks, in as many lines as `width` requires."""
    rows: list[dict[str, Any]] = []
    right, line = 0.0, 0
    for style in styles:
        needed = _MARK_WIDTH + _LETTER_WIDTH * len(style.arm)
        if rows and right + needed > width:
            right, line = 0.0, line + 1
        rows.append({"arm": style.arm, "x": right + 8, "line": line * _LINE_HEIGHT + 10})
        right += needed
    place: dict[str, Any] = {"scale": None, "axis": None}
    base = alt.Chart(pd.DataFrame(rows), width=width, height=(line + 1) * _LINE_HEIGHT).encode(
        x=alt.X("x:Q", **place), y=alt.Y("line:Q", **place)
    )
    marks = base.mark_point(size=80, opacity=1).encode(
        stroke=alt.Stroke("arm:N", scale=colour_scale(styles), legend=None),
        fill=alt.Fill("arm:N", scale=fill_scale(styles, mode), legend=None),
        shape=alt.Shape("arm:N", scale=shape_scale(styles), legend=None),
    )
    words = base.mark_text(align="left", dx=10, fontSize=12, color=INKS[mode].text).encode(text=alt.Text("arm:N"))
    return alt.LayerChart(layer=[marks, words])


def _text(figure: Figure, about: About, mode: Mode) -> str:
    return json.dumps(plain(themed(whole(figure, about, mode), mode, ground=True)))


def _title(about: About, mode: Mode) -> alt.TitleParams:
    muted = INKS[mode].muted
    return alt.TitleParams(about.title, subtitle=list(about.lines), subtitleColor=muted, fontSize=16, offset=14)


def _titled(chart: Any, title: str) -> Any:
    return chart.properties(title=title) if title else chart


def _sized(chart: Any, width: int) -> Any:
    return chart if isinstance(chart, (alt.HConcatChart, alt.VConcatChart)) else chart.properties(width=width)


def provenance_of_view(parameters: Mapping[str, Sequence[str]], rows: pd.DataFrame | None = None) -> str:
    """Return `gpt-oss-120b · RTX PRO 6000 · vllm 0.32.0 · demo, 2026-11-21` for the jobs of the rows that are shown, or
    else for the studies that a link names, or for all studies if a query shows rows of none; empty otherwise.
    """
    if rows is None or "job_id" not in rows:
        return _of_link(parameters)
    is_published = pd.Series(data=False, index=rows.index)
    if {"origin", "source"} <= set(rows.columns):  # the answer of a query may have any columns
        is_published = rows["origin"].eq("published")
    jobs = rows.loc[~is_published, "job_id"].dropna().astype(str).unique()
    parts = [provenance_of_jobs(jobs) if len(jobs) <= _MOST_READ else f"{len(jobs)} studies"]
    parts += [f"published by {_named(rows.loc[is_published, 'source'])}"] if is_published.any() else []
    return " · ".join(part for part in parts if part) or _of_link(parameters)


def _of_link(parameters: Mapping[str, Sequence[str]]) -> str:
    params = (url_params.JOB, url_params.WITH, url_params.SLICED["study"])
    labels = [label for param in params for label in parameters.get(param.key, ())]
    if run := url_params.first(parameters, url_params.RUN):
        found = published_data.run(run)
        labels += [] if found.empty else [str(found.iloc[0]["job_id"])]
    if not labels and url_params.QUERY in parameters:
        return _of_all_studies()
    return provenance_of_jobs(map(url_params.job_id_of, labels))


def _of_all_studies() -> str:
    studies = published_data.studies_with_results()
    if studies.empty:
        return ""
    parts = [f"SQL over {count(len(studies), 'study', 'studies')}", _named(studies["target"])]
    parts += [_named(studies["hardware"]), REFERENCE if set(studies["target"]) == {REFERENCE_TARGET} else ""]
    return " · ".join(part for part in parts if part)


def provenance_of_jobs(jobs: Iterable[str]) -> str:
    """Return `provenance_of_view` for studies by their jobs' ids; unknown ones are left out."""
    try:
        return _provenance(tuple(dict.fromkeys(jobs)))
    except UserError:
        return ""


@published_data.cached_by_publication()
def _provenance(jobs: tuple[str, ...]) -> str:
    frames = [published_data.results(job) for job in jobs]
    frames = [frame for frame in frames if not frame.empty]
    if not frames:
        return ""
    runs = pd.concat(frames)
    days = pd.to_datetime(runs["started_at"]).dropna()
    measured = "" if days.empty else f", {days.min():%Y-%m-%d}"
    parts = [_named(runs["target"]), _named(runs["hardware"]), _named(engine_versions(runs))]
    parts += [f"{_named(runs['study_name'])}{measured}"]
    parts += [REFERENCE] if set(runs["target"].dropna()) == {REFERENCE_TARGET} else []
    return " · ".join(part for part in parts if part)


def engine_versions(runs: pd.DataFrame) -> pd.Series:
    """Return the engines of the runs with their versions. A failed run whose engine never started does not know its
    version: it is left out if another run of the engine does.
    """
    knows = runs["engine_version"].notna()
    is_needed = knows | (runs["status"] == "completed") | ~runs["engine"].isin(runs.loc[knows, "engine"])
    return (runs["engine"] + " " + runs["engine_version"].fillna(""))[is_needed].str.strip()


def _named(column: pd.Series) -> str:
    values = sorted({str(value) for value in column.dropna() if str(value)})
    more = f" and {len(values) - _MOST_NAMED} more" if len(values) > _MOST_NAMED else ""
    return ", ".join(values[:_MOST_NAMED]) + more
