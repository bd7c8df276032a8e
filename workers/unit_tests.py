"""Runs the code in a run's answers against the dataset's tests, before the run is recorded. The engine idles meanwhile,
and this job measures nothing. Other workers of the machine may measure: the tests wait for their windows, but not for
ever, because windows may follow one another without a gap; then they run at the lowest priority, and the other workers
record them as concurrent work.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from host import quiet
from lab.metrics.records import RequestRecord
from warehouse.sandbox.code_runner import scores_by_tests

_PATIENCE_S, _POLL_EVERY_S = 60.0, 0.1
#: Time limit for the answers of one run; the rest get no score. A thousand usual answers take seconds, but one
#: that never ends takes five.
_MOST_S = 900.0


async def with_unit_tests(requests: Sequence[RequestRecord], home: Path, subject: str) -> tuple[RequestRecord, ...]:
    """Return the requests of a run with `tests_passed`. `subject` names the job in announcements."""
    programs = {
        index: (request.output_text[request.reasoning_chars or 0 :], request.expected)
        for index, request in enumerate(requests)
        if request.error is None and request.end_s is not None and request.expected is not None
    }
    until_s = time.monotonic() + _PATIENCE_S
    while quiet.under_way(home, "window") and time.monotonic() < until_s:  # noqa: ASYNC110 - of another process
        await asyncio.sleep(_POLL_EVERY_S)
    with quiet.announced_if_possible(home, "command", f"unit tests of {subject}"):
        scores = dict(zip(programs, await scores_by_tests(list(programs.values()), _MOST_S), strict=True))
    return tuple(replace(request, tests_passed=scores.get(index)) for index, request in enumerate(requests))
