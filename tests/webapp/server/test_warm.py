"""Every page is made as its declaration says."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from webapp.pages import PAGES
from webapp.server import asgi
from webapp.shared.page import Page, Section

every_page = pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)


def test_every_page_has_an_address() -> None:
    assert [route.path for route in asgi.page_routes()] == [f"/{address}" for address in PAGES]


def test_the_navigation_lists_each_section_once_and_pages_by_their_place() -> None:
    places = [(list(Section).index(page.section), page.order) for page in PAGES.values()]
    assert places == sorted(set(places))
    assert len({page.title for page in PAGES.values()}) == len(PAGES)


@every_page
def test_importing_a_page_shows_nothing_and_gives_the_function_that_does(page: Page) -> None:
    assert callable(importlib.import_module(page.module).show_page)


@every_page
def test_pages_whose_figures_can_be_pinned_have_a_module_that_draws_them(page: Page) -> None:
    assert page.has_figures == page.file.with_name("figures.py").is_file()
    if page.has_figures:
        assert callable(importlib.import_module(f"{page.package}.figures").figures)


def test_the_list_of_pages_imports_none_of_them() -> None:
    code = "import sys, webapp.pages; print([name for name in sys.modules if name.endswith('.page')])"
    ran = subprocess.run(
        (sys.executable, "-c", code), cwd=Path(asgi.__file__).parents[2], capture_output=True, check=True
    )
    assert ran.stdout.decode().strip() == "['webapp.shared.page']"
