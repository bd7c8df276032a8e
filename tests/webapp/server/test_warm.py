"""Every page is made as its declaration says."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from webapp.pages import PAGES, Page, Section
from webapp.server import asgi

every_page = pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)


def test_every_page_has_an_address() -> None:
    assert [route.path for route in asgi.page_routes()] == [f"/{address}" for address in PAGES]


def test_the_navigation_lists_each_section_once_and_each_page_by_a_title_of_its_own() -> None:
    sections = [list(Section).index(page.section) for page in PAGES.values()]
    assert sections == sorted(sections)
    assert len({page.title for page in PAGES.values()}) == len(PAGES)


@every_page
def test_importing_a_page_shows_nothing_and_gives_the_function_that_does(page: Page) -> None:
    assert callable(importlib.import_module(page.module).show_page)


@every_page
def test_pages_whose_figures_can_be_pinned_have_a_module_that_draws_them(page: Page) -> None:
    if page.has_figures:
        assert callable(importlib.import_module(f"webapp.pages.{page.address}.figures").figures)


def test_the_list_of_pages_imports_none_of_them() -> None:
    code = "import sys, webapp.pages; print([name for name in sys.modules if name.endswith('.page')])"
    ran = subprocess.run(
        (sys.executable, "-c", code), cwd=Path(asgi.__file__).parents[2], capture_output=True, check=True
    )
    assert ran.stdout.decode().strip() == "[]"
