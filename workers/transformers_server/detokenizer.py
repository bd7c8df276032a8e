"""Token ids -> text, while they are still coming in."""

from __future__ import annotations

from collections.abc import Callable, Sequence

_HALF_A_CHARACTER = "\ufffd"
#: Tokens of the prompt to decode with: some tokenizers write a first token differently from a later one.
_CONTEXT_TOKENS = 6


class Detokenizer:
    """The text of one answer. Half a character waits for its other half."""

    def __init__(self, decode: Callable[[list[int]], str], prompt_ids: Sequence[int]) -> None:
        self._decode = decode
        self._ids = list(prompt_ids[-_CONTEXT_TOKENS:])
        self._known_from, self._told_until = 0, len(self._ids)

    def add(self, ids: Sequence[int], *, last: bool) -> str:
        """The text that these tokens added. With `last` nothing is held back."""
        self._ids += ids
        told = self._decoded(self._told_until)
        now = self._decoded(len(self._ids))
        if now.endswith(_HALF_A_CHARACTER) and not last:
            return ""
        self._known_from, self._told_until = self._told_until, len(self._ids)
        return now[len(told) :]

    def _decoded(self, end: int) -> str:
        return self._decode(self._ids[self._known_from : end])
