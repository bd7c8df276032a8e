"""A bundle keeps of an engine's log what belongs to its run, and no more however long the log is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lab.metrics.records import EngineLog
from lab.validity.evidence import window_lines
from tests.warehouse.runs import run_record, write_run
from warehouse.bundles import engine_log
from warehouse.bundles.engine_log import read_engine_log, read_tail
from warehouse.bundles.run_bundle import LOG_FILE, read_log, read_run, write_bundle

KIB = 2**10
HEAD_BYTES, CONTEXT_BYTES, WINDOW_BYTES, GAP_BYTES = 4 * KIB, KIB, 32 * KIB, 100
MOST_BYTES = HEAD_BYTES + WINDOW_BYTES + 2 * CONTEXT_BYTES + 3 * GAP_BYTES


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that a test reaches with little."""
    monkeypatch.setattr(engine_log, "HEAD_BYTES", HEAD_BYTES)
    monkeypatch.setattr(engine_log, "CONTEXT_BYTES", CONTEXT_BYTES)
    monkeypatch.setattr(engine_log, "WINDOW_BYTES", WINDOW_BYTES)
    monkeypatch.setattr(engine_log, "_SHORTEST_GAP_BYTES", GAP_BYTES)


def line(number: int) -> bytes:
    return f"{number:015d}\n".encode()  # 16 bytes


def long_log(path: Path, size: int) -> Path:
    path.write_bytes(b"".join(map(line, range(size // 16))))
    return path


def test_a_log_that_is_short_is_kept_as_it_is(tmp_path: Path) -> None:
    log = long_log(tmp_path / "log", HEAD_BYTES + CONTEXT_BYTES)
    assert read_engine_log(log, HEAD_BYTES, HEAD_BYTES + 16) == EngineLog(log.read_bytes(), HEAD_BYTES, HEAD_BYTES + 16)
    assert read_engine_log(log, None, None) == EngineLog(log.read_bytes())
    (tmp_path / "empty").touch()
    assert read_engine_log(tmp_path / "empty", 0, 0) is None


def test_a_long_log_is_cut_to_its_beginning_and_the_window(tmp_path: Path) -> None:
    log, begin, end = long_log(tmp_path / "log", 60 * KIB), 20 * KIB, 24 * KIB
    part = read_engine_log(log, begin, end)
    assert part is not None
    left_out = begin - CONTEXT_BYTES - HEAD_BYTES
    lines = part.content.decode().splitlines()
    assert lines.count(f"[{left_out} bytes of the engine's log were left out here]") == 1
    assert lines[:2] == ["000000000000000", "000000000000001"]
    assert lines[-3:-1] == [line((end + CONTEXT_BYTES) // 16 - 1).decode().strip(), ""]
    assert lines[-1] == f"[{log.stat().st_size - end - CONTEXT_BYTES} bytes of the engine's log were left out here]"
    assert part.content[part.begin_bytes : part.end_bytes] == log.read_bytes()[begin:end]
    assert window_lines(part.content, part.begin_bytes, part.end_bytes) == tuple(
        line(number).decode().strip() for number in range(begin // 16, end // 16)
    )


def test_the_middle_of_a_very_long_window_is_left_out(tmp_path: Path) -> None:
    log, begin, end = long_log(tmp_path / "log", 90 * KIB), 2 * KIB, 80 * KIB
    part = read_engine_log(log, begin, end)
    assert part is not None
    assert len(part.content) < MOST_BYTES
    inside = window_lines(part.content, part.begin_bytes, part.end_bytes)
    assert inside is not None
    assert (inside[0], inside[-1]) == (line(begin // 16).decode().strip(), line(end // 16 - 1).decode().strip())
    assert f"[{78 * KIB - WINDOW_BYTES} bytes of the engine's log were left out here]" in inside


@pytest.mark.parametrize(("begin", "end"), [(None, None), (None, 3), (5, None), (7, 3), (0, 999 * KIB)])
def test_without_a_window_the_end_of_the_log_is_stored(tmp_path: Path, begin: int | None, end: int | None) -> None:
    log = long_log(tmp_path / "log", 60 * KIB)
    with log.open("ab") as file:
        file.write(b"CUDA error\n")
    part = read_engine_log(log, begin, end)
    assert part is not None
    assert len(part.content) < MOST_BYTES
    assert part.content.endswith(b"CUDA error\n") or end == 3


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 100 * KIB), st.none() | st.integers(-1, 100 * KIB), st.none() | st.integers(-1, 100 * KIB))
def test_reading_what_was_kept_keeps_all_of_it(tmp_path: Path, size: int, begin: int | None, end: int | None) -> None:
    """Bundles written by this Drafthouse are read by the same function as those with the whole log."""
    path = tmp_path / "log"
    path.write_bytes(os.urandom(size))
    part = read_engine_log(path, begin, end)
    assert (part is None) is (size == 0)
    if part is not None and part.begin_bytes is not None and part.end_bytes is not None:
        path.write_bytes(part.content)
        assert read_engine_log(path, part.begin_bytes, part.end_bytes) == part


def test_a_bundle_has_the_places_of_its_window_in_what_it_keeps(tmp_path: Path) -> None:
    log, begin, end = long_log(tmp_path / "log", 60 * KIB), 20 * KIB, 24 * KIB
    folder = write_bundle(tmp_path / "bundles", run_record(log_begin_bytes=begin, log_end_bytes=end), (), (), log)
    assert (folder / LOG_FILE).stat().st_size < 12 * KIB
    run = read_run(folder)
    part = read_log(folder, run)
    assert part is not None
    assert (part.begin_bytes, part.end_bytes) == (run.log_begin_bytes, run.log_end_bytes)
    assert part == read_engine_log(log, begin, end)


def test_only_the_runs_part_of_a_whole_log_is_read(tmp_path: Path) -> None:
    folder = write_run(tmp_path, log_begin_bytes=20 * KIB, log_end_bytes=24 * KIB)
    long_log(folder / LOG_FILE, 60 * KIB)
    part = read_log(folder, read_run(folder))
    assert part is not None
    assert len(part.content) < 12 * KIB


def test_the_tail_of_a_log_is_read_alone(tmp_path: Path) -> None:
    log = long_log(tmp_path / "log", KIB)
    assert read_tail(log, 16) == line(KIB // 16 - 1)
    assert read_tail(log, 2 * KIB) == log.read_bytes()
