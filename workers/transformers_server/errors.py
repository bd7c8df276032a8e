"""What the server says instead of doing something else than was asked."""

from __future__ import annotations


class StartError(Exception):
    """The server cannot start; the sentence says why."""


class Refusal(Exception):  # noqa: N818 - not an error of the server
    """An answer with this HTTP status and sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
