"""Whatever a server says, and wherever it is silent, costs one request or one page: never the job or whole answers."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs import queue
from jobs.datasets.prompt import Prompt
from jobs.engines.kinds import KINDS
from jobs.engines.kinds.sglang import METRICS as SGLANG
from jobs.engines.kinds.tensorrt_llm import METRICS as TENSORRT_LLM
from jobs.engines.kinds.vllm import METRICS as VLLM
from lab.errors import EngineError
from lab.metrics.records import RequestRecord, ServerCounters
from lab.study import Load
from tests.actors import ADMIN
from tests.warehouse.asking import ask
from tests.warehouse.runs import circumstances, records, run_record
from tests.workers.homes import Home, worked
from tests.workers.load.builders import params
from tests.workers.studies.hostile_server import Says, serving
from warehouse.bundles.run_bundle import find_bundles, read_bundle, write_bundle
from warehouse.ingest.service import ingest_all
from workers import run_measurement
from workers.engine_runtime import readiness
from workers.engine_runtime.readiness import Ready, reach
from workers.load import client
from workers.load.client import Endpoint, open_session
from workers.load.connections import Connections
from workers.load.driver import drive
from workers.probes import engine_metrics
from workers.probes.engine_metrics import GaugeReading, Gauges, read_counters
from workers.worker import Worker

RESET, METRICS = "/reset_prefix_cache", "/metrics"
HALF, BEL = "\ud83d", "\x1b]52;c;x\x07"
nasty_texts = st.sampled_from([HALF, "\udca9", "\0", BEL, "\u202e\x9b31m", "é" * 40_000, ""]) | st.text(
    st.characters(), max_size=20
)
numbers = st.sampled_from(["1", "0", "-5", "NaN", "+Inf", "9e307", "9007199254740992", "2147483648", "x", ""])
json_values = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | nasty_texts
KEYS = (
    "choices", "text", "finish_reason", "usage", "prompt_tokens", "completion_tokens", "error", "object", "message",
    "metrics", "speculative_decoding", "num_spec_steps", "per_step_drafted", "per_step_accepted", "token_ids",
    "acceptance_histogram_by_draft_length", "completion_tokens_details", "reasoning_tokens", "input_tokens",
)  # fmt: skip
documents = st.recursive(
    json_values, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner), max_leaves=8
)
NAMES = sorted(
    {*VLLM.counters.values(), *VLLM.gauges.values(), *SGLANG.counters.values(), *SGLANG.gauges.values()}
    | {str(VLLM.accepted_per_position)}
)


@st.composite
def metric_lines(draw: st.DrawFn) -> str:
    label, name = draw(nasty_texts), draw(st.sampled_from(NAMES))
    key = draw(st.sampled_from(["position", "pos", "model_name"]))
    labels = draw(st.sampled_from(["", f'{{{key}="{label}"}}', f'{{{key}="0"}}', '{position="-1"}', "{"]))
    return f"{name}{labels} {draw(numbers)}\n" * draw(st.integers(1, 2))


servers = st.builds(
    Says,
    refuses_each=st.integers(0, 3),
    refusal=documents.map(json.dumps) | nasty_texts.map(lambda text: json.dumps({"error": {"message": text}})),
    events=st.lists(documents.map(json.dumps), max_size=2).map(tuple),
    text=nasty_texts,
    finish=nasty_texts,
    content_type=st.sampled_from(["text/event-stream", "application/json", "\udcff\udced", "x" * 3000]),
    body=st.none() | nasty_texts,
    version=nasty_texts,
    metrics=st.lists(metric_lines(), max_size=12).map("".join) | nasty_texts,
)


def is_storable(text: str | None) -> bool:
    return text is None or (text.encode() is not None and "\0" not in text)


async def measured(
    url: str,
) -> tuple[Ready | str, tuple[RequestRecord, ...], ServerCounters | str, GaugeReading]:
    """What a worker does with a running server, as it does it; a text is why something is unknown."""
    ready: Ready | str
    counters: ServerCounters | str
    endpoint = Endpoint(url, "m", foreign=True)
    async with open_session(endpoint) as session, Connections() as connections:
        try:
            ready = await reach(endpoint, KINDS["vllm"], 600.0)
        except EngineError as error:
            ready = str(error)
        prompts = [Prompt(f"p{place}", None, "Count.") for place in range(3)]
        load = Load(max_concurrency=2, num_prompts=3)
        done = await drive(connections, endpoint, prompts, load=load, params=params(4), seed=0)
        try:
            counters = await read_counters(session, url, (VLLM, SGLANG, TENSORRT_LLM), required=False)
        except EngineError as error:
            counters = str(error)
        return ready, done.requests, counters, await Gauges(Endpoint(url, "m"), (VLLM, SGLANG)).read()


def test_whatever_a_server_says_is_stored_and_ingested(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    bundles, number = home.settings.bundles, 0

    @settings(max_examples=60, deadline=None)
    @given(servers)
    def each(says: Says) -> None:
        nonlocal number
        number += 1
        with serving(it=says) as server:
            ready, requests, counters, gauges = asyncio.run(measured(f"{server.url}/it"))
        assert len(requests) == 3
        for request in requests:
            assert all(map(is_storable, (request.error, request.finish_reason, request.output_text)))
            assert len(request.error or "") <= 2_000
        run = run_record(
            run_id=f"run-{number}",
            load=Load(max_concurrency=2, num_prompts=3),
            counters_before=ServerCounters(),
            counters_after=None if isinstance(counters, str) else counters,
            counters_problem=counters if isinstance(counters, str) else None,
            circumstances=circumstances(engine_version=ready.version if isinstance(ready, Ready) else ready),
        )
        folder = write_bundle(bundles, run, requests, (), None)
        assert records(read_bundle(folder).requests) == requests
        assert gauges.engine_running is None or 0 <= gauges.engine_running < 2**31

    each()
    assert "error inside Drafthouse" not in caplog.text
    ingest_all(home.settings)
    assert ask(home.settings, "select path, error from rejected_bundles") == []
    assert ask(home.settings, "select count(*) from runs") == [(number,)]


def of_servers(home: Home, url: str, *names: str, requests: int = 4) -> dict[str, Any]:
    arms = [
        {"name": name, "engine": "endpoint", "server": {"base_url": f"{url}/{name}", "served_model": "m"}}
        for name in names
    ]
    workload = {"output_tokens": 4, "ignore_eos": False} | home.prompts
    return {
        "arms": [arms[0] | {"baseline": True}, *arms[1:]],
        "workloads": [workload],
        "loads": [{"max_concurrency": 2, "num_prompts": requests}],
    }


def events_of(saying: str) -> tuple[str, ...]:
    return (json.dumps({"error": {"message": saying}}),)


def test_texts_that_cannot_be_stored_cost_their_requests_and_a_retry_works(home: Home) -> None:
    bad = json.dumps({"error": {"message": f"look {HALF}\0"}})
    sayings = {
        "refuses": Says(refuses_each=3, refusal=bad),
        "always": Says(refuses_each=1, refusal=bad),
        "event": Says(events=events_of(HALF)),
        "label": Says(
            metrics='vllm:spec_decode_num_accepted_tokens_per_pos_total{pos="0"} 1\nvllm:prompt_tokens_total 1\n'
        ),
        "good": Says(),
    }
    with serving(**sayings) as server:
        job = worked(home, **of_servers(home, server.url, *sayings))
        assert job.state == "done"
        statuses = {run.arm.name: run.status for run in home.runs()}
        assert [name for name in sayings if statuses[name] == "completed"] == ["refuses", "label", "good"]
        assert "look \N{REPLACEMENT CHARACTER}" in (job.error or "")
        queue.retry(home.database, job.job_id, actor=ADMIN)
        Worker(home.settings).work()
        assert home.job(job.job_id).state == "done"
    ingest_all(home.settings)
    assert ask(home.settings, "select path from rejected_bundles") == []


def give_pages(monkeypatch: pytest.MonkeyPatch, seconds: int) -> None:
    """So much time to answer, instead of thirty seconds."""
    monkeypatch.setattr(client, "_PAGE_TIMEOUT", aiohttp.ClientTimeout(total=seconds))
    monkeypatch.setattr(readiness, "_ONCE_TIMEOUT", aiohttp.ClientTimeout(total=seconds))
    monkeypatch.setattr(engine_metrics, "_TIMEOUT_S", seconds)
    monkeypatch.setattr(engine_metrics, "_GAUGE_TIMEOUT_S", seconds)


def test_pages_that_hang_cost_no_answer_and_are_recorded(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    give_pages(monkeypatch, 1)
    hangs = Says(pages=dict.fromkeys((RESET, METRICS, "/health", "/version", "/v1/models")))
    with serving(hangs=hangs) as server:
        job = worked(home, **of_servers(home, server.url, "hangs"))
    assert (job.state, job.error) == ("done", None)
    (run,) = home.runs()
    assert run.reset_problem == "no answer came in time"
    assert run.counters_problem == f"{server.url}/hangs/metrics gave no answer within 1 s"
    assert_all_answered_and_told(home, not_reset=["hangs"], unread=["hangs"])


def test_pages_that_break_cost_no_answer_and_are_recorded(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    give_pages(monkeypatch, 600)
    monkeypatch.setattr(run_measurement, "_RESET_WITHIN_S", 600.0)
    sayings = {
        "good": Says(),
        "reset_refuses": Says(pages={RESET: 500}),
        "frees_its_cache_late": Says(refused_resets=3),
        "no_reset": Says(pages={RESET: 404}),
        "metrics_break": Says(pages={METRICS: 503}),
        "metrics_are_long": Says(metrics="vllm:prompt_tokens_total 1\n" + "#" * 5_000_000),
        "metrics_are_html": Says(metrics="<html>login</html>"),
    }
    with serving(**sayings) as server:
        job = worked(home, **of_servers(home, server.url, *sayings))
    assert (job.state, job.error) == ("done", None)
    runs = {run.arm.name: run for run in home.runs()}
    problems = {name: (run.reset_problem, run.counters_problem) for name, run in runs.items()}
    url = server.url
    assert problems == {
        "good": (None, None),
        "reset_refuses": ("HTTP 500", None),
        "frees_its_cache_late": (None, None),
        "no_reset": (None, None),
        "metrics_break": (None, f"{url}/metrics_break/metrics answered HTTP 503"),
        "metrics_are_long": (
            None,
            f"{url}/metrics_are_long/metrics cannot be read: the page is longer than 4 MiB",
        ),
        "metrics_are_html": (None, None),
    }
    tiers = f"{RESET}?reset_external=true"
    asked = {name: [page for page in says.got if page.startswith(RESET)] for name, says in sayings.items()}
    assert (asked["good"], asked["no_reset"], asked["reset_refuses"]) == ([RESET, tiers], [RESET], [RESET])
    assert_all_answered_and_told(home, not_reset=["reset_refuses"], unread=["metrics_are_long", "metrics_break"])


def test_a_server_that_holds_its_cache_is_asked_for_a_while(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    give_pages(monkeypatch, 600)
    monkeypatch.setattr(run_measurement, "_RESET_WITHIN_S", 0.5)
    with serving(holds=Says(refused_resets=10**9)) as server:
        job = worked(home, **of_servers(home, server.url, "holds"))
    assert (job.state, job.error) == ("done", None)
    (run,) = home.runs()
    assert run.reset_problem == "the engine answered that parts of it were still in use"
    assert_all_answered_and_told(home, not_reset=["holds"], unread=[])


def assert_all_answered_and_told(home: Home, *, not_reset: list[str], unread: list[str]) -> None:
    for bundle in map(read_bundle, find_bundles(home.settings.bundles)):
        assert [request.error for request in records(bundle.requests)] == [None] * 4
    ingest_all(home.settings)
    found = "select arm from findings join runs using (run_id) where check_name = '{}' order by all"
    assert ask(home.settings, found.format("prefix_cache_not_reset")) == [(arm,) for arm in not_reset]
    assert ask(home.settings, found.format("counters_unread")) == [(arm,) for arm in unread]


def test_a_foreign_server_that_fails_a_request_is_not_asked_for_its_health(home: Home) -> None:
    with serving(it=Says(refuses_each=4, pages={"/health": 404})) as server:
        worked(home, **of_servers(home, server.url, "it", requests=4))
    (bundle,) = map(read_bundle, find_bundles(home.settings.bundles))
    assert any(request.error for request in records(bundle.requests))
    assert "/health" not in server.sayings["it"].got


@pytest.mark.parametrize(
    ("body", "kind", "said"),
    [
        (json.dumps({"error": {"message": "out of capacity"}}), "application/json", "out of capacity"),
        ("<html>sign in</html>", "text/html", "its answer is no error of such a server: not stored"),
    ],
)
def test_an_answer_that_is_no_stream_is_called_what_it_is(body: str, kind: str, said: str) -> None:
    with serving(it=Says(body=body, content_type=kind)) as server:
        _, requests, _, _ = asyncio.run(measured(f"{server.url}/it"))
    assert {request.error for request in requests} == {f"the answer ({kind}) has no event of a stream: {said}"}


def test_events_that_are_no_chunks_and_other_names_of_usage_are_understood() -> None:
    usage = {"input_tokens": 7, "output_tokens": 4}
    odd = (json.dumps({"warning": "slow today"}), json.dumps({"id": "x", "error": None, "choices": [], "usage": usage}))
    with serving(it=Says(events=odd)) as server:
        _, requests, _, _ = asyncio.run(measured(f"{server.url}/it"))
    assert [(request.error, request.completion_tokens) for request in requests] == [(None, 4)] * 3


def test_a_stream_without_an_end_names_what_came_instead() -> None:
    body = 'data: {"detail": "the backend is gone"}\n\ndata: [DONE]\n\n'
    with serving(it=Says(body=body)) as server:
        _, requests, _, _ = asyncio.run(measured(f"{server.url}/it"))
    assert "no part of an answer: {'detail': 'the backend is gone'}" in (requests[0].error or "")


def test_a_bug_that_an_answer_reveals_costs_only_its_request(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What nobody has thought of: here, a column of the record that cannot be computed."""

    def broken(*_: object) -> None:
        raise ZeroDivisionError(f"look {HALF}")

    monkeypatch.setattr(client, "sent_prompt_tokens", broken)
    with serving(it=Says()) as server:
        _, requests, _, _ = asyncio.run(measured(f"{server.url}/it"))
    assert {request.error for request in requests} == {
        "an error inside Drafthouse (ZeroDivisionError: look \N{REPLACEMENT CHARACTER}): see the worker's log"
    }
    assert all(request.sent_s is not None and request.end_s is not None for request in requests)
    assert "in broken" in caplog.text


def test_a_page_without_gauges_is_read_a_few_times_each_path_once(monkeypatch: pytest.MonkeyPatch) -> None:
    give_pages(monkeypatch, 600)

    async def read(url: str) -> None:
        gauges = Gauges(Endpoint(url, "m"), (VLLM, SGLANG))
        for _ in range(20):
            await gauges.read()

    with serving(it=Says()) as server:
        asyncio.run(read(f"{server.url}/it"))
        assert server.sayings["it"].got == ["/metrics"] * 5


def test_a_long_page_of_gauges_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    give_pages(monkeypatch, 600)

    async def read(url: str) -> None:
        gauges = Gauges(Endpoint(url, "m"), (VLLM,))
        for _ in range(3):
            await gauges.read()

    with serving(it=Says(metrics="#" * 5_000_000)) as server:
        asyncio.run(read(f"{server.url}/it"))
        assert server.sayings["it"].got == ["/metrics"]


def test_an_endless_head_of_an_answer_is_given_up() -> None:
    async def endless(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(b"HTTP/1.1 200 OK\r\n")
            for number in range(100_000):
                writer.write(b"X-%d: %s\r\n" % (number, b"y" * 1000))
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def refused() -> str | None:
        listening = await asyncio.start_server(endless, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        async with Connections() as connections:
            prompt = Prompt("p", None, "Count.")
            record = await client.send(connections, Endpoint(url, "m"), prompt, params(4), lambda: 0.0)
        listening.close()
        return record.error

    assert "more than 1,048,576 bytes of headers" in (asyncio.run(refused()) or "")
