"""The Starlette application: the guard, the login, the pages and their HTML, and old addresses."""

from __future__ import annotations

import importlib
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import streamlit as st
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse
from starlette.routing import Mount, Route

from access.web.gate import gate
from access.web.guard import Guard
from access.web.headers import script_digests
from access.web.routes import access_routes
from host.settings import load_settings
from jobs.fleet.leases import requeue_until
from jobs.series import nightly
from webapp.api.app import PREFIX, api
from webapp.links.routes import link_routes
from webapp.pages import DEFAULT, FORMER, PAGES
from webapp.server import session_turns, workarounds
from webapp.server.compressed import Compressed
from webapp.warehouse_files.client_file import client_route
from webapp.warehouse_files.routes import warehouse_routes

_STATIC = Path(st.__file__).parent / "static"
_BACKEND = '<script>window.__streamlit = {BACKEND_BASE_URL: new URL("./", location.href).href}</script>'
MAIN = Path(__file__).with_name("main.py")


def index_html() -> str:
    """Return Streamlit's own HTML with the server's address and the scripts of charts at the end of its head.

    The work-around `index_html` spares a page opened by its link two requests that fail, and a tenth of a second:
    without the address, the browser asks for the server below the page's own path first, as an app might lie there. A
    Streamlit that no longer reads this private variable serves the same pages, only slower. And a browser on a slow
    line would ask for the scripts of charts only after the server's first words: named here, they fill the wait.
    """
    html = (_STATIC / "index.html").read_text("utf-8")
    late = (file for file in _scripts_of_charts() if file not in html)
    links = "".join(f'<link rel="modulepreload" crossorigin href="./{file}">' for file in late)
    return html.replace("</head>", f"{_BACKEND}{links}</head>")


def _scripts_of_charts() -> list[str]:
    """Return none if Streamlit names them otherwise."""
    parts = json.loads((_STATIC / "manifest.json").read_text("utf-8"))
    waiting, files = [name for name in parts if name.endswith("/ArrowVegaLiteChart.tsx")], dict[str, None]()
    while waiting:
        part = parts[waiting.pop()]
        if part["file"] not in files:
            files[part["file"]] = None
            waiting.extend(part.get("imports", []))
    return list(files)


def page_routes() -> list[Route]:
    html = index_html()

    async def answer(_request: Request) -> HTMLResponse:
        return HTMLResponse(html, headers={"Cache-Control": "no-cache"})

    return [Route(f"/{address}", answer) for address in PAGES]


async def _redirect(request: Request) -> RedirectResponse:
    """Redirect the root to the first page, and a former address to the page of today, relative to the requested one,
    with the parameters of the link.
    """
    query = f"?{request.url.query}" if request.url.query else ""
    address = FORMER.get(request.url.path.rpartition("/")[2], DEFAULT.address)
    return RedirectResponse(f"{address}{query}", status_code=307)


def routes() -> list[Route | Mount]:
    """Return all routes other than Streamlit's own."""
    pages = page_routes() if workarounds.INDEX_HTML in workarounds.enabled() else []
    return [
        *access_routes(gate()),
        *link_routes(gate()),
        Mount(PREFIX, api()),
        *warehouse_routes(gate()),
        client_route(),
        Route("/", _redirect),
        *(Route(f"/{former}", _redirect) for former in FORMER),
        *pages,
    ]


@asynccontextmanager
async def _lifespan(_app: object) -> AsyncIterator[None]:
    for page in PAGES.values():  # what the first visitor would otherwise wait for
        importlib.import_module(page.module)
    if workarounds.SESSION_TURNS in workarounds.enabled():
        session_turns.take_turns()
    stop = threading.Event()
    threading.Thread(target=nightly.run, args=(load_settings(), stop), name="series", daemon=True).start()
    if (settings := load_settings()).app_database_file is None:
        requeueing = (stop, settings.app_database_url)
        threading.Thread(target=requeue_until, args=requeueing, name="expired leases", daemon=True).start()
    yield
    stop.set()


# The guard comes before everything else: it may answer itself.
_guard = Middleware(Guard, gate=gate(), scripts=script_digests(index_html()))
app = st.App(MAIN, routes=routes(), middleware=[_guard, Middleware(Compressed)], lifespan=_lifespan)
