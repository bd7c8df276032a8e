"""The server's routes other than pages: the login, the logout and the health checks."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from functools import partial
from urllib.parse import parse_qs, urlsplit

import sqlalchemy as sa
from anyio import CapacityLimiter, to_thread
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from access import accounts, sessions
from access.addresses import UNKNOWN, network_of
from access.web import login_page, oidc
from access.web.gate import Gate
from access.web.guard import LOGIN, LOGOUT, local_path, set_cookie
from access.web.headers import login_headers
from access.web.limits import Hashing, TooManyWaitError
from access.web.start_token import GONE, NoTokenError
from lab.errors import UserError
from warehouse.app_db.engine import DATABASE_ERRORS, reading
from warehouse.queries.connect import open_warehouse

_MOST_FORM_BYTES = 8_192
#: How long a form may take to arrive: its sender has not signed in yet.
_FORM_COMES_S = 20.0
#: How long a visitor may take at the provider.
_ATTEMPT_LASTS_S = 600
#: Threads for a slow provider, so that waiting for it takes no thread from others.
_AT_PROVIDER = CapacityLimiter(4)
#: For how long the result of the readiness check is cached.
_POLL_INTERVAL_S = 1.0
#: The delay before a refusal for too many waiting visitors, so that instant retries cost other visitors nothing.
_REFUSED_AFTER_S = 1.0
_CLOSED, _NOT_IN = "Nobody can sign in now", "You are not signed in"
_AWAY = "the lab's database does not answer: try again in a moment"
Answer = Callable[[Gate, Request], Awaitable[Response]]


def access_routes(gate: Gate) -> list[Route]:
    """Return the routes for this way of signing in."""
    by_login: dict[str, tuple[Answer, Answer]] = {
        "none": (_nothing_to_do, _nothing_to_do),
        "accounts": (_show_sign_in, _sign_in),
        "token": (_show_token, _take_token),
        "oidc": (_show_provider, _show_provider),
    }
    show, take = by_login[gate.settings.web_login]
    routes = [_route(LOGIN, gate, show, take), _route(LOGOUT, gate, _show_sign_out, _sign_out)]
    if gate.settings.web_login == "accounts":
        routes.append(_route(f"{LOGIN}/link/{{secret}}", gate, _show_link, _use_link))
    if gate.settings.web_login == "oidc":
        provider = oidc.Provider(gate.settings)
        routes.append(_route(f"{LOGIN}/oidc", gate, partial(_to_provider, provider), _nothing_here))
        routes.append(_route(oidc.BACK, gate, partial(_from_provider, provider), _nothing_here))
    routes.append(Route(f"{LOGIN}/{{rest:path}}", partial(_nothing_here, gate)))
    return [*routes, Route("/healthz", _healthz), Route("/readyz", partial(_readyz, gate))]


def _route(path: str, gate: Gate, show: Answer, take: Answer) -> Route:
    async def answer(request: Request) -> Response:
        try:
            response = await (take if request.method == "POST" else show)(gate, request)
        except NoTokenError:
            response = _html(login_page.page(_CLOSED, "", problem=GONE), 503)
        except (UserError, *DATABASE_ERRORS):
            response = _html(login_page.page(_CLOSED, "", problem=_AWAY), 503)
        for name, value in login_headers(gate.settings, login_page.STYLE):
            response.headers[name.decode()] = value.decode()
        return response

    return Route(path, answer, methods=["GET", "POST"])


async def _healthz(_request: Request) -> JSONResponse:
    """Respond while the process runs: a supervisor restarts a process that does not."""
    return JSONResponse({"status": "ok"})


async def _readyz(gate: Gate, _request: Request) -> JSONResponse:
    """Report whether pages can be shown: a proxy sends visitors only to a server that can."""
    found = await run_in_threadpool(_parts, gate, int(time.monotonic() / _POLL_INTERVAL_S))
    is_ready = set(found.values()) == {"ok"}
    return JSONResponse({"status": "ready" if is_ready else "not ready", **found}, 200 if is_ready else 503)


@functools.lru_cache(1)
def _parts(gate: Gate, _look: int) -> dict[str, str]:
    """Check database and warehouse, once for all requests within a moment: anybody may send them."""
    found = {"database": "ok", "warehouse": "ok"}
    try:
        with reading(gate.engine).connect() as connection:
            connection.execute(sa.select(1))
    except (UserError, *DATABASE_ERRORS):
        found["database"] = "away"
    try:
        with closing(open_warehouse(gate.settings.warehouse_file)):
            pass
    except UserError:
        found["warehouse"] = "away"
    return found


async def _nothing_here(_gate: Gate, _request: Request) -> Response:
    """Return 404 below the login's address, which Streamlit would otherwise serve to anybody."""
    return PlainTextResponse("Not found", 404)


async def _nothing_to_do(_gate: Gate, _request: Request) -> Response:
    return RedirectResponse("/", 303)


async def _show_sign_in(_gate: Gate, request: Request) -> Response:
    return _html(login_page.sign_in(_then(request)))


async def _sign_in(gate: Gate, request: Request) -> Response:
    form, address = await _form(request), _address(request)
    name, then = form.get("name", "").strip(), form.get("next", "")
    sign_in = partial(sessions.sign_in, gate.engine, name, form.get("password", ""), address)
    try:
        if await run_in_threadpool(sessions.is_known, gate.engine, name, address):
            secret = await _hashing().at_once(sign_in)
        else:
            secret = await _hashing().in_turn(network_of(address), sign_in)
    except TooManyWaitError as error:
        await asyncio.sleep(_REFUSED_AFTER_S)
        return _html(login_page.sign_in(then, name, str(error)), 429)
    except UserError as error:
        return _html(login_page.sign_in(then, name, str(error)), 401)
    response = RedirectResponse(local_path(then), 303)
    set_cookie(response, gate, secret)
    return response


@functools.cache
def _hashing() -> Hashing:
    """Return the queues of this process."""
    return Hashing()


async def _show_link(gate: Gate, request: Request) -> Response:
    """Show the form without using up the link: mail programs and chats open links, too."""
    try:
        name = await run_in_threadpool(accounts.user_of_link, gate.engine, request.path_params["secret"])
    except UserError as error:
        return _html(login_page.refused(str(error)), 404)
    return _html(login_page.choose_password(name))


async def _use_link(gate: Gate, request: Request) -> Response:
    form, secret = await _form(request), request.path_params["secret"]
    try:
        name = await run_in_threadpool(accounts.user_of_link, gate.engine, secret)
    except UserError as error:
        return _html(login_page.refused(str(error)), 404)
    if form.get("password") != form.get("again"):
        return _html(login_page.choose_password(name, "the two passwords differ: type the same one twice"), 400)
    try:
        await _hashing().at_once(partial(accounts.set_password, gate.engine, secret, form.get("password", "")))
    except UserError as error:
        return _html(login_page.choose_password(name, str(error)), 400)
    response = RedirectResponse("/", 303)
    set_cookie(response, gate, await run_in_threadpool(sessions.begin, gate.engine, name, _address(request)))
    return response


async def _show_token(_gate: Gate, request: Request) -> Response:
    return _html(login_page.start_token(_then(request)))


async def _take_token(gate: Gate, request: Request) -> Response:
    form = await _form(request)
    then = form.get("next", "")
    if not gate.is_start_token(form.get("token", "").strip()):
        return _html(login_page.start_token(then, "this is not the token of this start"), 401)
    response = RedirectResponse(local_path(then), 303)
    set_cookie(response, gate, gate.token_cookie())
    return response


async def _show_provider(gate: Gate, request: Request) -> Response:
    issuer = urlsplit(gate.settings.web_oidc_issuer).netloc
    return _html(login_page.at_provider(_then(request), issuer))


async def _to_provider(provider: oidc.Provider, gate: Gate, request: Request) -> Response:
    attempt = oidc.Attempt(then=_then(request))
    try:
        address = await to_thread.run_sync(provider.address, attempt, limiter=_AT_PROVIDER)
    except UserError as error:
        return _html(login_page.refused(str(error), _NOT_IN), 502)
    response = RedirectResponse(address, 303)
    set_cookie(response, gate, attempt.packed(), f"{gate.cookie}-oidc", lasts_s=_ATTEMPT_LASTS_S)
    return response


async def _from_provider(provider: oidc.Provider, gate: Gate, request: Request) -> Response:
    cookie = f"{gate.cookie}-oidc"

    def come_in() -> tuple[str, str]:
        attempt = oidc.Attempt.unpacked(request.cookies.get(cookie, ""))
        claims = provider.claims(attempt, request.query_params)
        name, role = oidc.name_in(gate.settings, claims), oidc.role_in(gate.settings, claims)
        accounts.welcome(gate.engine, name, role, oidc.role_of_new(gate.settings))
        return sessions.begin(gate.engine, name, _address(request)), attempt.then

    try:
        secret, then = await to_thread.run_sync(come_in, limiter=_AT_PROVIDER)
    except UserError as error:
        response: Response = _html(login_page.refused(str(error), _NOT_IN), 403)
    else:
        response = RedirectResponse(local_path(then), 303)
        set_cookie(response, gate, secret)
    set_cookie(response, gate, "", cookie, lasts_s=0)
    return response


async def _show_sign_out(gate: Gate, request: Request) -> Response:
    """Sign out at once after a click on our own page; show a confirmation after a link from elsewhere."""
    if request.headers.get("sec-fetch-site") == "same-origin":
        return await _sign_out(gate, request)
    return _html(login_page.sign_out())


async def _sign_out(gate: Gate, request: Request) -> Response:
    cookie = request.cookies.get(gate.cookie)
    if cookie and gate.has_users:
        await run_in_threadpool(sessions.end, gate.engine, cookie)
        gate.forget(cookie)
    response = RedirectResponse(LOGIN, 303)
    response.delete_cookie(gate.cookie, path="/", secure=gate.settings.web_https, httponly=True, samesite="lax")
    return response


def _address(request: Request) -> str:
    """Return the visitor's address, as a trusted proxy reports it; UNKNOWN for anything that is not an address."""
    address = request.client.host if request.client else ""
    return address if network_of(address) != UNKNOWN else UNKNOWN


def _then(request: Request) -> str:
    return local_path(request.query_params.get("next", "/"))


def _html(text: str, status: int = 200) -> HTMLResponse:
    return HTMLResponse(text, status)


async def _form(request: Request) -> dict[str, str]:
    """Return the last value of each field of the form; empty if the form is larger than any of ours."""
    body = b""
    try:
        async with asyncio.timeout(_FORM_COMES_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > _MOST_FORM_BYTES:
                    return {}
    except TimeoutError as late:
        raise HTTPException(408) from late
    except ClientDisconnect as gone:
        raise HTTPException(400) from gone  # nobody reads the answer, and the log needs no traceback
    return {
        name: values[-1] for name, values in parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True).items()
    }
