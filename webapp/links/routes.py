"""Routes of shared links, open to anybody who has one; and the same page for printing, behind the login.

A visitor of a link gets one HTML file and a picture, without a session. The address holds a secret that identifies the
item, and no parameter changes what is shown.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from anyio import CapacityLimiter, to_thread
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from access import shared_links
from access.shared_links import Kind, SharedLink
from access.web import login_page
from access.web.gate import Gate
from access.web.guard import PRINT, SHARED
from access.web.headers import Headers, login_headers, shared_headers
from lab.errors import UserError
from warehouse.app_db.engine import DATABASE_ERRORS
from webapp.links import rendered
from webapp.links.rendered import Page
from webapp.shared.dialogs import shared_address

_GONE = "it has ended, or what it showed is gone: ask whoever gave it to you for another"
#: Drawing and waiting for it take no threads of signed-in visitors.
_AT_ONCE = 4


def link_routes(gate: Gate) -> list[Route]:
    return [
        Route(f"{SHARED}/{{secret}}", _with(gate, _show)),
        Route(f"{SHARED}/{{secret}}/picture.png", _with(gate, _show_picture)),
        Route(f"{SHARED}/{{rest:path}}", _nothing_here),
        Route(f"{PRINT}/{{kind}}/{{subject}}", _with(gate, _show_print)),
    ]


def _with(gate: Gate, answer: Callable[[Gate, Request], Response]) -> Callable[[Request], object]:
    async def answering(request: Request) -> Response:
        try:
            return await to_thread.run_sync(answer, gate, request, limiter=_limiter())
        except (UserError, *DATABASE_ERRORS):
            return _refused(gate, "the lab has no data to show at the moment: try again later", 503)

    return answering


@functools.cache
def _limiter() -> CapacityLimiter:
    return CapacityLimiter(_AT_ONCE)


async def _nothing_here(_request: Request) -> Response:
    return PlainTextResponse("Not found", 404)


def _opened(gate: Gate, request: Request) -> SharedLink | None:
    secret = request.path_params["secret"]
    is_on = gate.settings.web_share_days > 0
    if not is_on or not secret.isascii():
        return None
    return shared_links.opened(gate.engine, secret, absent_after=gate.settings.absent_after)


def _show(gate: Gate, request: Request) -> Response:
    link = _opened(gate, request)
    page = None if link is None else rendered.page(link.kind, link.subject, link.as_of)
    if page is None:
        return _refused(gate, _GONE, 404)
    embed = request.query_params.get("embed") == "true"
    return _html(
        gate, page, page.at(shared_address(gate.settings, request.path_params["secret"]), embed=embed), embed=embed
    )


def _show_picture(gate: Gate, request: Request) -> Response:
    link = _opened(gate, request)
    drawn = None if link is None else rendered.picture(link.kind, link.subject, link.as_of)
    if drawn is None:
        return PlainTextResponse("Not found", 404)
    return Response(drawn, media_type="image/png", headers={"Cache-Control": "private, max-age=300"})


def _show_print(gate: Gate, request: Request) -> Response:
    """Show the page for printing; the guard admits signed-in visitors only, who may see everything."""
    try:
        kind = Kind(request.path_params["kind"])
    except ValueError:
        return PlainTextResponse("Not found", 404)
    page = rendered.page(kind, request.path_params["subject"])
    if page is None:
        return _refused(gate, "there is nothing behind it", 404)
    return _html(gate, page, page.at(""), embed=False)


def _html(gate: Gate, page: Page, text: bytes, *, embed: bool) -> Response:
    return HTMLResponse(text, headers=_named(shared_headers(gate.settings, page.scripts, embed=embed)))


def _refused(gate: Gate, problem: str, status: int) -> Response:
    text = login_page.page("This link shows nothing", "", problem=problem)
    return HTMLResponse(text, status, headers=_named(login_headers(gate.settings, login_page.STYLE)))


def _named(headers: Headers) -> dict[str, str]:
    return {name.decode(): value.decode("latin-1") for name, value in headers}
