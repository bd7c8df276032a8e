"""The table of pages; each has a folder of its own, whose name is its address and whose `page.py` Streamlit runs."""

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
    """A page. `is_of_study`: it shows one study, the newest with a comparison if none is chosen. `former`: addresses of
    pages that became this one, which old links and pins name.
    """

    address: str
    title: str
    icon: str
    section: Section
    is_of_study: bool = False
    former: tuple[str, ...] = ()

    @property
    def module(self) -> str:
        return f"{__name__}.{self.address}.page"

    @property
    def file(self) -> Path:
        return page_file(self.address)

    @property
    def has_figures(self) -> bool:
        """Whether its `figures.py` draws figures from the parameters of a link, so they can be pinned."""
        return self.file.with_name("figures.py").is_file()

    def figures(self, parameters: Mapping[str, Sequence[str]], mode: Mode) -> list[Figure]:
        """Draw the figures of the page's link. Each page's `figures` documents its errors."""
        drawn: list[Figure] = importlib.import_module(f"{__name__}.{self.address}.figures").figures(parameters, mode)
        return drawn


_EVERY = (
    Page("home", "Home", ":material/home:", Section.MEASURE),
    Page("submit", "Submit", ":material/add_circle:", Section.MEASURE),
    Page("jobs", "Jobs", ":material/list_alt:", Section.MEASURE),
    Page("results", "Results", ":material/monitoring:", Section.UNDERSTAND, is_of_study=True),
    Page("explore", "Explore", ":material/query_stats:", Section.UNDERSTAND, is_of_study=True),
    Page("compare", "Compare", ":material/compare_arrows:", Section.UNDERSTAND, is_of_study=True),
    Page("cost", "Cost", ":material/payments:", Section.UNDERSTAND, is_of_study=True),
    Page(
        "deploy", "Deploy", ":material/rocket_launch:", Section.UNDERSTAND, is_of_study=True, former=("advice", "tune")
    ),
    Page("series", "Series", ":material/event_repeat:", Section.UNDERSTAND),
    Page("run", "Run", ":material/timeline:", Section.UNDERSTAND, is_of_study=True),
    Page("sql", "SQL", ":material/database:", Section.SHARE),
    Page("dashboards", "Dashboards", ":material/dashboard:", Section.SHARE),
    Page("external_results", "External results", ":material/groups:", Section.SHARE),
    Page("account", "Account", ":material/account_circle:", Section.SHARE),
)
#: Every page by its address, in the order of the navigation.
PAGES: Mapping[str, Page] = {page.address: page for page in _EVERY}
#: Addresses of today by former ones.
FORMER: Mapping[str, str] = {former: page.address for page in _EVERY for former in page.former}
#: The page at the root.
DEFAULT = PAGES["home"]
