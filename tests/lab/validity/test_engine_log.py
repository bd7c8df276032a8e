"""Which lines of a log belong to a window, though its clock has no zone and no fractions of a second."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.validity.engine_log import window_lines
from tests.lab.validity.healthy import STARTED, log_line

START = STARTED.isoformat()


@pytest.mark.parametrize("hours", [-11, -5, 0, 1, 2, 9, 14])
def test_lines_are_told_apart_in_every_zone(hours: int) -> None:
    told = ((text, at_s) for text, at_s in (("before", -9), ("inside", 5), ("last", 29), ("after", 45)))
    log = "\n".join(log_line(text, at_s, hours) for text, at_s in told)
    assert [line.split()[-1] for line in window_lines(log, START, 30.0) or ()] == ["inside", "last"]


def test_lines_without_a_time_belong_to_the_line_before() -> None:
    log = "\n".join((log_line("before", -9), "its detail", log_line("inside", 5), "Triton autotuning for function f"))
    assert (window_lines(log, START, 30.0) or ())[-1] == "Triton autotuning for function f"


def test_the_second_in_which_the_window_began_counts_only_behind_the_emptying_of_the_cache() -> None:
    reset, warm, early = log_line("Resetting prefix cache...", 0.1), log_line("warm", 0.1), log_line("early", 0.5)
    late = log_line("late", 9)
    assert window_lines(f"{warm}\n{early}\n{late}", START, 10.0) == (late,)
    assert window_lines(f"{warm}\n{reset}\n{early}\n{late}", START, 10.0) == (early, late)


@pytest.mark.parametrize(
    "line",
    [
        "[2026-11-21 06:00:05 TP0] Capture cuda graph begin.",
        "[11/21/2026-06:00:05] [TRT-LLM] [I] Capture cuda graph begin.",
        "(EngineCore pid=7) WARNING 11-21 06:00:05 [monitor.py:1] torch.compile took 3.00 s in total",
    ],
)
def test_the_stamps_of_each_engine_are_read(line: str) -> None:
    assert window_lines(line, START, 10.0) == (line,)


def test_a_window_over_new_year_keeps_its_lines() -> None:
    log = "\n".join(f"INFO {stamp} [a.py:1] x" for stamp in ("12-31 23:59:58 ", "01-01 00:00:03 ", "01-01 00:00:20 "))
    assert len(window_lines(log, "2026-12-31T23:59:50.5+00:00", 20.0) or ()) == 2


@pytest.mark.parametrize("log", ["", "no time anywhere", log_line("of another day", -90_000), "INFO 02-31 00:00:00 [a"])
def test_a_log_of_another_time_is_not_read(log: str) -> None:
    assert window_lines(log, START, 30.0) is None


@given(st.text(), st.floats(0, 1e6))
def test_no_log_raises(log: str, window_s: float) -> None:
    window_lines(log, START, window_s)
