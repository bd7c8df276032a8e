"""The Starlette application: Streamlit's pages, and `/healthz` for supervisors and containers."""

from __future__ import annotations

import gc
import importlib
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import streamlit as st
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from webapp.server import index_html

MAIN = Path(__file__).with_name("main.py")
#: What the first page would otherwise import while its visitor waits.
_WARM = (
    "webapp.pages.home.sections",
    "webapp.pages.results.sections",
    "webapp.pages.submit.sections",
    "webapp.pages.jobs.sections",
    "webapp.pages.jobs.detail",
    "webapp.pages.compare.sections",
    "webapp.pages.compare.outputs",
    "webapp.pages.explore.sections",
    "webapp.pages.advice.sections",
    "webapp.pages.cost.sections",
    "webapp.pages.dashboards.sections",
    "webapp.pages.run.sections",
    "webapp.pages.run.details",
    "webapp.pages.sql.sections",
    "webapp.pages.sql.answer",
    "webapp.pages.external_results.sections",
)
#: What is sent waits so long for a page that is being made, once for each message. Python's own choice is 5 ms.
_SWITCH_S = 0.0005


async def _healthz(_request: Request) -> JSONResponse:
    return JSONResponse({"status": "ok"})


@asynccontextmanager
async def _lifespan(_app: object) -> AsyncIterator[None]:
    """Import once, then move it all out of the sight of the garbage collector, which would go through it each time."""
    for module in _WARM:
        importlib.import_module(module)
    _send_at_once()
    sys.setswitchinterval(_SWITCH_S)
    gc.collect()
    gc.freeze()
    yield


def _send_at_once() -> None:
    """Without it each page waits 40 ms for an acknowledgement (Nagle's algorithm).

    Asyncio says so itself to sockets made for TCP, but Streamlit makes its listening socket for no protocol in
    particular; what such a socket is told is true for the connections that it accepts.
    """
    for connection in psutil.Process().net_connections("tcp"):
        if connection.status == psutil.CONN_LISTEN:
            with socket.fromfd(connection.fd, connection.family, connection.type) as listening:
                listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


app = st.App(MAIN, routes=[Route("/healthz", _healthz), *index_html.routes()], lifespan=_lifespan)
