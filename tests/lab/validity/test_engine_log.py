"""Which lines of a log belong to a window, though its clock has no zone and no fractions of a second."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.validity.evidence import exact_lines, window_lines
from tests.lab.validity.healthy import STARTED, healthy, log_line

START = STARTED.isoformat()


@pytest.mark.parametrize("hours", [-11, -5, 0, 1, 2, 9, 14])
def test_lines_are_told_apart_in_every_zone(hours: int) -> None:
    lines = ((text, at_s) for text, at_s in (("before", -9), ("inside", 5), ("last", 29), ("after", 45)))
    log = "\n".join(log_line(text, at_s, hours) for text, at_s in lines)
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


@pytest.mark.parametrize(
    ("last_at_s", "is_read"),
    [(-120, True), (-121, False), (0, True), (330, True), (332, False)],
)
def test_the_last_line_lies_near_the_window(last_at_s: float, is_read: bool) -> None:  # noqa: FBT001
    """At most two minutes before it began, and five after it ended: its end is half a minute after its begin."""
    log = log_line("last", last_at_s)
    assert (window_lines(log, STARTED.replace(microsecond=0).isoformat(), 30.0) is not None) is is_read


@pytest.mark.parametrize(("hours", "is_read"), [(15, True), (-15, True), (15.25, False), (-15.25, False)])
def test_no_zone_is_further_than_fifteen_hours_away(hours: float, is_read: bool) -> None:  # noqa: FBT001
    line = log_line("inside", 5 + 3600 * hours, 0)
    assert (window_lines(line, START, 10.0) == (line,)) is is_read


@pytest.mark.parametrize(("reset_at_s", "counts"), [(0.0, True), (-5.0, True), (-6.0, False)])
def test_the_cache_is_emptied_within_five_seconds_before_the_window(reset_at_s: float, counts: bool) -> None:  # noqa: FBT001
    reset, first, late = log_line("flush_cache", reset_at_s), log_line("first", 0.5), log_line("late", 9)
    expected = (first, late) if counts else (late,)
    assert window_lines(f"{reset}\n{first}\n{late}", START, 10.0) == expected


def test_a_start_without_a_zone_is_utc_and_one_that_is_no_time_has_no_window() -> None:
    line = log_line("inside", 5)
    assert window_lines(line, STARTED.replace(tzinfo=None).isoformat(), 10.0) == (line,)
    assert window_lines(line, STARTED.astimezone(timezone(timedelta(hours=7))).isoformat(), 10.0) == (line,)
    assert window_lines(line, "yesterday", 10.0) is None


@given(st.text(), st.floats(0, 1e6))
def test_no_log_raises(log: str, window_s: float) -> None:
    window_lines(log, START, window_s)


def test_the_lines_between_two_lengths_of_the_log_are_those_of_the_window() -> None:
    before, inside, after = b"warm-up \xff\xe2\n", b"one\ntwo \xff\n", b"after\n"
    log, begin = before + inside + after, len(before)
    assert exact_lines(log, begin, begin + len(inside)) == ("one", "two \ufffd")
    assert exact_lines(log, begin, begin + len(b"one\ntw")) == ("one", "two \ufffd")  # half written, finished later
    assert exact_lines(log, begin, begin) == ()
    assert exact_lines(b"no end", 0, 3) == ("no end",)


@pytest.mark.parametrize(("begin", "end"), [(None, 3), (0, None), (3, 2), (0, 7), (-1, 3)])
def test_lengths_that_do_not_fit_the_log_tell_nothing(begin: int | None, end: int | None) -> None:
    assert exact_lines(b"a log\n", begin, end) is None


@given(st.binary(), st.integers(-1, 40), st.integers(-1, 40))
def test_no_lengths_raise(log: bytes, begin: int, end: int) -> None:
    exact_lines(log, begin, end)


def test_a_log_without_times_is_judged_by_its_lengths_and_times_do_not_count_then() -> None:
    line = "Triton kernel JIT compilation during inference: f\n"
    run = replace(healthy(), log=f"{line}ready\n")
    size = len(run.log or "")
    assert "compilation_in_window" in {skipped.check for skipped in run.judged().skipped}
    within = run.with_run(log_begin_bytes=0, log_end_bytes=size).judged()
    assert "compilation_in_window" in {finding.check for finding in within.findings}
    before = healthy().with_log_line(line, 5.0)
    exact = before.with_run(log_begin_bytes=len(before.log or ""), log_end_bytes=len(before.log or ""))
    assert "compilation_in_window" not in {finding.check for finding in exact.judged().findings}
