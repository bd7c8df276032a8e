"""The HTML that every page begins with: Streamlit's own, and a hint that spares its reader a tenth of a second.

It is only a hint: with a Streamlit that does not know it any more, pages are slower and the same.
"""

from __future__ import annotations

from pathlib import Path

import streamlit as st
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

_INDEX = Path(st.__file__).parent / "static/index.html"
_PAGES = Path(__file__).parents[1] / "pages"
#: Where the server is. Else the browser asks below the page's own address first, as an app might lie there.
_BACKEND = '<script>window.__streamlit = {BACKEND_BASE_URL: new URL("./", location.href).href}</script>'


def html() -> str:
    """Streamlit's page with the hint at the end of its head."""
    return _INDEX.read_text("utf-8").replace("</head>", f"{_BACKEND}</head>")


def routes() -> list[Route]:
    """One for each page of the app."""
    page = html()

    async def answer(_request: Request) -> HTMLResponse:
        return HTMLResponse(page, headers={"Cache-Control": "no-cache"})

    return [Route("/", answer), *(Route(f"/{page.parent.name}", answer) for page in sorted(_PAGES.glob("*/page.py")))]
