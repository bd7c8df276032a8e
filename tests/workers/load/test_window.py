"""The lag of the event loop is seen when there is one, and small when there is none."""

from __future__ import annotations

import asyncio
import time

from workers.load.window import LoopLag


async def test_a_block_is_seen_once_by_each_reader_of_the_worst() -> None:
    lag = LoopLag()
    assert lag.worst_since_last_ms() == 0.0
    watching = asyncio.create_task(lag.watch())
    await asyncio.sleep(0.03)
    time.sleep(0.15)  # noqa: ASYNC251 -- a loop that stands still is the subject
    await asyncio.sleep(0.03)
    watching.cancel()
    assert lag.worst_since_last_ms() > 100
    assert lag.worst_since_last_ms() == 0.0
    assert lag.max_ms() > 100
    assert lag.p99_ms() <= lag.max_ms()


async def test_a_block_that_still_lasts_at_the_end_is_noted() -> None:
    lag = LoopLag()
    watching = asyncio.create_task(lag.watch())
    await asyncio.sleep(0.03)
    time.sleep(0.15)  # noqa: ASYNC251 -- a loop that stands still is the subject
    lag.note()
    watching.cancel()
    assert lag.max_ms() > 100
