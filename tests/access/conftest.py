"""Passwords of these tests are hashed at a fifteenth of the cost: one test looks at the real cost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from argon2 import PasswordHasher

from access import passwords


@pytest.fixture(autouse=True)
def _cheap_hashes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    cheap = PasswordHasher(time_cost=1, memory_cost=8 * 1024, parallelism=1)
    passwords._nobodys_hash.cache_clear()
    monkeypatch.setattr(passwords, "_hasher", lambda: cheap)
    yield
    passwords._nobodys_hash.cache_clear()
