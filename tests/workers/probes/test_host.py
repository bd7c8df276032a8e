"""The host's processors and memory."""

from __future__ import annotations

import time
from typing import NamedTuple

import psutil
import pytest

from workers.probes.telemetry import Host, busy_and_all_s


class MacTimes(NamedTuple):
    user: float
    nice: float
    system: float
    idle: float


class LinuxTimes(NamedTuple):
    user: float
    nice: float
    system: float
    idle: float
    iowait: float
    irq: float
    softirq: float
    steal: float
    guest: float
    guest_nice: float


def test_a_guests_time_counts_once_and_waiting_for_a_disk_is_no_work() -> None:
    assert busy_and_all_s(LinuxTimes(10, 1, 5, 100, 20, 1, 1, 2, 3, 1)) == (20.0, 140.0)
    assert busy_and_all_s(MacTimes(10, 1, 5, 100)) == (16.0, 116.0)


def test_a_busy_processor_is_seen() -> None:
    host, end_s = Host(), time.perf_counter() + 0.3
    while time.perf_counter() < end_s:
        pass
    reading = host.read()
    assert reading.cpu_percent is not None
    assert 90 / (psutil.cpu_count() or 1) < reading.cpu_percent <= 100
    assert 0 < reading.memory_used_bytes < psutil.virtual_memory().total


def test_without_any_time_between_two_readings_the_use_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "cpu_times", lambda: MacTimes(10, 1, 5, 100))
    assert Host().read().cpu_percent is None
