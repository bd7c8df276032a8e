"""A dashboard as one HTML file that opens without a server: it holds the charts, their rows and the drawing code."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from html import escape
from pathlib import Path
from string import Template
from typing import Any

import pandas as pd
import streamlit as st
import vl_convert

from lab.metrics.number_format import number
from warehouse.app_db.dashboards import Dashboard
from warehouse.app_db.pins import Pin
from webapp.charts.panels import Figure
from webapp.charts.theme import ArmStyle, Mode, themed
from webapp.charts.vega_spec import plain
from webapp.pages.dashboards import render_pins
from webapp.pages.dashboards.render_pins import RenderedPin
from webapp.shared.downloads import SOURCE, VEGA_LITE, About
from webapp.shared.text import count, moment

#: Rows of a table in the file: a browser could show more, but nobody would read them.
MOST_ROWS = 1_000
#: Longer values of a table are wrapped.
_LONG_LETTERS = 60
_PAGE = Path(__file__).parents[2] / "static" / "dashboard.html"
#: Kinds of charts to which Vega-Lite gives no width of their own.
_WITHOUT_WIDTH = ("hconcat", "vconcat", "concat", "facet", "repeat")


@dataclass(frozen=True, eq=False)
class Sheet:
    """One card: its figure in both modes, or the reason why it has none."""

    about: About
    caption: str
    problem: str
    light: Figure | None
    dark: Figure | None
    is_wide: bool


def show_button(dashboard: Dashboard, pins: Sequence[Pin], link: str) -> None:
    """Show the button; a click makes the file. `link`: the dashboard's address."""
    about = About(dashboard.name, "", datetime.now(UTC), link)
    st.download_button(
        "Export",
        lambda: html(about, sheets_of(*(render_pins.render(pins, mode, link) for mode in ("light", "dark")))),
        about.file_name("html"),
        "text/html",
        key="dashboards-export",
        icon=":material/download:",
        help="One HTML file that opens without a server and loads nothing from the network",
        on_click="ignore",
        disabled=not pins,
    )


def sheets_of(light: Sequence[RenderedPin], dark: Sequence[RenderedPin]) -> list[Sheet]:
    """Return the cards of a dashboard that was rendered in both modes."""
    return [
        Sheet(card.about, card.pin.text, card.problem, card.figure, dark_card.figure, card.is_wide)
        for card, dark_card in zip(light, dark, strict=True)
    ]


def html(about: About, sheets: Sequence[Sheet], *, head: str = "", intro: str = "", line: str = "") -> bytes:
    """Return the file. All text is escaped, and its content security policy forbids requests to any host. `head` and
    `intro` are HTML for its head and above the cards. `line` is shown below the title instead of the number of cards.
    """
    rows: dict[str, Any] = {}
    specs: list[dict[Mode, dict[str, Any]]] = []
    cards = "\n".join(_card(sheet, specs, rows) for sheet in sheets)
    page = Template(_PAGE.read_text(encoding="utf-8"))
    return page.substitute(
        title=escape(about.title),
        source=escape(line or f"{SOURCE}, {count(len(sheets), 'pin')}, exported {moment(about.as_of)}"),
        head=head,
        intro=intro,
        link=f" · {_link(about.link)}" if about.link else "",
        cards=cards,
        drawing=_drawing_code(),
        plans=_script(specs),
        rows=_script(rows),
    ).encode()


def _card(sheet: Sheet, specs: list[dict[Mode, dict[str, Any]]], rows: dict[str, Any]) -> str:
    about = sheet.about
    note = f' <span class="note">({escape(about.note)})</span>' if about.note else ""
    caption = f'<p class="caption">{escape(sheet.caption)}</p>' if sheet.caption else ""
    wide = " wide" if sheet.is_wide else ""
    if sheet.light is None and not sheet.problem:  # a card of text
        return f'<article class="card{wide}"><h2>{escape(about.title)}</h2>{caption}</article>'
    foot = f"{escape(about.subject)}<br>" if about.subject else ""
    foot += f"{SOURCE}, data of {escape(moment(about.as_of))}"
    foot += f" · {_link(about.link)}" if about.link else ""
    return (
        f'<article class="card{wide}"><h2>{escape(about.title)}{note}</h2>{caption}{_body(sheet, specs, rows)}'
        f"<footer>{foot}</footer></article>"
    )


def _body(sheet: Sheet, specs: list[dict[Mode, dict[str, Any]]], rows: dict[str, Any]) -> str:
    if sheet.light is None or sheet.dark is None:
        return f'<p class="problem">{escape(sheet.problem)}</p>'
    if not sheet.light.panels:
        return _table(sheet.light.rows)
    legends = "".join(
        f'<p class="legend only-{mode}">{_legend(figure.styles)}</p>'
        for mode, figure in (("light", sheet.light), ("dark", sheet.dark))
        if figure.styles
    )
    panels = []
    for (title, light), (_, dark) in zip(sheet.light.panels, sheet.dark.panels, strict=True):
        head = f"<h3>{escape(title)}</h3>" if title else ""
        panels.append(f'<div class="panel">{head}<div id="panel-{len(specs)}" class="chart"></div></div>')
        specs.append({"light": _spec(light, "light", rows), "dark": _spec(dark, "dark", rows)})
    # A figure with a width of its own, such as a heat map with numbers in it, scrolls sideways on a phone.
    has_own = sheet.light.least_width != Figure.least_width
    least = f' style="--least: {sheet.light.least_width}px"' if has_own else ""
    return f'{legends}<div class="panels"{least}>{"".join(panels)}</div>'


def _spec(chart: Any, mode: Mode, rows: dict[str, Any]) -> dict[str, Any]:
    """Return the Vega-Lite specification, as wide as its panel. Its rows move to `rows`, which all charts share."""
    spec: dict[str, Any] = plain(themed(chart, mode))
    rows.update(spec.get("datasets", {}))
    spec["datasets"] = sorted(spec.get("datasets", {}))
    facets = {"row", "column", "facet"} & spec.get("encoding", {}).keys()
    if "width" not in spec and not facets and not any(kind in spec for kind in _WITHOUT_WIDTH):
        spec |= {"width": "container", "autosize": {"type": "fit-x", "contains": "padding"}}
    return spec


def _table(rows: pd.DataFrame) -> str:
    shown = rows.head(MOST_ROWS)
    head = "".join(f"<th>{escape(str(name))}</th>" for name in shown.columns)
    numeric = [pd.api.types.is_numeric_dtype(shown[name]) for name in shown.columns]
    body = "".join(
        f"<tr>{''.join(_cell(value, is_number=of) for value, of in zip(row, numeric, strict=True))}</tr>"
        for row in shown.itertuples(index=False, name=None)
    )
    more = (
        "" if len(rows) <= MOST_ROWS else f"<p class='note'>The first {MOST_ROWS:,} of {count(len(rows), 'row')}.</p>"
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="table" tabindex="0">{table}</div>{more}'


def _cell(value: Any, *, is_number: bool) -> str:
    is_unknown = pd.api.types.is_scalar(value) and pd.isna(value)
    text = "" if is_unknown else number(value) if isinstance(value, float) else str(value)
    kind = "number" if is_number else "long" if len(text) > _LONG_LETTERS else "text"
    return f'<td class="{kind}">{escape(text)}</td>'


def _legend(styles: Sequence[ArmStyle]) -> str:
    named = ((style, f"{style.arm} {style.note}".rstrip()) for style in styles)
    return " ".join(
        f'<span><b style="color: {escape(style.colour)}">{style.letter}</b> {escape(name)}</span>'
        for style, name in named
    )


def _link(link: str) -> str:
    """Return the text as a link if it is an http or https URL, else as text."""
    text = escape(link)
    return f'<a href="{text}" rel="noreferrer">{text}</a>' if link.startswith(("http://", "https://")) else text


def _script(value: object) -> str:
    """JSON that can neither end a script nor begin an HTML comment."""
    return json.dumps(value).replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


@cache
def _drawing_code() -> str:
    """Vega, Vega-Lite and Vega-Embed, as bundled with vl-convert."""
    code: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=VEGA_LITE)
    return code.replace("</script", "<\\/script")
