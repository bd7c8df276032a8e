"""Cleans foreign text on entry, so that it can be stored as UTF-8 in Parquet, DuckDB and PostgreSQL."""

from __future__ import annotations

#: The most characters that are stored of a foreign text, such as an error or a version, which could have megabytes.
MOST_CHARS = 2_000
_CUT = " [...]"


def storable(text: str, most_chars: int | None = None) -> str:
    """Return the text fit to be stored: surrogate pairs are joined, and lone surrogates
    and NUL, which PostgreSQL refuses, become U+FFFD. A text of more than `most_chars` is cut.
    """
    if most_chars is not None and len(text) > most_chars:
        text = text[: most_chars - len(_CUT)] + _CUT
    if not text.isascii():
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")
