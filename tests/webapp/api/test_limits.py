"""What a request of the API may take, by its route: a body's bytes and values, turns, streams, bytes of an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient
from starlette.types import Message

from access.web.gate import ACTOR, AGAIN, GATE, Gate
from host.settings import Settings
from lab.errors import BusyError
from lab.roles import Actor, Role
from tests.actors import ADMIN
from tests.webapp.api.inside import inside
from tests.webapp.homes import make_home
from warehouse.app_db.engine import app_engine
from webapp.api import watching
from webapp.api.app import api
from webapp.api.calls import Call
from webapp.api.limits import MOST_JSON_BYTES, MOST_VALUES, Turns
from webapp.api.watching import MOST_STREAMS, Watching

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return make_home(tmp_path_factory.mktemp("limits"))


@pytest.fixture(scope="module")
def client(settings: Settings) -> Iterator[TestClient]:
    with inside(settings) as it:
        it.base_url = it.base_url.join("/api/v1/")
        yield it


@pytest.mark.parametrize(
    "path", ["jobs/imports/priority", "jobs/datasets/retry", "dashboards/imports/figures", "sql", "imports/x"]
)
def test_a_body_is_limited_by_its_route_not_by_words(client: TestClient, path: str) -> None:
    answer = client.post(path, content=b" " * (MOST_JSON_BYTES + 1), headers=JSON)
    if path == "imports/x":
        assert answer.status_code == 404
    else:
        assert (answer.status_code, answer.json()["detail"]) == (413, "the body is longer than 200 kB")


def test_a_study_may_be_as_long_as_its_toml(client: TestClient) -> None:
    long = client.post("studies/plan", json={"toml": "#" + 'ü"' * 99_999})
    assert (long.status_code, long.json()["problems"][0]["field"]) == (422, "name")  # it was read
    assert client.post("studies/plan", json={"toml": "#" * 200_001}).status_code == 422
    assert client.post("studies/plan", content=b" " * 500_001, headers=JSON).status_code == 413


@pytest.mark.parametrize("value", ["[]", "{}", "1", '{"a":[1]}'])
def test_a_body_with_very_many_values_is_not_parsed(client: TestClient, value: str) -> None:
    values = ",".join([value] * (MOST_VALUES + 1))
    answer = client.post("studies/plan", content=f'{{"study": {{"x": [{values}]}}}}', headers=JSON)
    assert (answer.status_code, answer.json()["detail"]) == (413, f"the body has more than {MOST_VALUES:,} values")


@pytest.mark.parametrize("text", [",[{" * 10_000, '\\"' * 10_000, "\\\\"])
def test_commas_and_brackets_in_texts_are_no_values(client: TestClient, text: str) -> None:
    content = f'{{"toml": "# {text}"}}'
    assert client.post("studies/plan", content=content, headers=JSON).status_code == 422
    unclosed = client.post("studies/plan", content=content[:-2] + '"' * 1000, headers=JSON)
    assert unclosed.status_code == 422


@pytest.mark.parametrize(("method", "path"), [("POST", "/imports"), ("PUT", "/datasets/mine")])
def test_files_are_not_read_of_whom_may_not_send_them(settings: Settings, method: str, path: str) -> None:
    assert asyncio.run(_answered(settings, Role.VIEWER, method, path, 200 * 2**20)) == 403
    assert asyncio.run(_answered(settings, Role.ADMINISTRATOR, method, path, 300 * 2**20)) == 413


async def _answered(settings: Settings, role: Role, method: str, path: str, length: int) -> int:
    """The status of the answer to a body of which nothing comes."""
    gate, statuses = Gate(settings), []

    async def receive() -> Message:
        raise AssertionError("the body is read")

    async def send(message: Message) -> None:
        await asyncio.sleep(0)
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    actor = Actor("somebody", role)
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": b"",
        "headers": [(b"content-length", b"%d" % length)],
        "app": None,
        ACTOR: actor,
        GATE: gate,
        AGAIN: lambda: actor,
    }
    await api()(scope, receive, send)
    (status,) = statuses
    assert isinstance(status, int)
    return status


def test_a_visitors_operations_take_turns_and_leave_some_to_others() -> None:
    async def tried() -> tuple[int, int]:
        turns, running, most_of_one, most = Turns(most=3, most_each=2), {"a": 0, "b": 0}, 0, 0

        async def operate(visitor: str) -> None:
            nonlocal most_of_one, most
            async with turns.one(visitor):
                running[visitor] += 1
                most_of_one, most = max(most_of_one, running["a"]), max(most, sum(running.values()))
                await asyncio.sleep(0)
                running[visitor] -= 1

        await asyncio.gather(*(operate("a") for _ in range(20)), *(operate("b") for _ in range(20)))
        assert not turns._own
        return most_of_one, most

    assert asyncio.run(tried()) == (2, 3)


def test_a_visitor_has_so_many_streams_and_all_streams_look_once(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "_POLL_EVERY_S", 3600)
    looks: list[str] = []

    def look(_database: object, job_id: str) -> tuple[str, bool]:
        looks.append(job_id)
        return "{}", False

    async def tried() -> None:
        watched, call = Watching(look), Call(ADMIN, Gate(settings), lambda: ADMIN)
        events: asyncio.Queue[object] = asyncio.Queue()

        async def send(message: Message) -> None:
            if message["type"] == "http.response.body":
                await events.put(message["body"])

        async def receive() -> Message:
            return await asyncio.Future()

        streams = [watched.stream(call, "job") for _ in range(MOST_STREAMS)]
        tasks = [asyncio.create_task(stream({"type": "http"}, receive, send)) for stream in streams]
        for _ in streams:
            assert await events.get() == b"event: job\ndata: {}\n\n"
        assert looks == ["job"]
        with pytest.raises(BusyError, match=f"in {MOST_STREAMS} streams"):
            watched.stream(call, "job")
        watched.stream(Call(Actor("another", Role.VIEWER), call.gate, call.again), "job")
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert not watched._jobs
        watched.stream(call, "job")

    asyncio.run(tried())


def test_an_answer_is_its_visitors_until_it_is_sent(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Gate, "engine", app_engine(settings.app_database_url))
    small = settings.model_copy(update={"web_memory_mib": 4})  # of which one visitor has one
    with inside(small) as client:
        sql = {"sql": "select repeat('x', 100) from range(9000)"}
        for _ in range(3):
            assert client.post("/api/v1/sql", json=sql).status_code == 200
        sql = {"sql": "select repeat('x', 200) from range(9000)"}
        refused = client.post("/api/v1/sql", json=sql)
        assert (refused.status_code, "would exceed 1" in refused.json()["detail"]) == (429, True)


def test_an_export_is_refused_by_names_that_cannot_be_files(client: TestClient) -> None:
    for names, why in (
        (("x", "x/y"), "x was sent both as a file and as a folder"),
        (("x", "x"), "x was sent twice"),
        (("n" * 300,), "a name may have 255 bytes at most"),
        (("/".join("abcdefghij"),), "at most 8 folders"),
    ):
        refused = client.post("imports", files=[("exported", (name, b"x")) for name in names])
        assert (refused.status_code, why in refused.json()["detail"]) == (400, True), names
