"""The declaration of a page: `PAGE` in its package, from which navigation, addresses and pinning follow."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from webapp.charts.panels import Figure
from webapp.charts.theme import Mode
from webapp.shared.url_params import page_file


class Section(StrEnum):
    """The parts of the navigation in the order of work: measure, understand the results, share them."""

    MEASURE = "Measure"
    UNDERSTAND = "Understand"
    SHARE = "Share"


@dataclass(frozen=True)
class Page:
    """A page. Its address is the name of its `package`, whose `page.py` is imported when the page is opened.

    `order`: within its section. `is_of_study`: it shows one study, the newest with a comparison if none is chosen.
    `has_figures`: the package's `figures.py` draws them from the parameters of a link, so they can be pinned.
    `former`: addresses of pages that became this one, which old links and pins name.
    """

    package: str
    title: str
    icon: str
    section: Section
    order: int
    is_of_study: bool = False
    has_figures: bool = False
    former: tuple[str, ...] = ()

    @property
    def address(self) -> str:
        return self.package.rpartition(".")[2]

    @property
    def module(self) -> str:
        return f"{self.package}.page"

    @property
    def file(self) -> Path:
        return page_file(self.address)

    def figures(self, parameters: Mapping[str, Sequence[str]], mode: Mode) -> list[Figure]:
        """Draw the figures of the page's link. Each page's `figures` documents its errors."""
        drawn: list[Figure] = importlib.import_module(f"{self.package}.figures").figures(parameters, mode)
        return drawn
