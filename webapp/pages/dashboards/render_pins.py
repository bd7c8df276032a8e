"""Renders pinned figures from their page and link, or gives the reason why one cannot be drawn."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urljoin

from lab.errors import UserError
from warehouse.app_db.engine import DATABASE_ERRORS
from warehouse.app_db.pins import TEXT, Pin, PinnedFigure
from warehouse.queries.point_in_time import as_of, seen_as_of
from webapp.charts.panels import Figure
from webapp.charts.theme import Mode
from webapp.pages import FORMER, PAGES
from webapp.shared import downloads, published_data
from webapp.shared.downloads import About
from webapp.shared.url_params import View

#: Page, parameters and point in time -> the figures, or why there are none.
Pages = dict[tuple[str, str, datetime | None], list[Figure] | str]
_GONE = "This figure cannot be shown: its study, metric or rows no longer exist."


@dataclass(frozen=True)
class RenderedPin:
    """A pin with its figure, or with the `problem` that prevents drawing it. `about` links to its page."""

    pin: Pin
    figure: Figure | None
    problem: str
    about: About

    @property
    def is_wide(self) -> bool:
        """Whether the card takes a whole row: by the reader's choice, or else by its figure."""
        if self.pin.is_wide is not None:
            return self.pin.is_wide
        return self.pin.shown.page == TEXT if self.figure is None else self.figure.is_wide


def has_page(shown: PinnedFigure) -> bool:
    """Return whether the page that draws the figure exists in this version."""
    page = _page(shown)
    return page in PAGES and PAGES[page].has_figures


def _page(shown: PinnedFigure) -> str:
    """Return the page of today."""
    return FORMER.get(shown.page, shown.page)


def view_of(pin: Pin) -> View:
    return View(_page(pin.shown), pin.shown.parameters)


def render(pins: Sequence[Pin], mode: Mode, base_url: str) -> list[RenderedPin]:
    """Render the pins in order; figures of the same page, link and point in time are drawn together."""
    pages: Pages = {}
    return [_render(pin, mode, base_url, pages) for pin in pins]


def _render(pin: Pin, mode: Mode, base_url: str, pages: Pages) -> RenderedPin:
    shown = pin.shown
    if shown.page == TEXT:
        return RenderedPin(pin, None, "", About(pin.title))
    key = (shown.page, shown.parameters_json, shown.as_of)
    with as_of(shown.as_of or seen_as_of()):
        if key not in pages:
            pages[key] = _figures(shown, mode)
        figures = pages[key]
        figure = (
            None
            if isinstance(figures, str)
            else next((candidate for candidate in figures if candidate.key == shown.figure), None)
        )
        problem = figures if isinstance(figures, str) else "" if figure else _GONE
        title = pin.title or (shown.page.capitalize() if figure is None else figure.title)
        note = "" if figure is None else figure.note
        link = urljoin(base_url, view_of(pin).link)
        subject = downloads.provenance_of_view(shown.parameters, None if figure is None else figure.rows)
        about = About(title, note, published_data.published_at(), link, subject)
    return RenderedPin(pin, figure, problem, about)


def _figures(shown: PinnedFigure, mode: Mode) -> list[Figure] | str:
    """Return the page's figures, or why there are none: the dashboard's other pins are drawn all the same."""
    if not has_page(shown):
        return f"This version of Drafthouse has no page {shown.page!r}."
    try:
        return PAGES[_page(shown)].figures(shown.parameters, mode)
    except UserError as error:
        return f"This figure cannot be drawn: {error}"
    except (LookupError, *DATABASE_ERRORS):
        return _GONE
    except Exception:
        logging.getLogger(__name__).exception("%s cannot be drawn", shown)
        return "This figure cannot be drawn because of an internal error. The server's log has the details."
