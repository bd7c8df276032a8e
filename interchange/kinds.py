"""Identifies a file by its beginning: as JSON, as a text that is read, or as something to replace by another file."""

from __future__ import annotations

import re

#: The number of bytes by which a file is identified.
HEAD_BYTES = 4096
_UNPACK = "archives are never opened: unpack it and import the JSON file in it"
_UTF_8 = "save it as UTF-8"
_MAGIC = {
    b"\x1f\x8b": ("a gzip file", _UNPACK),
    b"PK\x03\x04": ("a ZIP archive", _UNPACK),
    b"BZh": ("a bzip2 file", _UNPACK),
    b"\xfd7zXZ": ("an XZ file", _UNPACK),
    b"\x28\xb5\x2f\xfd": ("a Zstandard file", _UNPACK),
    b"PAR1": ("a Parquet file", "import the JSON file that the tool writes"),
    b"SQLite format 3": ("an SQLite database", "import the JSON file that the tool writes"),
    b"\x80": ("a pickle", "pickles are never opened: save its content as JSON"),
}
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_BINARY = ("a binary file", "import the JSON file that the tool writes")
_OF_THE_TOOL = "import the JSON file that the tool writes beside it"
_JSON = re.compile(r'\{\s*(["}]|$)|\[\s*([\[{"\]]|-?\d[\d.eE+-]*\s*([,\]]|$)|true\b|false\b|null\b|$)')
_SECTION = re.compile(r"\[\[?[^\[\]]+\]\]?\s*(#.*)?$")
#: The longest name of a column in CSV, in characters; anything longer is prose with commas.
_LONGEST_COLUMN = 60
#: Texts that are read as results, by how they begin; a YAML report may have its keys in any order.
YAML, CSV, LOADGEN = "YAML", "CSV", "text of LoadGen"
_READABLE = {
    YAML: re.compile(
        r"(---\s*\n|#.*\n|\s*\n)*(version: ['\"]?0\.\d|(run|scenario|metrics|results):[\s\S]*"
        r"(request_performance|component_health|time_to_first_token|requests_per_sec))"
    ),
    CSV: re.compile(r'"?build_commit"?,(.*,)?"?avg_ts"?,'),
    LOADGEN: re.compile(r"=+\s*\nMLPerf Results Summary\s*\n"),
}
_YAML = re.compile(r"(---\s*$|%YAML|(- )?[\w.\"'/-]+:(\s|$))")


def begins_like_json(head: bytes) -> bool:
    """Return whether the content may be a JSON object or list, perhaps a damaged one."""
    return bool(_JSON.match(_text(head)))


def readable_text(head: bytes) -> str:
    """Return the kind of a text that may be a result; empty for anything else."""
    text = _text(head)
    return next((kind for kind, pattern in _READABLE.items() if pattern.match(text)), "")


def encoding_of(content: bytes) -> str:
    """Return the encoding of a text that begins with these bytes: UTF-16 only with its mark, as Windows writes it."""
    return "utf-16" if content.startswith(_UTF_16) else "utf-8-sig"


def kind_of(head: bytes) -> tuple[str, str]:
    """Describe a file that does not begin like JSON, and what to do about it."""
    if not head.strip():
        return "an empty file", _OF_THE_TOOL
    for magic, kind in _MAGIC.items():
        if head.startswith(magic):
            return kind
    is_utf_16 = head.startswith(_UTF_16)
    if b"\0" in head and not is_utf_16:
        return _BINARY
    if not (is_utf_16 or _is_utf_8(head)):
        return "text that is not UTF-8", _UTF_8
    return _kind_of_text(_text(head)), _OF_THE_TOOL


def _kind_of_text(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    first, second = (*lines, "", "")[:2]
    if first.startswith("<"):
        return "HTML or XML"
    if _SECTION.match(first) and (not second or "=" in second or second.startswith("[")):
        return "a configuration file (TOML or INI)"
    for mark, kind in (("\t", "TSV"), (",", "CSV")):
        names, values = first.split(mark), second.split(mark)
        if len(names) == len(values) > 1 and max(map(len, names)) <= _LONGEST_COLUMN:
            return kind
    return "YAML" if _YAML.match(first) else "text"


def _text(head: bytes) -> str:
    return head.decode(encoding_of(head), errors="replace").lstrip()


def _is_utf_8(head: bytes) -> bool:
    """Return whether the beginning of a file is UTF-8; its last character may be truncated."""
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return error.start >= len(head) - 3 and len(head) >= HEAD_BYTES
    return True
