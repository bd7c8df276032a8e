"""What an operator types about hosts: who measures, draining, mending, and until when."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cli.verbs.operate.worker import moment_of
from jobs.fleet import hosts
from jobs.fleet.worker_registry import list_workers, register_worker
from lab.errors import UserError
from tests.cli.homes import Home, new_home
from tests.webapp.homes import environment, make_home
from warehouse.app_db.engine import open_engine


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    settings = make_home(tmp_path)
    for name, value in environment(settings).items():
        monkeypatch.setenv(name, value)
    return new_home(settings.home)


def test_hosts_are_listed_drained_and_mended(home: Home) -> None:
    assert home.ask("workers").stdout.startswith("No worker has registered yet")
    with open_engine(f"sqlite:///{home.folder}/app.sqlite") as database:
        register_worker(database, "w1/1", host="w1", hardware="NVIDIA H200", gpus=8, is_dead=lambda _: False)
        for _ in range(3):
            hosts.record_failure(database, "w1", "no engine 'vllm'")
        listed = home.ask("workers").stdout
        assert "w1" in listed
        assert "NVIDIA H200" in listed
        assert "w1: it is set aside, because it had to put back 3 studies in a row, the last with: no engine" in listed
        as_json = json.loads(home.ask("workers", "--json").stdout)
        assert [row["state"] for row in as_json["workers"]] == ["free"]
        assert [host["host"] for host in as_json["set_aside"]] == ["w1"]
        assert "--mended and --drain: they" in home.refusal("workers", "--mended", "w1", "--drain", "w1")
        assert home.ask("workers", "--mended", "w1").stdout == "w1 takes studies again\n"
        assert home.ask("workers", "--mended", "w1").returncode == 2
        assert "the worker of w1 will end after the block" in home.ask("workers", "--drain", "w1").stdout
        assert list_workers(database)[0].drains
        assert home.ask("worker", "--drain").returncode == 2  # no worker runs here
        assert "give one of" in home.ask("worker", "--once", "--until", "8h").stderr


NOW = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("90m", NOW + timedelta(minutes=90)),
        ("8h", NOW + timedelta(hours=8)),
        ("2026-11-28T01:00+00:00", datetime(2026, 11, 28, 1, tzinfo=UTC)),
    ],
)
def test_the_end_of_a_worker_is_a_moment_or_a_duration(text: str, moment: datetime) -> None:
    assert moment_of(text, NOW) == moment


def test_a_time_of_day_is_the_next_one() -> None:
    local = NOW.astimezone()
    later, earlier = local + timedelta(minutes=5), local - timedelta(minutes=5)
    assert moment_of(f"{later:%H:%M}", NOW) == later.replace(second=0)
    assert moment_of(f"{earlier:%H:%M}", NOW) == earlier.replace(second=0) + timedelta(days=1)


@pytest.mark.parametrize("text", ["soon", "25:00", "8 h", "2026-13-01T00:00", "2020-01-01T00:00", "9" * 20 + "d"])
def test_what_is_no_time_or_is_over_is_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"is no time|is over"):
        moment_of(text, NOW)
