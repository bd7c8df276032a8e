"""Tables and JSON on the terminal."""

from __future__ import annotations

import json
import re
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from lab.metrics.number_format import number

#: Width of sentences; longer lines are hard to read.
_MOST_WIDTH = 100
#: Most columns of a table that stays readable with folded texts.
_MOST_FOLDED = 5
#: Nothing in a text is read as Rich markup, coloured, or cut off.
_LITERALLY: Mapping[str, Any] = {"markup": False, "highlight": False, "soft_wrap": True}
#: Control characters that are safe on any terminal.
_PLAIN = re.compile(r"[\n\t -~]*")
_WHOLE_WORDS: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}


def printable(text: str) -> str:
    """Return the text with invisible characters escaped, except line ends and tabs.

    A measured server's errors and other people's names may hold terminal escape sequences and characters that reverse
    the direction of text. All such output of this command goes through here.
    """
    return text if _PLAIN.fullmatch(text) else "".join(map(_shown, text))


def _shown(character: str) -> str:
    return character.encode("unicode_escape").decode() if _is_unseen(character) else character


def _is_unseen(character: str) -> bool:
    return character not in "\n\t" and unicodedata.category(character).startswith("C")


def print_json(value: Any) -> None:
    """Print JSON; characters that a terminal cannot show as text are escaped, which leaves the value the same."""
    is_unicode = (sys.stdout.encoding or "utf-8").lower().startswith("utf")
    text = json.dumps(value, indent=1, default=str, ensure_ascii=not is_unicode)
    print(text if _PLAIN.fullmatch(text) else "".join(map(_shown_in_json, text)))


def _shown_in_json(character: str) -> str:
    return json.dumps(character)[1:-1].replace("\x7f", "\\u007f") if _is_unseen(character) else character


def print_literally(text: str = "", *, end: str = "\n", on_stderr: bool = False) -> None:
    """Print lines unfolded, even on a terminal."""
    print(printable(text), end=end, file=sys.stderr if on_stderr else sys.stdout)


def print_text(text: str, *, end: str = "\n") -> None:
    """Print sentences. On a terminal, lines are wrapped between words, with a hanging indent."""
    print(folded(printable(text), _terminal_width(sys.stdout)), end=end, flush=True)


def folded(text: str, width: int | None) -> str:
    """Fold the text at this width, but never inside a word; None leaves it as it is, for programs."""
    return text if width is None else "\n".join(_folded_line(line, width) for line in text.split("\n"))


def print_error(sentence: str) -> None:
    sys.stderr.write(folded(printable(sentence), _terminal_width(sys.stderr)) + "\n")


def _terminal_width(stream: TextIO) -> int | None:
    return shutil.get_terminal_size().columns if stream.isatty() else None


def _folded_line(line: str, width: int) -> str:
    words = line.lstrip(" ")
    indent = line[: len(line) - len(words)]
    return textwrap.fill(words, width, initial_indent=indent, subsequent_indent=indent, **_WHOLE_WORDS)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print values literally: nothing in them is read as Rich markup.

    A table of many columns that is wider than the terminal becomes a paragraph for each row.
    """
    console, columns = Console(), [printable(column) for column in columns]
    texts = [[_cell(value) for value in row] for row in rows]
    if not console.is_terminal:
        console.width = 4096  # a program reads this: cut nothing off
    widths = [max(map(cell_len, column)) for column in zip(columns, *texts, strict=True)]
    if len(columns) > _MOST_FOLDED and sum(widths) + 2 * len(widths) > console.width:
        _print_paragraphs(console, columns, texts)
        return
    table = Table(*(Column(Text(name)) for name in columns), box=None, header_style="bold", pad_edge=False)
    for row in texts:
        table.add_row(*map(Text, row))
    console.print(table)


def _print_paragraphs(console: Console, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print the first value in bold, the others after the names of their columns, without empty ones."""
    for first, *others in rows:
        console.print(first, style="bold", **_LITERALLY)
        pairs = [f"{name} {text}".strip() for name, text in zip(columns[1:], others, strict=True) if text]
        console.print(_indented("; ".join(pairs), console.width), **_LITERALLY)


def print_entries(columns: Sequence[str], entries: Sequence[tuple[Sequence[Any], Sequence[str]]]) -> None:
    """Print rows of short values, each followed by its sentences, as wide as the terminal but at most 100 columns."""
    rows = [[_cell(value) for value in values] for values, _ in entries]
    widths = [max(map(cell_len, column)) for column in zip(columns, *rows, strict=True)]
    console = Console()
    wide = min(console.width, _MOST_WIDTH) if console.is_terminal else _MOST_WIDTH
    console.print(_line(columns, widths), style="bold", **_LITERALLY)
    for row, (_, sentences) in zip(rows, entries, strict=True):
        console.print(_line(row, widths), **_LITERALLY)
        for sentence in sentences:
            console.print(_indented(printable(sentence), wide), **_LITERALLY)


def _indented(sentence: str, width: int) -> str:
    return textwrap.fill(sentence, width, initial_indent="  ", subsequent_indent="  ", **_WHOLE_WORDS)


def _line(values: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(map(set_cell_size, values, widths)).rstrip()


def figure(value: float | None) -> str:
    """Format a number for a table; empty if it is unknown."""
    return "" if value is None else number(value)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else printable(str(value))
