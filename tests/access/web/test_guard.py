"""A real page server, asked as programs and hostile pages would: without a cookie, by other names, from other sites."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import Iterator
from http.cookies import SimpleCookie
from urllib.parse import urlsplit

import aiohttp
import pytest

from access import accounts
from access.web.limits import MOST_OF_ADDRESS, MOST_OF_ALL, MOST_OPEN
from lab.roles import Role
from tests.access.web.labs import PASSWORD, Lab, lab_served
from tests.actors import ADMIN
from tests.workers.homes import until


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab with accounts and without a user, on every address of this machine."""
    guarded = {
        "DRAFTHOUSE_WEB_LOGIN": "accounts",
        "DRAFTHOUSE_WEB_HOST": "0.0.0.0",  # noqa: S104 - what is tested
        "DRAFTHOUSE_WEB_PUBLIC_HOSTS": "127.0.0.1,lab.example.org",
        "DRAFTHOUSE_WEB_FRAME_ANCESTORS": "https://wiki.example.org",
    }
    with lab_served(tmp_path_factory.mktemp("guarded"), guarded) as it:
        yield it


@pytest.mark.parametrize("path", ["/", "/home", "/submit?preset=demo", "/unknown/page", "/loginx"])
def test_a_page_without_a_session_leads_to_the_login_and_back(lab: Lab, path: str) -> None:
    status, headers, _ = lab.ask(path)
    assert status == 303
    assert headers["location"].startswith("/login?next=%2F")


@pytest.mark.parametrize("path", ["/login/", "/login/x", "/login/link/a/b", "/login/oidc"])
def test_below_the_login_nothing_else_answers(lab: Lab, path: str) -> None:
    assert lab.ask(path)[::2] == (404, "Not found")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/_stcore/health"),
        ("GET", "/_stcore/host-config"),
        ("GET", "/media/0123.png"),
        ("GET", "/static/js/index.js"),
        ("GET", "/component/x"),
        ("PUT", "/_stcore/upload_file/session/file"),
        ("DELETE", "/_stcore/upload_file/session/file"),
        ("POST", "/home"),
    ],
)
def test_the_parts_of_a_page_are_refused_without_a_session(lab: Lab, method: str, path: str) -> None:
    assert lab.ask(path, method)[::2] == (401, "Sign in first.")
    cookie = f"{_cookie_name(lab)}=made-up"
    assert lab.ask(path, method, headers={"Cookie": cookie})[0] == 401


def test_the_websocket_is_refused_without_a_session_and_open_with_one(lab: Lab) -> None:
    assert lab.websocket() == 401
    assert lab.websocket(Cookie=f"{_cookie_name(lab)}=made-up") == 401
    cookie = lab.signed_in("wendy")
    assert lab.websocket(Cookie=cookie) == 101
    assert lab.ask("/home", headers={"Cookie": cookie})[0] == 200
    accounts.disable(lab.database, "wendy", actor=ADMIN)
    until(lambda: lab.websocket(Cookie=cookie) == 401, "the server asks again whose session it is")


def test_too_many_open_pages_are_refused_and_others_do_not_notice(lab: Lab) -> None:
    cookie, other = lab.signed_in("hoarder"), lab.signed_in("modest")
    reading = list[asyncio.Task[None]]()

    async def read_on(page: aiohttp.ClientWebSocketResponse) -> None:
        async for _ in page:
            pass

    async def refused() -> list[int]:
        headers = {"Origin": lab.url, "Cookie": cookie}
        async with aiohttp.ClientSession() as session, contextlib.AsyncExitStack() as stack:
            for _ in range(MOST_OPEN):
                opened = session.ws_connect(f"{lab.url}/_stcore/stream", headers=headers, protocols=("streamlit",))
                page = await stack.enter_async_context(opened)
                reading.append(asyncio.create_task(read_on(page)))  # which answers the server's pings
            statuses = []
            for own in (cookie, other):
                async with session.get(f"{lab.url}/home", headers={"Cookie": own}) as answer:
                    statuses.append(answer.status)
                    text = await answer.text()
                    assert (f"You have {MOST_OPEN} pages of this lab open" in text) == (own == cookie)
            opened_too = [await asyncio.to_thread(lab.websocket, Cookie=own) for own in (cookie, other)]
            return [*statuses, *opened_too]

    assert asyncio.run(refused()) == [429, 200, 429, 101]
    until(lambda: lab.websocket(Cookie=cookie) == 101, "the server has seen that the pages are closed")


def test_an_open_websocket_ends_with_its_session(lab: Lab) -> None:
    cookie = lab.signed_in("will")

    async def messages_until_closed() -> int:
        headers = {"Origin": lab.url, "Cookie": cookie}
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(f"{lab.url}/_stcore/stream", headers=headers, protocols=("streamlit",)) as websocket,
        ):
            accounts.disable(lab.database, "will", actor=ADMIN)
            for number in itertools.count(1):
                await websocket.send_bytes(b"")
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.25):
                        while not websocket.closed:
                            await websocket.receive()
                if websocket.closed:
                    return number
        raise AssertionError

    assert asyncio.run(asyncio.wait_for(messages_until_closed(), 600))


@pytest.mark.parametrize("host", ["evil.example", "lab.example.org.evil.example", "0.0.0.0:8501"])
def test_other_names_are_refused_even_with_a_session(lab: Lab, host: str) -> None:
    for path in ("/", "/login", "/_stcore/health", "/media/x"):
        assert lab.ask(path, headers={"Host": host})[0] == 403
    assert lab.websocket(Host=host) == 403


@pytest.mark.parametrize("origin", ["https://evil.example", "http://127.0.0.1:1", "null"])
def test_pages_of_other_sites_are_refused_even_with_a_session(lab: Lab, origin: str) -> None:
    cookie = lab.signed_in(f"o{abs(hash(origin))}")
    assert lab.websocket(Origin=origin, Cookie=cookie) == 403
    for path in ("/login", "/logout", "/_stcore/upload_file/s/f"):
        assert lab.ask(path, "POST", headers={"Origin": origin, "Cookie": cookie})[0] == 403


def test_behind_a_proxy_the_public_name_is_answered(lab: Lab) -> None:
    cookie = lab.signed_in("pat")
    assert lab.websocket(Origin="https://lab.example.org", Cookie=cookie) == 101
    assert lab.websocket(Origin="https://lab.example.org", Host="lab.example.org", Cookie=cookie) == 101


def test_health_and_readiness_answer_anybody_and_apart(lab: Lab) -> None:
    assert lab.ask("/healthz", headers={"Host": "10.0.0.7:8501"})[::2] == (200, '{"status":"ok"}')
    assert lab.ask("/readyz")[::2] == (200, '{"status":"ready","database":"ok","warehouse":"ok"}')
    away = lab.settings.warehouse_file.with_suffix(".away")
    lab.settings.warehouse_file.rename(away)
    not_ready = 503, '{"status":"not ready","database":"ok","warehouse":"away"}'
    try:
        until(lambda: lab.ask("/readyz")[::2] == not_ready, "the answer of before is out of date")
        assert lab.ask("/healthz")[0] == 200
    finally:
        away.rename(lab.settings.warehouse_file)


def test_own_figures_are_closed_and_commands_come_from_chosen_sites(lab: Lab) -> None:
    cookie = lab.signed_in("max", Role.ADMINISTRATOR)
    assert lab.ask("/_stcore/metrics", headers={"Cookie": cookie})[0] == 404
    commands = json.loads(lab.ask("/_stcore/host-config", headers={"Cookie": cookie})[2])
    assert commands["allowedOrigins"] == ["https://wiki.example.org"]


def test_every_answer_has_the_headers_that_guard_it(lab: Lab) -> None:
    cookie = lab.signed_in("heidi")
    for path, given in (("/home", {"Cookie": cookie}), ("/login", {}), ("/media/x", {}), ("/healthz", {})):
        headers = lab.ask(path, headers=given)[1]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        assert "object-src 'none'" in headers["content-security-policy"] or path == "/login"
        assert "'unsafe-" not in headers["content-security-policy"].partition("style-src")[0]
    page = lab.ask("/home", headers={"Cookie": cookie})[1]["content-security-policy"]
    assert page.endswith("frame-ancestors 'self' https://wiki.example.org")
    assert f"connect-src 'self' ws://{lab.host} wss://{lab.host};" in page
    script = lab.ask("/static/js/none.js", headers={"Cookie": cookie})[1]
    assert (script["x-content-type-options"], script.get("content-security-policy")) == ("nosniff", None)
    assert "content-security-policy" in lab.ask("/static/media/none.svg", headers={"Cookie": cookie})[1]
    login = lab.ask("/login")[1]
    assert login["content-security-policy"].startswith("default-src 'none'")
    assert login["content-security-policy"].endswith("frame-ancestors 'none'")
    assert login["cache-control"] == "no-store"


def test_the_cookie_is_closed_to_scripts_and_other_sites(lab: Lab) -> None:
    accounts.add_user(lab.database, "carol", Role.VIEWER, actor=ADMIN)
    accounts.set_password(lab.database, accounts.new_link(lab.database, "carol", actor=ADMIN), PASSWORD)
    fields = {"name": "carol", "password": PASSWORD, "next": "/results?job=1"}
    status, headers, _ = lab.ask("/login", "POST", data=fields)
    assert (status, headers["location"]) == (303, "/results?job=1")
    (cookie,) = SimpleCookie(headers["set-cookie"]).values()
    assert (cookie["httponly"], cookie["samesite"], cookie["path"], cookie["max-age"]) == (True, "lax", "/", "")
    out = lab.ask("/logout", "POST", headers={"Cookie": f"{cookie.key}={cookie.value}"})
    assert (out[0], out[1]["location"]) == (303, "/login")
    theirs = {"Cookie": f"{cookie.key}={cookie.value}"}
    until(lambda: lab.ask("/home", headers=theirs)[0] == 303, "the server asks again whose session it is")


@pytest.mark.parametrize("target", ["https://evil.example", "//evil.example", "/\\evil.example", "evil", "/logout", ""])
def test_after_signing_in_nobody_is_sent_elsewhere(lab: Lab, target: str) -> None:
    name = f"n{abs(hash(target))}"
    accounts.add_user(lab.database, name, Role.VIEWER, actor=ADMIN)
    accounts.set_password(lab.database, accounts.new_link(lab.database, name, actor=ADMIN), PASSWORD)
    fields = {"name": name, "password": PASSWORD, "next": target}
    assert lab.ask("/login", "POST", data=fields)[1]["location"] == "/"


def test_a_wrong_password_is_said_and_what_was_typed_is_escaped(lab: Lab) -> None:
    typed = {"name": '"><script>alert(1)</script>', "password": "x", "next": '"><b>'}
    status, headers, body = lab.ask("/login", "POST", data=typed)
    assert (status, "set-cookie" in headers) == (401, False)
    assert "The name or the password is wrong." in body
    assert "<script>" not in body
    assert "&lt;script&gt;" in body
    assert lab.ask("/login", "POST", data={"name": "x" * 9000, "password": "x"})[0] == 401


def test_many_who_try_passwords_do_not_keep_others_waiting(lab: Lab) -> None:
    cookie = lab.signed_in("paula")

    async def try_name(number: int, network: int) -> int:
        """As many at each address as may wait there."""
        own = aiohttp.TCPConnector(local_addr=(f"127.0.{network}.{number % (MOST_OF_ALL // MOST_OF_ADDRESS)}", 0))
        async with (
            aiohttp.ClientSession(connector=own) as session,
            session.post(f"{lab.url}/login", data={"name": f"nobody{number}", "password": "x"}) as answer,
        ):
            return answer.status

    async def waiting_when_the_page_came(network: int) -> int:
        async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
            tries = [asyncio.create_task(try_name(number, network)) for number in range(MOST_OF_ALL)]
            await asyncio.wait(tries, return_when=asyncio.FIRST_COMPLETED)
            async with session.get(f"{lab.url}/home", headers={"Cookie": cookie}) as page:
                assert page.status == 200
            waiting = sum(not tried.done() for tried in tries)
            assert set(await asyncio.gather(*tries)) == {401}
        return waiting

    networks = itertools.count(1)  # a busy machine may see the page so late that nobody waits any more: then again
    until(lambda: asyncio.run(waiting_when_the_page_came(next(networks))), "the page comes while some still wait")


def test_a_link_is_looked_at_any_number_of_times_and_used_once(lab: Lab) -> None:
    link = lab.link("lena", Role.SUBMITTER)
    for _ in range(2):
        assert "You are lena." in lab.ask(link)[2]
    wrong = lab.ask(link, "POST", data={"password": PASSWORD, "again": PASSWORD + "x"})
    assert (wrong[0], "The two passwords differ" in wrong[2]) == (400, True)
    short = lab.ask(link, "POST", data={"password": "short", "again": "short"})
    assert (short[0], "A password has 10 to 256 characters." in short[2]) == (400, True)
    fields = {"password": PASSWORD, "again": PASSWORD}
    assert lab.ask(link, "POST", data=fields)[0] == 303
    for answer in (lab.ask(link), lab.ask(link, "POST", data=fields), lab.ask("/login/link/made-up")):
        assert (answer[0], "This link was already used or has expired" in answer[2]) == (404, True)


def _cookie_name(lab: Lab) -> str:
    return f"drafthouse-{urlsplit(lab.url).port}"
