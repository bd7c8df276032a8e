"""The Starlette application: the guard, the login, the pages and their HTML, and old addresses."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import streamlit as st
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse
from starlette.routing import Mount, Route

from webapp.access.gate import gate
from webapp.access.guard import Guard
from webapp.access.headers import script_digests
from webapp.access.routes import access_routes
from webapp.api.app import PREFIX, api
from webapp.links.routes import link_routes
from webapp.server import workarounds
from webapp.warehouse_files.client_file import client_route
from webapp.warehouse_files.routes import warehouse_routes

_INDEX = Path(st.__file__).parent / "static/index.html"
_PAGES = Path(__file__).parents[1] / "pages"
_BACKEND = '<script>window.__streamlit = {BACKEND_BASE_URL: new URL("./", location.href).href}</script>'
MAIN = Path(__file__).with_name("main.py")
#: What the first page would otherwise import while its visitor waits.
_WARM = tuple(f"webapp.pages.{page.parent.name}.page" for page in sorted(_PAGES.glob("*/page.py")))


def index_html() -> str:
    """Streamlit's own HTML with the server's address at the end of its head.

    The work-around `index_html` saves a page opened by its link a tenth of a second: without the address, the browser
    asks for the server below the page's own path first, as an app might lie there. A Streamlit that no longer reads
    this private variable serves the same pages, only slower.
    """
    return _INDEX.read_text("utf-8").replace("</head>", f"{_BACKEND}</head>")


def page_routes() -> list[Route]:
    """One for each page of the app."""
    page = index_html()

    async def answer(_request: Request) -> HTMLResponse:
        return HTMLResponse(page, headers={"Cache-Control": "no-cache"})

    return [Route(f"/{page.parent.name}", answer) for page in sorted(_PAGES.glob("*/page.py"))]


async def _root(request: Request) -> RedirectResponse:
    """Redirect to the first page's address, relative to the requested one, with the parameters of the link."""
    query = f"?{request.url.query}" if request.url.query else ""
    return RedirectResponse(f"home{query}", status_code=307)


def routes() -> list[Route | Mount]:
    """Everything besides Streamlit's own routes."""
    pages = page_routes() if workarounds.INDEX_HTML in workarounds.enabled() else []
    return [
        *access_routes(gate()),
        *link_routes(gate()),
        Mount(PREFIX, api()),
        *warehouse_routes(gate()),
        client_route(),
        Route("/", _root),
        *pages,
    ]


def _guard() -> Middleware:
    """Before everything else: it may answer itself."""
    return Middleware(Guard, gate=gate(), scripts=script_digests(index_html()))


@asynccontextmanager
async def _lifespan(_app: object) -> AsyncIterator[None]:
    workarounds.prepare_process(_WARM, workarounds.enabled())
    gc.enable()  # `python -m webapp` imports without
    yield


app = st.App(MAIN, routes=routes(), middleware=[_guard()], lifespan=_lifespan)
