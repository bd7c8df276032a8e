"""Every page is imported before the first visitor, and is made as the recipe for pages says."""

from __future__ import annotations

import importlib

import pytest

from webapp.server import asgi

PAGES = sorted(f"webapp.pages.{route.path.removeprefix('/')}.page" for route in asgi.page_routes())


def test_every_page_is_imported_before_the_first_visitor() -> None:
    assert sorted(asgi._WARM) == PAGES


@pytest.mark.parametrize("page", PAGES)
def test_importing_a_page_shows_nothing_and_gives_the_function_that_does(page: str) -> None:
    assert callable(importlib.import_module(page).show_page)
