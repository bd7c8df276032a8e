"""A dashboard as one HTML file that opens without a server: drawing code, rows and pictures' plans in it. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from string import Template
from typing import Any

import pandas as pd
import vl_convert

from webapp.charts.panels import Figure
from webapp.charts.theme import ArmStyle, Mode, themed
from webapp.charts.vega_spec import plain
from webapp.shared.about import About
from webapp.shared.figure_files import VEGA_LITE
from webapp.shared.text import count, moment

#: Of a table; a browser shows more, but nobody reads them there.
MOST_ROWS = 1_000
#: A longer value of a table stands in several lines.
_LONG_LETTERS = 60
_PAGE = Path(__file__).parents[2] / "static" / "dashboard.html"
#: What Vega-Lite gives no width of its own.
_WITHOUT_WIDTH = ("hconcat", "vconcat", "concat", "facet", "repeat")


@dataclass(frozen=True, eq=False)
class Sheet:
    """One card: what it is, its caption, and its figure in both modes, or else a sentence."""

    about: About
    caption: str
    said: str
    light: Figure | None
    dark: Figure | None


def html(told: About, sheets: Sequence[Sheet]) -> bytes:
    """All text is escaped; the file's own rules forbid it to ask anything of any host."""
    rows: dict[str, Any] = {}
    plans: list[dict[Mode, dict[str, Any]]] = []
    cards = "\n".join(_card(sheet, plans, rows) for sheet in sheets)
    page = Template(_PAGE.read_text(encoding="utf-8"))
    return page.substitute(
        title=escape(told.title),
        source=escape(f"{told.source}, {count(len(sheets), 'pin')}, exported {moment(told.as_of)}"),
        link=_link(told.link),
        cards=cards,
        drawing=_drawing_code(),
        plans=_script(plans),
        rows=_script(rows),
    ).encode()


def _card(sheet: Sheet, plans: list[dict[Mode, dict[str, Any]]], rows: dict[str, Any]) -> str:
    told = sheet.about
    note = f' <span class="note">({escape(told.note)})</span>' if told.note else ""
    caption = f'<p class="caption">{escape(sheet.caption)}</p>' if sheet.caption else ""
    wide = " wide" if sheet.light is not None and sheet.light.is_wide else ""
    return (
        f'<article class="card{wide}"><h2>{escape(told.title)}{note}</h2>{caption}{_body(sheet, plans, rows)}'
        f"<footer>{escape(told.source)}, data of {escape(moment(told.as_of))} · {_link(told.link)}</footer></article>"
    )


def _body(sheet: Sheet, plans: list[dict[Mode, dict[str, Any]]], rows: dict[str, Any]) -> str:
    if sheet.light is None or sheet.dark is None:
        return f'<p class="said">{escape(sheet.said)}</p>'
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
        panels.append(f'<div class="panel">{head}<div id="panel-{len(plans)}" class="chart"></div></div>')
        plans.append({"light": _plan(light, "light", rows), "dark": _plan(dark, "dark", rows)})
    return f'{legends}<div class="panels">{"".join(panels)}</div>'


def _plan(chart: Any, mode: Mode, rows: dict[str, Any]) -> dict[str, Any]:
    """What Vega-Lite draws, as wide as its panel. Its rows go to `rows`, which both modes and all charts share."""
    plan: dict[str, Any] = plain(themed(chart, mode))
    rows.update(plan.get("datasets", {}))
    plan["datasets"] = sorted(plan.get("datasets", {}))
    facets = {"row", "column", "facet"} & plan.get("encoding", {}).keys()
    if "width" not in plan and not facets and not any(kind in plan for kind in _WITHOUT_WIDTH):
        plan |= {"width": "container", "autosize": {"type": "fit-x", "contains": "padding"}}
    return plan


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
    text = "" if is_unknown else f"{value:.6g}" if isinstance(value, float) else str(value)
    kind = "number" if is_number else "long" if len(text) > _LONG_LETTERS else "text"
    return f'<td class="{kind}">{escape(text)}</td>'


def _legend(styles: Sequence[ArmStyle]) -> str:
    return " ".join(
        f'<span><b style="color: {escape(style.colour)}">{style.letter}</b> {escape(style.arm)}</span>'
        for style in styles
    )


def _link(link: str) -> str:
    """Only a link to a page is one that can be followed."""
    text = escape(link)
    return f'<a href="{text}" rel="noreferrer">{text}</a>' if link.startswith(("http://", "https://")) else text


def _script(value: object) -> str:
    """JSON that ends no script and begins no comment of HTML."""
    return json.dumps(value).replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


@cache
def _drawing_code() -> str:
    """Vega, Vega-Lite and Vega-Embed, as vl-convert carries them."""
    code: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=VEGA_LITE)
    return code.replace("</script", "<\\/script")
