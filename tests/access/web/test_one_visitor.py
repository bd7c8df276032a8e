"""What one visitor of a real page server does stops nobody else, and reaches nobody else's session."""

from __future__ import annotations

import asyncio
import contextlib
import io
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta

import aiohttp
import psutil
import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from access import tokens
from access.web.gate import LONGEST_SECRET
from access.web.limits import BURST, LONGEST_WAIT_S, PAGES_BURST, RATE_PER_S
from lab.roles import Role
from tests.access.web.labs import Lab, lab_served
from tests.actors import ADMIN
from tests.warehouse.sandbox.walled import answering
from webapp.server.connections import MOST_MESSAGE_BYTES

#: Long beside what a busy machine takes for some dozen requests. The test ends its questions itself.
QUESTION_S = 600
SLOW = {"sql": "select sleep_ms(600000)"}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    settings = {"DRAFTHOUSE_WEB_LOGIN": "accounts", "DRAFTHOUSE_SQL_TIMEOUT_S": str(QUESTION_S)}
    with lab_served(tmp_path_factory.mktemp("one_visitor"), settings) as it:
        yield it


def token(lab: Lab, name: str) -> str:
    return tokens.add_token(lab.database, name, "tests", Role.VIEWER, lasts=timedelta(days=1), actor=ADMIN)[1]


def test_a_visitors_third_waiting_question_is_refused_and_others_are_let_in(lab: Lab) -> None:
    asker, other = lab.signed_in("asker"), lab.signed_in("other")

    async def statuses() -> tuple[list[int], list[int]]:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, force_close=True)) as session:

            async def ask() -> int:
                async with session.post(f"{lab.url}/api/v1/sql", json=SLOW, headers={"Cookie": asker}) as answer:
                    return answer.status

            async def look(path: str) -> int:
                async with session.get(f"{lab.url}{path}", headers={"Cookie": other}) as answer:
                    return answer.status

            asking = {asyncio.create_task(ask()) for _ in range(40)}
            refused, waiting = set[asyncio.Task[int]](), asking
            while len(refused) < 37 and waiting:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                refused |= done
            looked = [await look(path) for path in ("/api/v1/me", "/home", "/api/v1/jobs")]
            assert waiting, "all questions had their answers before others were let in"
            while waiting:
                for process in answering():
                    with contextlib.suppress(psutil.NoSuchProcess):
                        process.kill()
                _, waiting = await asyncio.wait(waiting, timeout=0.1)
            return looked, sorted({task.result() for task in refused})

    assert asyncio.run(statuses()) == ([200, 200, 200], [429])


def test_a_token_is_no_session_and_a_session_no_token(lab: Lab) -> None:
    cookie = lab.signed_in("modest")
    name, _, session = cookie.partition("=")
    program = token(lab, "modest")
    assert lab.ask("/api/v1/me", headers={"Authorization": f"Bearer {program}"})[0] == 200
    assert lab.ask("/home", headers={"Cookie": f"{name}={program}"})[0] == 303
    assert lab.websocket(Cookie=f"{name}={program}") == 401
    assert lab.ask("/home", headers={"Cookie": cookie})[0] == 200
    assert lab.ask("/api/v1/me", headers={"Authorization": f"Bearer {session}"})[0] == 401


def test_long_secrets_and_long_headers_are_refused(lab: Lab) -> None:
    for path in ("/warehouse/latest", "/api/v1/me"):
        headers = {"Authorization": f"Bearer {tokens.PREFIX}{'x' * LONGEST_SECRET}"}
        assert lab.ask(path, headers=headers)[0] == 401
        assert lab.ask(path, headers={"User-Agent": "x" * 65_536})[0] == 431


def test_requests_without_a_session_have_a_pace_and_health_has_none(lab: Lab) -> None:
    times = int(BURST + 2 * RATE_PER_S * LONGEST_WAIT_S)

    async def statuses() -> tuple[list[int], int]:
        # A kept connection may be closed by the server just as it is used again, on a busy machine.
        connector = aiohttp.TCPConnector(limit=0, local_addr=("127.0.0.9", 0), force_close=True)
        async with aiohttp.ClientSession(connector=connector) as session:

            async def ask(path: str) -> int:
                headers = {"Authorization": f"Bearer {tokens.PREFIX}{secrets.token_hex(8)}"}
                async with session.get(f"{lab.url}{path}", headers=headers) as answer:
                    return answer.status

            answered = list[int]()
            while 429 not in answered:  # the slower the server, the longer it takes to be asked too often
                answered += await asyncio.gather(*(ask("/warehouse/none") for _ in range(times)))
            return answered, await ask("/healthz")

    answered, healthy = asyncio.run(statuses())
    assert (set(answered), healthy) == ({401, 429}, 200)
    assert answered.count(401) >= BURST


def test_pages_for_printing_have_the_pace_of_pages(lab: Lab) -> None:
    headers = {"Cookie": lab.signed_in("petra")}

    async def statuses() -> list[int]:
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        async with aiohttp.ClientSession(connector=connector, headers=headers) as session:

            async def ask() -> int:
                async with session.get(f"{lab.url}/print/nothing/x") as answer:
                    return answer.status

            answered = list[int]()
            while 429 not in answered:  # as above
                answered += await asyncio.gather(*(ask() for _ in range(150)))
            return answered

    answered = asyncio.run(statuses())
    assert set(answered) == {404, 429}
    assert answered.count(404) >= PAGES_BURST


@asynccontextmanager
async def tab(lab: Lab, cookie: str, session_id: str = "") -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    """A page that goes on with this session, if it may."""
    protocols = ("streamlit", "PLACEHOLDER", session_id) if session_id else ("streamlit", "PLACEHOLDER")
    headers = {"Origin": lab.url, "Cookie": cookie}
    address = f"{lab.url}/_stcore/stream"
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(address, headers=headers, protocols=protocols, max_msg_size=0) as websocket,
    ):
        yield websocket


async def shown(websocket: aiohttp.ClientWebSocketResponse, page: str) -> str:
    """The session's id, once its page is drawn."""
    asking = BackMsg()
    asking.rerun_script.page_name = page
    await websocket.send_bytes(asking.SerializeToString())
    session_id = ""
    async for message in websocket:
        sent = ForwardMsg.FromString(message.data)
        if sent.WhichOneof("type") == "new_session":
            session_id = sent.new_session.initialize.session_id
        if sent.WhichOneof("type") == "script_finished":
            return session_id
    raise AssertionError("the page was closed before it was drawn")


def test_a_session_goes_on_for_whom_it_is_and_for_nobody_else(lab: Lab) -> None:
    owner, thief = lab.signed_in("owner"), lab.signed_in("thief")

    async def sessions() -> list[str]:
        async with tab(lab, owner) as first:
            begun = await shown(first, "account")
            async with tab(lab, thief, begun) as stolen:
                taken = [await shown(stolen, "account")]
        async with tab(lab, thief, begun) as stolen:
            taken.append(await shown(stolen, "account"))
        async with tab(lab, owner, begun) as again:
            resumed = await shown(again, "account")
        assert begun not in taken
        return [begun, resumed]

    begun, resumed = asyncio.run(sessions())
    assert begun == resumed


def test_files_are_taken_by_ones_own_page_that_shows_an_uploader(lab: Lab) -> None:
    submitter, viewer = lab.signed_in("submits", Role.SUBMITTER), lab.signed_in("views")

    async def statuses() -> list[int]:
        async with tab(lab, submitter) as own, tab(lab, viewer) as others, aiohttp.ClientSession() as session:

            async def upload(cookie: str, into: str) -> int:
                form = aiohttp.FormData()
                form.add_field("file", io.BytesIO(b"x" * 1000), filename="x.json")
                headers = {"Cookie": f"{cookie}; {xsrf}", "X-Xsrftoken": xsrf.partition("=")[2]}
                address = f"{lab.url}/_stcore/upload_file/{into}/a-file"
                async with session.put(address, data=form, headers=headers) as answer:
                    return answer.status

            async with session.get(f"{lab.url}/_stcore/health", headers={"Cookie": submitter}) as answer:
                xsrf = answer.headers["Set-Cookie"].partition(";")[0]
            session.cookie_jar.clear()
            mine, theirs = await shown(own, "home"), await shown(others, "external_results")
            before = await upload(submitter, mine)
            await shown(own, "external_results")
            return [
                before,
                await upload(submitter, mine),
                await upload(viewer, theirs),
                await upload(viewer, mine),
                await upload(submitter, "made-up"),
            ]

    assert asyncio.run(statuses()) == [403, 204, 403, 403, 403]


def test_a_page_cannot_command_the_server_of_all_pages(lab: Lab) -> None:
    cookie = lab.signed_in("commander")
    commands = BackMsg(clear_cache=True), BackMsg(set_run_on_save=True), BackMsg(load_git_info=True)

    async def is_obeyed() -> bool:
        """Whether a page hears of what it commanded before the answer to a later sign of life."""
        async with tab(lab, cookie) as websocket:
            await shown(websocket, "home")
            for message in (*commands, BackMsg(app_heartbeat=True)):
                await websocket.send_bytes(message.SerializeToString())
            async for answer in websocket:
                sent = ForwardMsg.FromString(answer.data)
                if sent.session_status_changed.run_on_save or sent.WhichOneof("type") == "heartbeat_ack":
                    return bool(sent.session_status_changed.run_on_save)
        raise AssertionError("the page was closed")

    assert not asyncio.run(is_obeyed())


@pytest.mark.parametrize("message", ["long", "many fields", "many files", "many hashes"])
def test_a_message_of_a_page_has_a_limit(lab: Lab, message: str) -> None:
    cookie = lab.signed_in(message.replace(" ", "-"))

    async def closed() -> int | None:
        async with tab(lab, cookie) as websocket:
            await shown(websocket, "home")
            asking = BackMsg()
            if message == "long":
                asking.rerun_script.query_string = "x" * MOST_MESSAGE_BYTES
            for number in range(10_000 if message == "many fields" else 0):
                asking.rerun_script.widget_states.widgets.add().id = f"{number}"
            if message == "many files":
                asking.file_urls_request.file_names.extend([""] * 10_000)
            if message == "many hashes":
                asking.rerun_script.cached_message_hashes.extend([""] * 10_000)
            with contextlib.suppress(ConnectionError):  # it may be closed before all of it is sent
                await websocket.send_bytes(asking.SerializeToString())
            async for _ in websocket:
                pass
            return websocket.close_code

    assert asyncio.run(closed()) in (1009, 1006)  # the second where the connection broke before it was read
