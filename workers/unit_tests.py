"""Runs the code in the answers of a run on the tests that its dataset expects, before the run is recorded.

The engine idles meanwhile, and nothing of this job is measured. Other workers of the machine may measure: their windows
are waited for, but not for ever, because they may follow one another without a gap; then it runs at the lowest
priority, and they record it as work beside them.
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
#: The most time for the answers of one run; what is left then has no score. A thousand usual ones take seconds, but one
#: that never ends takes five.
_MOST_S = 900.0


async def with_unit_tests(requests: Sequence[RequestRecord], home: Path, subject: str) -> tuple[RequestRecord, ...]:
    """Return the requests of a run with `tests_passed`. `subject` says whose work it is."""
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
