"""The readings around several windows of a run, joined to those of one window."""

from __future__ import annotations

from typing import Any

import pytest

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


@pytest.mark.parametrize("others", [[window(5, 8, 500, 3)], [window(5, 8, 110, 500), window(8.5, 9, 3, 6)]])
def test_a_server_restarted_during_a_run_shows_in_its_counters(others: list[Probes]) -> None:
    """As in a run with one window, which is invalid then."""
    windows = [window(0, 1, 100, 110), *others, window(9, 10, 6, 900)]
    run = joined(windows)
    fell = [counters(num_drafts=drafts, num_accepted_tokens_per_position=(drafts, 0.0)) for drafts in (500.0, 3.0)]
    assert [run.counters_before, run.counters_after] == fell
    assert run.counters_problem is None


def test_how_much_counters_grew_in_a_window_with_a_restart_is_unknown() -> None:
    assert growth(window(5, 8, 500, 3)) is None


def test_counters_that_could_not_be_read_once_are_unknown() -> None:
    run = joined([window(0, 1, 100, 110), window(5, 8, 110, 0, counters_after=None, counters_problem="silent")])
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
