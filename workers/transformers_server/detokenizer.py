"""Turns token ids into text while they arrive."""

from __future__ import annotations

from collections.abc import Callable, Sequence

_HALF_A_CHARACTER = "\ufffd"
#: Tokens of the prompt to decode together with the answer: some tokenizers write a first token differently.
_CONTEXT_TOKENS = 6


class Detokenizer:
    """The text of one answer. Half a character is held back until its other half arrives."""

    def __init__(self, decode: Callable[[list[int]], str], prompt_ids: Sequence[int]) -> None:
        self._decode = decode
        self._ids = list(prompt_ids[-_CONTEXT_TOKENS:])
        self._start, self._sent_until = 0, len(self._ids)

    def add(self, ids: Sequence[int], *, last: bool) -> str:
        """Return the text that these tokens added. With `last` nothing is held back."""
        self._ids += ids
        sent = self._decoded(self._sent_until)
        now = self._decoded(len(self._ids))
        if now.endswith(_HALF_A_CHARACTER) and not last:
            return ""
        self._start, self._sent_until = self._sent_until, len(self._ids)
        return now[len(sent) :]

    def _decoded(self, end: int) -> str:
        return self._decode(self._ids[self._start : end])
