"""The API of a real page server with accounts, asked by programs with tokens."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import tarfile
import threading
import urllib.request
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pyarrow as pa
import pytest

import drafthouse
from access import accounts, tokens
from jobs import order, queue
from lab.roles import Role
from lab.study.parsing import study_to_toml
from tests.access.web.labs import Lab, lab_served
from tests.actors import ADMIN
from tests.lab.studies import study
from tests.webapp.measured import measure_study
from tests.workers.homes import until

TOML = """
name = "from a program"
target = "reference"
arms = [{name = "plain"}]
workloads = [{dataset = "reference", category = "code", output_tokens = 8}]
loads = [{max_concurrency = 1, num_prompts = 2}]
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with lab_served(tmp_path_factory.mktemp("api"), {"DRAFTHOUSE_WEB_LOGIN": "accounts"}) as it:
        for role in Role:
            accounts.add_user(it.database, role.value, role, actor=ADMIN)
        yield it


@pytest.fixture(scope="module")
def job_id(lab: Lab) -> str:
    return measure_study(lab.settings, study(name="measured", repeats=2))


def token(lab: Lab, role: Role, *, name: str = "", days: float = 1) -> str:
    lasts = timedelta(days=days)
    return tokens.add_token(lab.database, name or role.value, "tests", role, lasts=lasts, actor=ADMIN)[1]


def ask(lab: Lab, path: str, method: str = "GET", role: Role = Role.VIEWER, **options: Any) -> tuple[int, Any]:
    """Status, and the JSON of the answer."""
    headers = {"Authorization": f"Bearer {token(lab, role)}"} | options.pop("headers", {})
    status, _, body = lab.ask(f"/api/v1{path}", method, headers=headers, **options)
    return status, json.loads(body)


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer made-up"}, {"Authorization": "Basic eDp5"}])
def test_without_a_token_nothing_is_answered(lab: Lab, headers: dict[str, str]) -> None:
    for path in ("me", "jobs", "openapi.json", "sql", "nothing"):
        status, answered, body = lab.ask(f"/api/v1/{path}", headers=headers)
        assert (status, answered["content-type"]) == (401, "application/problem+json")
        assert "drafthouse token add" in json.loads(body)["detail"]


def test_a_token_has_the_lesser_role_and_ends(lab: Lab) -> None:
    assert ask(lab, "/me", role=Role.SUBMITTER) == (200, {"name": "submitter", "role": "submitter"})
    reading = token(lab, Role.VIEWER, name="administrator")
    bearer = {"Authorization": f"Bearer {reading}"}
    assert ask(lab, "/me", headers=bearer)[1] == {"name": "administrator", "role": "viewer"}
    (shown,) = tokens.all_tokens(lab.database, "administrator")
    assert shown.last_used_at is not None
    tokens.revoke(lab.database, shown.token_id, actor=ADMIN)
    until(lambda: lab.ask("/api/v1/me", headers=bearer)[0] == 401, "the server asks again whose token it is")
    soon_over = {"Authorization": f"Bearer {token(lab, Role.VIEWER, days=1e-6)}"}
    until(lambda: lab.ask("/api/v1/me", headers=soon_over)[0] == 401, "a token of a tenth of a second has ended")


def test_a_viewer_may_plan_and_a_submitter_submit_cancel_and_watch(lab: Lab) -> None:
    status, plan = ask(lab, "/studies/plan", "POST", json={"toml": TOML})
    assert (status, plan["runs"], plan["launches"]) == (200, 1, 1)
    status, problem = ask(lab, "/studies", "POST", json={"toml": TOML})
    assert (status, problem["title"]) == (403, "Not allowed")
    assert "you may not submit a study: viewer is a viewer" in problem["detail"]
    settled = study(name="from a program")
    job = queue._insert(lab.database, settled, 0, ADMIN)  # this host has no engine that could serve it
    assert ask(lab, f"/jobs/{job}")[1]["state"] == "queued"
    assert ask(lab, f"/jobs/{job}/cancel", "POST", Role.SUBMITTER)[0] == 403  # not theirs
    status, cancelled = ask(lab, "/jobs/from a program/cancel", "POST", Role.ADMINISTRATOR)
    assert (status, cancelled["state"]) == (200, "cancelled")
    assert ask(lab, "/jobs/nothing/cancel", "POST", Role.ADMINISTRATOR)[0] == 404
    headers = {"Authorization": f"Bearer {token(lab, Role.VIEWER)}"}
    status, answered, body = lab.ask(f"/api/v1/jobs/{job}/events", headers=headers)
    assert (status, answered["content-type"].partition(";")[0]) == (200, "text/event-stream")
    event, data, *_ = body.split("\n")
    assert (event, json.loads(data.removeprefix("data: "))["state"]) == ("event: job", "cancelled")


def test_who_watches_a_job_sees_its_changes_until_the_token_ends(lab: Lab) -> None:
    job = queue._insert(lab.database, study(name="watched"), 0, ADMIN)
    watching = drafthouse.connect(lab.url, token(lab, Role.VIEWER))
    (ours, *_) = tokens.all_tokens(lab.database, "viewer")
    events = watching._events(job)
    assert next(events)["priority"] == 0
    order.reprioritise(lab.database, job, 3, actor=ADMIN)
    assert next(events)["priority"] == 3
    tokens.revoke(lab.database, ours.token_id, actor=ADMIN)
    last = threading.Timer(600, queue.cancel, (lab.database, job), {"actor": ADMIN})  # which would be the last event
    last.start()
    assert list(events) == []
    last.cancel()


def test_the_audit_table_is_for_an_administrators_token_alone(lab: Lab) -> None:
    question = {"json": {"sql": "select count(*) > 0 as has_rows from audit"}}
    assert ask(lab, "/sql", "POST", Role.ADMINISTRATOR, **question)[1]["rows"] == [[True]]
    reading = {"Authorization": f"Bearer {token(lab, Role.SUBMITTER, name='administrator')}"}
    for role, headers in ((Role.VIEWER, {}), (Role.SUBMITTER, {}), (Role.ADMINISTRATOR, reading)):
        status, problem = ask(lab, "/sql", "POST", role, headers=headers, **question)
        assert (status, "audit does not exist" in problem["detail"]) == (400, True)


def test_a_study_that_is_not_valid_is_answered_field_by_field(lab: Lab) -> None:
    for sent in ({"toml": study_to_toml(study()).replace("reference", "--host=x", 1)}, {"study": {"name": "x"}}, {}):
        status, problem = ask(lab, "/studies", "POST", Role.SUBMITTER, json=sent)
        assert (status, problem["title"]) == (422, "The request is not valid")
        assert problem["problems"]


def test_results_are_compared_answered_and_priced(lab: Lab, job_id: str) -> None:
    assert [job["job_id"] for job in ask(lab, "/jobs?limit=1000")[1]["jobs"]].count(job_id) == 1
    status, comparison = ask(lab, "/studies/measured/comparison")
    assert (status, comparison["jobs"], comparison["metric"]) == (200, [job_id], "output_tok_per_s")
    assert {pair["verdict"]["word"] for pair in comparison["pairs"]} <= {"faster", "slower", "inconclusive"}
    assert ask(lab, f"/studies/{job_id}/answer")[1]["sentences"]
    costs = ask(lab, f"/studies/{job_id}/costs?price_per_hour=3.6")[1]
    assert all(cost["per_million_output_tokens"] > 0 for cost in costs)
    assert ask(lab, "/studies/nothing/answer")[0] == 404
    assert ask(lab, "/studies/measured/comparison?metric=nothing")[0] == 400
    status, problem = ask(lab, "/studies/measured/comparison/across?with=measured&run=gone")
    assert (status, "choose another study" in problem["detail"]) == (400, True)


def test_the_bundle_of_a_run_is_a_tar_file(lab: Lab, job_id: str) -> None:
    run_id = ask(lab, "/sql", "POST", json={"sql": f"select run_id from runs where job_id = '{job_id}'"})[1]["rows"][0][
        0
    ]
    body = asyncio.run(_bytes(lab, f"/jobs/{job_id}/runs/{run_id}/bundle"))
    with tarfile.open(fileobj=io.BytesIO(body)) as archive:
        assert f"{run_id}/run.json" in archive.getnames()
    assert ask(lab, f"/jobs/{job_id}/runs/nothing/bundle")[0] == 404


async def _bytes(lab: Lab, path: str, **options: Any) -> bytes:
    headers = {"Authorization": f"Bearer {token(lab, Role.VIEWER)}"}
    method = "POST" if options else "GET"
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, f"{lab.url}/api/v1{path}", headers=headers, **options) as answer,
    ):
        assert answer.status == 200
        return await answer.read()


def test_sql_is_answered_in_four_formats_and_reads_alone(lab: Lab) -> None:
    sent: dict[str, Any] = {"sql": "select 1 as a, 'x' as b union all select 2, 'y' order by a"}
    assert ask(lab, "/sql", "POST", json=sent)[1] == {
        "columns": ["a", "b"],
        "rows": [[1, "x"], [2, "y"]],
        "left_out": "",
    }
    assert asyncio.run(_bytes(lab, "/sql", json=sent | {"format": "csv"})).decode().splitlines()[1] == '1,"x"'
    with pa.ipc.open_stream(asyncio.run(_bytes(lab, "/sql", json=sent | {"format": "arrow"}))) as stream:
        assert stream.read_all().to_pydict() == {"a": [1, 2], "b": ["x", "y"]}
    assert asyncio.run(_bytes(lab, "/sql", json=sent | {"format": "parquet"}))[:4] == b"PAR1"
    status, problem = ask(lab, "/sql", "POST", json={"sql": "delete from runs"})
    assert (status, "read-only" in problem["detail"]) == (400, True)
    status, problem = ask(lab, "/sql", "POST", json={"sql": "select * from read_text('/etc/passwd')"})
    assert status == 400


def test_a_page_of_elsewhere_cannot_use_a_visitors_session(lab: Lab) -> None:
    cookie = lab.signed_in("visitor", Role.ADMINISTRATOR)
    body = {"sql": "select 1"}
    assert lab.ask("/api/v1/sql", "POST", json=body, headers={"Cookie": cookie})[0] == 200
    foreign = {"Cookie": cookie, "Origin": "https://evil.example"}
    assert lab.ask("/api/v1/sql", "POST", json=body, headers=foreign)[0] == 403


def test_the_warehouse_and_the_client_are_sent_by_the_pages_server(lab: Lab, tmp_path: Path) -> None:
    """Streamlit's server compresses what it sends: not these, of which parts are asked for."""
    whole, bearer = lab.settings.warehouse_file.read_bytes(), token(lab, Role.VIEWER)
    client, file = drafthouse.connect(lab.url, bearer), tmp_path / "warehouse.duckdb"
    assert client.pull(file)
    assert file.read_bytes() == whole
    headers = {"Authorization": f"Bearer {bearer}", "Accept-Encoding": "gzip"}
    for path, more, expected in (
        (client.snapshot().url, {}, whole),
        (client.snapshot().url, {"Range": "bytes=4096-8191"}, whole[4096:8192]),
        (f"{lab.url}/drafthouse.py", {}, Path(drafthouse.__file__).read_bytes()),
    ):
        request = urllib.request.Request(path, headers=headers | more)  # noqa: S310 - our own server
        with urllib.request.urlopen(request, timeout=600) as answer:  # noqa: S310 - likewise
            body = answer.read()
        assert (gzip.decompress(body) if answer.headers["Content-Encoding"] == "gzip" else body) == expected
    status, headers, _ = lab.ask("/warehouse/latest")
    assert (status, headers["content-type"]) == (401, "application/problem+json")
