"""The Starlette application: Streamlit's pages, and `/healthz` for supervisors and containers."""

from __future__ import annotations

import gc
import importlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import streamlit as st
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

MAIN = Path(__file__).with_name("main.py")
#: What the first page would otherwise import while its visitor waits.
_WARM = (
    *("webapp.home_page", "webapp.results_page", "webapp.submit_page", "webapp.jobs_page", "webapp.job_detail"),
    *("webapp.compare_page", "webapp.outputs_page", "webapp.explore_page", "webapp.advice_page"),
    *("webapp.cost_page", "webapp.dashboards_page", "webapp.run_page", "webapp.run_details"),
    *("webapp.sql_page", "webapp.sql_answer", "webapp.others_page"),
)


async def _healthz(_request: Request) -> JSONResponse:
    return JSONResponse({"status": "ok"})


@asynccontextmanager
async def _lifespan(_app: object) -> AsyncIterator[None]:
    """Import once, then move it all out of the garbage collector's sight: Streamlit collects fully after each run."""
    for module in _WARM:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    yield


app = st.App(MAIN, routes=[Route("/healthz", _healthz)], lifespan=_lifespan)
