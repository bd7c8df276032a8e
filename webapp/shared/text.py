"""Formats text and numbers for pages: foreign text literally, our numbers rounded and with units."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from lab.validity.words import lost_words

#: Characters that are markup in Markdown, Streamlit's directives, LaTeX or HTML. Each may be escaped by a backslash.
_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")
#: Texts that Streamlit turns into arrows, dashes and links even after escaping, unless a word joiner (U+2060) is
#: inserted.
_REPLACED = re.compile(r"(?<=-)(?=[->])|(?<=<)(?=[-=])|(?<=>)(?==)|(?<=:)(?=//)|(?<=www)(?=\.)|(?<=\w)(?=@)")
_WORD_JOINER = "\u2060"
#: A command, a file or a value in a sentence of ours.
_CODE = re.compile(r"`([^`\n]+)`")


def literal(text: object) -> str:
    """Escape `text` so that Markdown shows it literally; line breaks are kept."""
    return _by_line(text, _escaped)


def sentence(text: object) -> str:
    """Escape a sentence of ours as `literal` does, but show what stands between backticks as code: a command that is
    copied from there has no characters which only keep Markdown from changing it.
    """
    return _by_line(text, _escaped_around_code)


def sentence_html(text: str) -> str:
    """Return HTML that shows a sentence of ours, with what stands between backticks as code."""
    return _CODE.sub(r"<code>\1</code>", html.escape(text))


def _by_line(text: object, escape: Callable[[str], str]) -> str:
    return "  \n".join(map(escape, str(text).splitlines()))


def _escaped_around_code(line: str) -> str:
    parts = _CODE.split(line)
    return "".join(f"`{part}`" if index % 2 else _escaped(part) for index, part in enumerate(parts))


def _escaped(line: str) -> str:
    return _PUNCTUATION.sub(r"\\\1", _WORD_JOINER.join(_REPLACED.split(line)))


def duration(seconds: float | None) -> str:
    """Format a duration: `45 s`, `3 min 20 s`, `2 h 05 min`; a dash for None."""
    if seconds is None or not math.isfinite(seconds):
        return "–"
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def moment(when: datetime | None) -> str:
    """Format a date in UTC to the minute; a dash for None."""
    if when is None:
        return "–"
    aware = when if when.tzinfo else when.replace(tzinfo=UTC)
    return f"{aware.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def clock(when: datetime) -> str:
    """Format the time of day in UTC."""
    return f"{when.astimezone(UTC):%H:%M} UTC"


def count(amount: int, singular: str, plural: str | None = None) -> str:
    """Format a count with its noun: `1 run`, `3 runs`."""
    return f"{amount:,} {singular if amount == 1 else plural or singular + 's'}"


@dataclass(frozen=True)
class RunCounts:
    """Runs of a study or a warehouse, one for each cell and repeat. `completed` includes the invalid ones."""

    completed: int
    invalid: int
    failed: int

    @property
    def words(self) -> str:
        """The counts in words: `12`, or `10 of 12, 2 failed, 1 invalid`."""
        of = f" of {self.completed + self.failed}" if self.failed else ""
        lost = lost_words(self.failed, self.invalid)
        return f"{self.completed}{of}{f', {lost}' if lost else ''}"

    @property
    def lost(self) -> str:
        """The lost runs in words: `2 failed, 1 invalid`, or `none failed`."""
        return lost_words(self.failed, self.invalid) or "none failed"
