"""What Celery carries for the fleet: whom a study wakes, what its remote control may do, and what Flower sees."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import celery
import pytest

from jobs.engines.capabilities import Capabilities
from jobs.fleet.broker import look, queue_of, wake
from jobs.fleet.worker_registry import drain, list_workers, queues_for, record, register_worker, store_engines
from lab.errors import UserError
from tests.actors import ADMIN
from tests.workers.homes import Home, celery_worker, until
from tests.workers.valkey import Broker

pytestmark = pytest.mark.usefixtures("workers_stay")
LOADS = [{"max_concurrency": 1, "num_prompts": 4}]


def registered(home: Home, host: str, hardware: str, *engines: str) -> str:
    register_worker(home.database, f"{host}/1", host=host, hardware=hardware, gpus=1, is_dead=lambda _: False)
    known = [Capabilities(engine=name, kind="vllm", version="1", methods=(), flags=None, gpus=()) for name in engines]
    store_engines(home.database, f"{host}/1", known)
    record(home.database, f"{host}/1", queue=(queue := queue_of(hardware, engines)))
    return queue


def test_a_study_wakes_only_hosts_that_can_measure_it(home: Home) -> None:
    h200 = registered(home, "w1", "NVIDIA H200", "vllm")
    both = registered(home, "w2", "NVIDIA H200", "vllm", "other")
    cpu = registered(home, "w3", "AMD EPYC", "vllm")
    assert (h200, both) == ("vllm@NVIDIA-H200", "other+vllm@NVIDIA-H200")
    assert queues_for(home.database, home.study()) == sorted([h200, both, cpu])
    assert queues_for(home.database, home.study(hardware="h200")) == sorted([h200, both])
    other = home.study(arms=[{"name": "a", "engine": "other"}])
    assert queues_for(home.database, other) == [both]


@contextlib.contextmanager
def application(broker: Broker) -> Iterator[Any]:
    with celery.Celery(broker=broker.url, set_as_current=False) as app:
        yield app


@pytest.mark.engine
def test_a_running_fleet_is_seen_woken_not_commanded_and_drained_at_once(woken_home: Home, broker: Broker) -> None:
    home = woken_home
    with celery_worker(home) as worker, application(broker) as app:
        until(lambda: [it.queue for it in list_workers(home.database) if it.queue], "the worker is there")
        queue = list_workers(home.database)[0].queue
        nodes: dict[str, Any] = {}
        until(lambda: nodes.update(app.control.inspect(timeout=1.0).active_queues() or {}) or nodes, "it answers")
        assert [[it["name"] for it in queues] for queues in nodes.values()] == [[queue]]
        assert next(iter(nodes)).startswith(f"{worker.pid}@")
        job_id = home.submit(engine_flags={"token_s": 0.05}, arms=[{"name": "plain"}], loads=LOADS, repeats=4)
        until(home.runs, "a run")
        until(app.control.inspect(timeout=1.0).ping, "it answers while it measures")
        for command in ("shutdown", "pool_restart"):
            app.control.broadcast(command)
        seen: list[str] = []
        with app.connection() as connection:
            receiver = app.events.Receiver(connection, handlers={"*": lambda event: seen.append(event["type"])})
            for _ in receiver.itercapture(timeout=600):
                if "worker-heartbeat" in seen:
                    break
        assert "worker-heartbeat" in seen
        until(lambda: home.job(job_id).state == "done", "the study is done")
        assert worker.poll() is None
        wake(home.settings, [str(queue)])
        (present,) = list_workers(home.database)
        with pytest.raises(UserError, match="no worker of host 'elsewhere' is running"):
            drain(home.database, "elsewhere", actor=ADMIN)
        assert drain(home.database, present.host, actor=ADMIN) == [present.worker]
        look(home.settings, [present.worker])
        until(lambda: worker.poll() is not None, "it ends without waiting for a poll")
        assert worker.returncode == 0
