"""A password is stored as a hash that is dear to compute."""

from __future__ import annotations

import pytest

from access import passwords


def test_a_hash_has_the_parameters_of_the_rfc_for_little_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.undo()  # the cheap hashes of the other tests
    stored = passwords.hash_password("correct horse")
    assert stored.startswith("$argon2id$v=19$m=65536,t=3,p=4$")
    assert passwords.is_password(stored, "correct horse")
    assert not passwords.is_password(stored, "correct house")
