"""Which lines of a log belong to a window: those between the lengths that it had when the window began and ended."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.validity.evidence import window_lines
from tests.lab.validity.healthy import healthy


def test_lines_between_two_lengths_of_the_log_are_the_windows() -> None:
    before, inside, after = b"warm-up \xff\xe2\n", b"one\ntwo \xff\n", b"after\n"
    log, begin = before + inside + after, len(before)
    assert window_lines(log, begin, begin + len(inside)) == ("one", "two \ufffd")
    assert window_lines(log, begin, begin + len(b"one\ntw")) == ("one", "two \ufffd")  # half written, finished later
    assert window_lines(log, begin, begin) == ()
    assert window_lines(b"no end", 0, 3) == ("no end",)


@pytest.mark.parametrize(("begin", "end"), [(None, 3), (0, None), (3, 2), (0, 7), (-1, 3)])
def test_lengths_that_do_not_fit_the_log_tell_nothing(begin: int | None, end: int | None) -> None:
    assert window_lines(b"a log\n", begin, end) is None


@given(st.binary(), st.integers(-1, 40), st.integers(-1, 40))
def test_no_lengths_raise(log: bytes, begin: int, end: int) -> None:
    window_lines(log, begin, end)


def test_a_line_counts_if_it_lies_within_the_window() -> None:
    line = "Triton kernel JIT compilation during inference: f\n"
    run = replace(healthy(), log=f"{line}ready\n")
    size = len(run.log or "")
    unknown = run.with_run(log_begin_bytes=None, log_end_bytes=None)
    assert "compilation_in_window" in {skipped.check for skipped in unknown.judged().skipped}
    within = run.with_run(log_begin_bytes=0, log_end_bytes=size).judged()
    assert "compilation_in_window" in {finding.check for finding in within.findings}
    after = run.with_run(log_begin_bytes=len(line), log_end_bytes=size).judged()
    assert "compilation_in_window" not in {finding.check for finding in after.findings}
