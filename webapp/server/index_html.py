"""The HTML of each page: Streamlit's own, with the server's address in it.

The work-around `index_html` saves a page opened by its link a tenth of a second: without the address, the browser asks
for the server below the page's own path first, as an app might lie there. A Streamlit that no longer reads this private
variable serves the same pages, only slower.
"""

from __future__ import annotations

from pathlib import Path

import streamlit as st
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

_INDEX = Path(st.__file__).parent / "static/index.html"
_PAGES = Path(__file__).parents[1] / "pages"
_BACKEND = '<script>window.__streamlit = {BACKEND_BASE_URL: new URL("./", location.href).href}</script>'


def html() -> str:
    """Streamlit's page with the address at the end of its head."""
    return _INDEX.read_text("utf-8").replace("</head>", f"{_BACKEND}</head>")


def routes() -> list[Route]:
    """One for each page of the app."""
    page = html()

    async def answer(_request: Request) -> HTMLResponse:
        return HTMLResponse(page, headers={"Cache-Control": "no-cache"})

    return [Route("/", answer), *(Route(f"/{page.parent.name}", answer) for page in sorted(_PAGES.glob("*/page.py")))]
