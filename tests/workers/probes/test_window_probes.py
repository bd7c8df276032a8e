"""The readings around several windows of a run, joined to those of one window."""

from __future__ import annotations

from typing import Any

from lab.metrics.records import IdleEngine
from tests.warehouse.runs import counters
from workers.probes.window_probes import Probes, growth, joined


def window(begin_s: float, end_s: float, before: float, after: float, **changes: Any) -> Probes:
    return Probes(
        **{
            "spans_s": ((begin_s, end_s),),
            "counters_before": counters(num_drafts=before, num_accepted_tokens_per_position=(before, 0.0)),
            "counters_after": counters(num_drafts=after, num_accepted_tokens_per_position=(after, 0.0)),
            "log_begin_bytes": int(begin_s),
            "log_end_bytes": int(end_s),
            **changes,
        }
    )


def test_counters_grow_only_within_the_windows() -> None:
    run = joined([window(0, 1, 100, 110), window(5, 8, 500, 505)])
    assert (run.counters_before, run.counters_problem) == (
        counters(num_drafts=100.0, num_accepted_tokens_per_position=(100.0, 0.0)),
        None,
    )
    assert run.counters_after == counters(num_drafts=115.0, num_accepted_tokens_per_position=(115.0, 0.0))
    assert (run.spans_s, run.log_begin_bytes, run.log_end_bytes) == (((0, 1), (5, 8)), 0, 8)


def test_a_server_restarted_within_a_window_has_no_counters() -> None:
    windows = [window(0, 1, 100, 110), window(5, 8, 500, 3), window(9, 10, 3, 900)]
    assert growth(windows[1]) is None
    run = joined(windows)
    assert (run.counters_after, run.counters_problem) == (
        None,
        "a counter of the server shrank within a window: the server was restarted",
    )


def test_counters_that_could_not_be_read_once_are_unknown() -> None:
    run = joined([window(0, 1, 100, 110), window(5, 8, 0, 0, counters_after=None, counters_problem="silent")])
    assert (run.counters_after, run.counters_problem) == (None, "silent")


def test_what_idle_engines_took_is_weighed_by_the_windows_lengths() -> None:
    took = [(IdleEngine(arm="other", cpu_percent=percent, gpu_percent=None),) for percent in (10.0, 50.0)]
    run = joined([window(0, 1, 0, 0, idle_engines=took[0]), window(5, 8, 0, 0, idle_engines=took[1])])
    assert run.idle_engines == (IdleEngine(arm="other", cpu_percent=40.0),)
    gone = joined([window(0, 1, 0, 0, idle_engines=took[0]), window(5, 8, 0, 0)])
    assert gone.idle_engines == ()


def test_one_window_is_what_it_was() -> None:
    only = window(0, 1, 100, 3)
    assert joined([only]) is only
