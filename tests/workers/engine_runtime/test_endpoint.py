"""Measuring a foreign server without ever storing its key."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs import queue
from lab.errors import StudyError
from tests.actors import ADMIN
from tests.warehouse.runs import records
from tests.workers.engine_runtime.stand_ins import ONE_LOAD, bundles, worked
from tests.workers.homes import Home, program
from warehouse.app_db.schema import jobs as jobs_table
from workers.worker import Worker

KEY = "sk-never-to-be-seen-0123456789"


@contextlib.contextmanager
def running(gossip: str = "none") -> Iterator[str]:
    """Somebody else's server; gives its address."""
    with program("tests.workers.engine_runtime.stand_in_endpoint", "--key", KEY, "--gossip", gossip) as port:
        yield f"http://127.0.0.1:{port}"


def knowing_key(home: Home, url: str) -> Home:
    """The home with the key of the server at this address."""
    file = home.settings.home / "secrets.toml"
    file.write_text(f'[theirs]\nkey = "{KEY}"\nbase_url = "{url}"\n')
    file.chmod(0o600)
    return home


def their_study(url: str, **server: Any) -> dict[str, Any]:
    """Without ignore_eos, which they do not know."""
    arm = {"name": "theirs", "engine": "endpoint", "server": {"base_url": url, "api_key": "theirs"} | server}
    return {"arms": [arm], "loads": ONE_LOAD}


def workload(home: Home) -> list[dict[str, Any]]:
    return [{"output_tokens": 8, "ignore_eos": False} | home.prompts]


def leaks(folder: Path) -> list[Path]:
    """The files below that have the key in them, compressed columns included."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - only here

    files = []
    for file in folder.rglob("*"):
        if file.is_file() and file.name != "secrets.toml":
            read = json.dumps(pq.read_table(file).to_pylist(), default=str) if file.suffix == ".parquet" else ""
            files += [file] if KEY in read or KEY.encode() in file.read_bytes() else []
    return files


def test_a_running_server_is_measured_and_nothing_is_started(home: Home) -> None:
    with running() as url:
        job = worked(knowing_key(home, url), workloads=workload(home), **their_study(url))
    assert (job.state, job.error) == ("done", None)
    measured = bundles(home, "theirs")[0]
    assert [request.completion_tokens for request in records(measured.requests)] == [8] * 3
    assert {request.chunk_tokens for request in records(measured.requests)} == {None}  # it does not count in each chunk
    around = measured.run.circumstances
    assert (around.command, around.environment, around.start_s) == ((), {}, None)
    assert measured.run.counters_after is not None
    assert measured.run.counters_after.generation_tokens is None
    assert measured.run.arm.server is not None
    assert measured.run.arm.server.base_url == url
    assert leaks(home.folder) == []


@pytest.mark.parametrize("gossip", ["refusal", "event", "unreadable", "output"])
def test_a_server_that_repeats_the_key_does_not_get_it_stored(
    home: Home, gossip: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with running(gossip) as url:
        job = worked(knowing_key(home, url), workloads=workload(home), **their_study(url))
    requests = records(bundles(home, "theirs")[0].requests)
    texts = [str(request.error) + request.output_text for request in requests]
    assert len(texts) == 3
    assert all("[the API" in text or gossip == "refusal" for text in texts)  # errors are cut short, also within this
    assert not [text for text in texts if KEY[:8] in text]  # nor the start of it, where an error is cut short
    assert KEY not in repr(job) + caplog.text + "".join(capfd.readouterr())
    assert leaks(home.folder) == []


def test_a_redirect_is_not_followed(home: Home) -> None:
    with running("redirect") as url:
        job = worked(knowing_key(home, url), workloads=workload(home), **their_study(url))
    assert job.state == "failed"
    assert "did not answer a request: HTTP 307: the server redirects, which is not followed" in (job.error or "")


def test_a_key_that_is_missing_on_the_worker_fails_the_job(home: Home) -> None:
    with running() as url:
        job = worked(home, workloads=workload(home), **their_study(url))
    assert job.state == "failed"
    assert "the secret 'theirs' is not set on this host" in (job.error or "")


def test_a_server_that_is_not_there_is_a_failed_run(home: Home, unused_tcp_port: int) -> None:
    url = f"http://127.0.0.1:{unused_tcp_port}"
    job = worked(knowing_key(home, url), workloads=workload(home), **their_study(url))
    assert job.state == "failed"
    assert f"the server at {url} did not answer a request: could not connect" in (job.error or "")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://169.254.169.254", "link-local"),
        ("http://metadata.google.internal", "metadata service"),
        ("http://127.0.0.1:8000/v1", "without /v1: http://127.0.0.1:8000"),
        ("http://127.0.0.1:8000/?key=abc", "must not contain ? or #"),
        ("http://127.0.0.1:99999", "is not a server address (Port out of range 0-65535): write it like http://"),
        ("http://127.0.0.1:port", "is not a server address (Port could not be cast"),
        ("http://127.0.0.1:0", "is not a server address: write it like http://"),
        ("http://:8000", "is not a server address: write it like http://"),
        ("http://[::1", "is not a server address (Invalid IPv6 URL)"),
    ],
)
def test_addresses_that_cannot_be_measured_are_refused_when_a_study_is_submitted(
    home: Home, url: str, words: str
) -> None:
    with pytest.raises(StudyError) as refused:
        home.submit(**their_study(url))
    assert words in dict(refused.value.problems)["arms[0].server.base_url"]


@pytest.mark.parametrize(
    ("server", "field", "words"),
    [
        ({"ca_file": "lab.pem"}, "ca_file", "only https has certificates"),
        ({"api_key": None, "api_key_header": "api-key"}, "api_key_header", "there is no key to send in it"),
        ({"api_key_header": "Content-Length"}, "api_key_header", "every request has a header Content-Length already"),
        ({"api_key_header": "a: b"}, "api_key_header", "should match pattern"),
        ({"api_path": "v1?x"}, "api_path", "should match pattern"),
        ({"proxy": "http://user:word@proxy:3128"}, "proxy", "should match pattern"),
        ({"proxy": "http://169.254.169.254:3128"}, "proxy", "link-local"),
        ({"proxy": "http://proxy:99999"}, "proxy", "is not a server address (Port out of range"),
        ({"proxy": "http://127.0.0.1:3128"}, "proxy", "without https the proxy could read the API key"),
        ({"ca_file": "../secrets.toml"}, "ca_file", "should match pattern"),
    ],
)
def test_settings_of_a_server_that_contradict_themselves_are_refused_when_a_study_is_submitted(
    home: Home, server: dict[str, Any], field: str, words: str
) -> None:
    with pytest.raises(StudyError) as refused:
        home.submit(**their_study("http://127.0.0.1:8000", **server))
    assert words in dict(refused.value.problems)[f"arms[0].server.{field}"]


def test_a_proxy_never_gets_to_read_the_key(home: Home) -> None:
    with socket.create_server(("127.0.0.1", 0)) as proxy, running() as url:
        heard = threading.Thread(target=listen, args=(proxy, received := bytearray()))
        heard.start()
        job_id = knowing_key(home, url).submit(workloads=workload(home), **their_study(url))
        through = f"http://127.0.0.1:{proxy.getsockname()[1]}"
        with home.database.begin() as connection:  # not by submission, which would refuse it
            study = json.loads(home.job(job_id).study.model_dump_json())
            study["arms"][0]["server"]["proxy"] = through
            connection.execute(jobs_table.update().values(study_json=json.dumps(study)))
        Worker(home.settings).work()
        proxy.shutdown(socket.SHUT_RDWR)
        heard.join()
    assert KEY.encode() not in received
    assert "without https the proxy could read the API key" in (home.job(job_id).error or "")


def listen(proxy: socket.socket, received: bytearray) -> None:
    """Take the part of a proxy that claims to have connected, and keep what it is sent."""
    with contextlib.suppress(OSError):
        while True:
            connection, _ = proxy.accept()
            with connection:
                received += connection.recv(1 << 16)
                connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                received += connection.recv(1 << 16)


@pytest.mark.parametrize(
    ("content", "why"), [(None, "No such file or directory"), ("hello", "it has no certificate as PEM")]
)
def test_an_authority_that_cannot_be_read_fails_the_job_with_its_file(
    home: Home, content: str | None, why: str
) -> None:
    file = home.settings.home.absolute() / "authorities" / "lab.pem"
    if content is not None:
        file.parent.mkdir()
        file.write_text(content)
    study = their_study("https://127.0.0.1:1", ca_file="lab.pem", api_key=None)
    job = worked(home, workloads=workload(home), **study)
    assert job.state == "failed"
    assert f"'lab.pem' cannot be read: {why}" in (job.error or "")
    assert f"put its certificate into {file}" in (job.error or "")


def test_an_address_that_becomes_forbidden_after_submission_is_refused_by_the_worker(home: Home) -> None:
    allowing = home.settings.model_copy(update={"allow_metadata_addresses": True})
    job_id = queue.submit(allowing, home.study(**their_study("http://169.254.169.254")), actor=ADMIN)
    Worker(home.settings).work()
    job = home.job(job_id)
    assert job.state == "failed"
    assert "169.254.169.254 is refused" in (job.error or "")


def test_nothing_can_be_set_on_a_server_that_runs_already(home: Home) -> None:
    study = their_study("http://127.0.0.1:8000")
    study["arms"][0] |= {"flags": {"seed": 1}, "config": {"a": 1}, "environment": {"A": "1"}}
    with pytest.raises(StudyError) as refused:
        home.submit(**study)
    assert {field for field, _ in refused.value.problems} == {
        f"arms[0].{n}" for n in ("flags", "config", "environment")
    }


def test_a_server_and_its_engine_belong_together(home: Home) -> None:
    server = {"base_url": "http://127.0.0.1:8000"}
    arms = [{"name": "a", "baseline": True, "server": server}, {"name": "b", "engine": "endpoint"}]
    with pytest.raises(StudyError) as refused:
        home.submit(arms=arms)
    problems = dict(refused.value.problems)
    assert 'engine = "endpoint"' in problems["arms[0].server"]
    assert "set its base_url" in problems["arms[1].server"]
