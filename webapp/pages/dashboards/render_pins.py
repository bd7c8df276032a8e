"""What is pinned, drawn anew, or why it cannot be drawn."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urljoin

import sqlalchemy as sa

from lab.errors import UserError
from warehouse.app_db.pins import Pin, Pinned
from warehouse.queries.point_in_time import as_of
from webapp.charts.panels import Figure
from webapp.charts.theme import Mode
from webapp.pages.dashboards.figure_registry import FIGURES
from webapp.shared import published_data
from webapp.shared.about import SOURCE, About, View

#: By page, parameters and moment: its figures, or why there are none.
Pages = dict[tuple[str, str, datetime | None], list[Figure] | str]
_GONE = "What this shows is not here (any more): its study, its metric or its rows are gone."


@dataclass(frozen=True)
class Drawn:
    """A pin with its figure, or without one and with a sentence that says why. Its link leads to the page it is of."""

    pin: Pin
    figure: Figure | None
    said: str
    about: About

    @property
    def view(self) -> View:
        return view_of(self.pin)


def view_of(pin: Pin) -> View:
    return View(pin.shown.page, pin.shown.parameters)


def draw(pins: Sequence[Pin], mode: Mode, at: str) -> list[Drawn]:
    """In their order. Figures of one page, link and moment are drawn together. `at`: where the reader's browser is."""
    pages: Pages = {}
    return [_draw(pin, mode, at, pages) for pin in pins]


def _draw(pin: Pin, mode: Mode, at: str, pages: Pages) -> Drawn:
    shown = pin.shown
    key = (shown.page, shown.parameters_json, shown.as_of)
    with as_of(shown.as_of):
        if key not in pages:
            pages[key] = _figures(shown, mode)
        found = pages[key]
        figure = next((each for each in found if each.key == shown.figure), None) if isinstance(found, list) else None
        said = found if isinstance(found, str) else "" if figure else _GONE
        title = shown.page.capitalize() if figure is None else figure.title
        note = "" if figure is None else figure.note
        told = About(title, note, SOURCE, published_data.published_at(), urljoin(at, view_of(pin).link))
    return Drawn(pin, figure, said, told)


def _figures(shown: Pinned, mode: Mode) -> list[Figure] | str:
    """Or a sentence. One pin that cannot be drawn leaves the others of its dashboard as they are."""
    if shown.page not in FIGURES:
        return f"This Drafthouse has no page {shown.page!r} to draw it from."
    try:
        return FIGURES[shown.page](shown.parameters, mode)
    except UserError as error:
        return f"It cannot be drawn: {error}"
    except (LookupError, sa.exc.DBAPIError):
        return _GONE
    except Exception:
        logging.getLogger(__name__).exception("%s cannot be drawn", shown)
        return "It cannot be drawn, by a mistake of this page. The server's log says more."
