"""Passwords as argon2id hashes, and random secrets that are stored as digests."""

from __future__ import annotations

import functools
import hashlib
import secrets
import threading

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from lab.errors import AccessError

LEAST_LENGTH, MOST_LENGTH = 10, 256
#: Each hash takes 64 MiB and tens of milliseconds: more at once would let visitors without a password stop the page.
MOST_AT_ONCE = 2
_HASHING = threading.BoundedSemaphore(MOST_AT_ONCE)


def hash_password(password: str) -> str:
    """Return the hash. Raises AccessError for a password that is too short or too long."""
    if not LEAST_LENGTH <= len(password) <= MOST_LENGTH:
        raise AccessError(f"a password has {LEAST_LENGTH} to {MOST_LENGTH} characters")
    with _HASHING:
        hashed: str = _hasher().hash(password)
    return hashed


def is_password(stored: str | None, password: str) -> bool:
    """Return whether the password is the hashed one. Takes as long for None, which no password matches."""
    with _HASHING:
        try:
            matches: bool = _hasher().verify(_nobodys_hash() if stored is None else stored, password[: MOST_LENGTH + 1])
        except (VerificationError, InvalidHashError):
            return False
    return matches and stored is not None


def new_secret() -> str:
    """Return 256 random bits as text that fits into a URL and a cookie."""
    return secrets.token_urlsafe(32)


def digest(secret: str) -> str:
    """Return the digest to store of a secret from `new_secret`, which is too random to need a slow hash."""
    return hashlib.sha256(secret.encode()).hexdigest()


@functools.cache
def _hasher() -> PasswordHasher:
    """Return the hasher: argon2id with the library's parameters (RFC 9106, for little memory)."""
    return PasswordHasher()


@functools.cache
def _nobodys_hash() -> str:
    hashed: str = _hasher().hash(secrets.token_urlsafe(16))
    return hashed
