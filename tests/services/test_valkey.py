"""The embedded broker."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
import redis

from host.settings import Settings
from services import valkey
from services.process import Process
from tests.workers.homes import until


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home with spaces")


@pytest.fixture
def broker(settings: Settings) -> Iterator[Process]:
    it = Process("valkey", valkey.prepare(settings.broker_file), settings.logs_dir / "valkey.log", lambda: True)
    it.start()
    until(lambda: valkey.answers(url(settings)), "it answers")
    yield it
    it.terminate()
    it.wait_stopped()


def url(settings: Settings) -> str:
    return settings.broker_file.read_text().strip()


def test_nobody_without_the_password_is_answered(settings: Settings, broker: Process) -> None:
    stranger = redis.Redis(host="127.0.0.1", port=urlsplit(url(settings)).port or 0)
    with pytest.raises(redis.AuthenticationError):
        stranger.ping()
    stranger.close()


def test_only_its_owner_can_read_the_address(settings: Settings, broker: Process) -> None:
    assert stat.S_IMODE(settings.broker_file.stat().st_mode) == 0o600


def test_what_it_was_told_survives_kill_9(settings: Settings, broker: Process) -> None:
    with redis.Redis.from_url(url(settings)) as client:
        client.rpush("celery", "wake")
    psutil.Process(broker.pid).kill()
    until(lambda: broker.exit_status is not None, "it is dead")
    broker.start()
    until(lambda: valkey.answers(url(settings)), "it answers")
    with redis.Redis.from_url(url(settings)) as client:
        assert client.lrange("celery", 0, -1) == [b"wake"]


def test_it_keeps_its_address_from_one_start_to_the_next(settings: Settings) -> None:
    valkey.prepare(settings.broker_file)
    first = url(settings)
    valkey.prepare(settings.broker_file)
    assert url(settings) == first


def test_it_moves_when_its_port_was_taken_meanwhile(settings: Settings, broker: Process) -> None:
    before = url(settings)
    valkey.prepare(settings.broker_file)
    assert url(settings) != before
