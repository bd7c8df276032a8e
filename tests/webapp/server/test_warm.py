"""Every page is imported before the first visitor, and is made as the recipe for pages says."""

from __future__ import annotations

import importlib

import pytest

from webapp.server import asgi


@pytest.mark.parametrize("page", asgi.PAGES)
def test_importing_a_page_shows_nothing_and_gives_the_function_that_does(page: str) -> None:
    assert callable(importlib.import_module(f"webapp.pages.{page}.page").show_page)
