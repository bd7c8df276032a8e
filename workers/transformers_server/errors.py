"""Errors with a message for the user: the server cannot start, or a request is refused."""

from __future__ import annotations


class StartError(Exception):
    """The server cannot start; the message says why."""


class Refusal(Exception):  # noqa: N818 - not an error of the server
    """A response with this HTTP status and message."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
