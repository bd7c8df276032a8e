"""Who waits for a password's hash, and who need not."""

from __future__ import annotations

import asyncio
import threading

import pytest

from access.web.hashing import MOST_OF_ADDRESS, MOST_OF_ALL, Hashing, TooManyWaitError


def test_a_flood_of_strangers_is_refused_and_keeps_nobody_who_is_known() -> None:
    go_on = threading.Event()

    def slow() -> str:
        assert go_on.wait(60)
        return "hashed"

    async def flood() -> None:
        hashing = Hashing()
        addresses = [f"10.0.0.{number // MOST_OF_ADDRESS}" for number in range(MOST_OF_ALL)]
        waiting = [asyncio.create_task(hashing.in_turn(address, slow)) for address in addresses]
        await asyncio.sleep(0)  # until each has its place
        with pytest.raises(TooManyWaitError, match="too many people are signing in"):
            await hashing.in_turn("10.0.1.1", slow)
        assert await hashing.at_once(lambda: "known") == "known"
        go_on.set()
        assert await asyncio.gather(*waiting) == ["hashed"] * MOST_OF_ALL
        assert await hashing.in_turn("10.0.1.1", lambda: "next") == "next"

    asyncio.run(asyncio.wait_for(flood(), 60))


def test_one_address_has_a_few_places_and_leaves_the_others() -> None:
    go_on = threading.Event()

    def slow() -> str:
        assert go_on.wait(60)
        return "hashed"

    async def crowd() -> None:
        hashing = Hashing()
        waiting = [asyncio.create_task(hashing.in_turn("10.0.0.1", slow)) for _ in range(MOST_OF_ADDRESS)]
        await asyncio.sleep(0)
        with pytest.raises(TooManyWaitError):
            await hashing.in_turn("10.0.0.1", slow)
        other = asyncio.create_task(hashing.in_turn("10.0.0.2", slow))
        await asyncio.sleep(0)
        go_on.set()
        assert await asyncio.gather(*waiting, other) == ["hashed"] * (MOST_OF_ADDRESS + 1)

    asyncio.run(asyncio.wait_for(crowd(), 60))
