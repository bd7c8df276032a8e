"""Read results that are not JSON as documents with the values of JSON: llm-d's YAML, llama-bench's CSV, and the text of
MLPerf's LoadGen. What is none of these is never parsed.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable
from typing import Any

import yaml

from interchange.files import MIB, ForeignFile, printable
from interchange.json_reader import Document, checked, whole_text
from interchange.kinds import CSV, LOADGEN, YAML
from lab.errors import ForeignFileError

#: A value of YAML takes ten times the memory of one of JSON while it is read. The largest file seen has 0.1 MiB.
_LARGEST_BYTES = 2 * MIB
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?")
_COUNTED = re.compile(r"(?P<count>\d+|No) (?P<what>warnings|errors|ERRORS) encountered")


def text_documents(file: ForeignFile, kind: str) -> tuple[Document, ...]:
    """Return the documents of a file of this kind (`kinds.readable_text`). Raises ForeignFileError."""
    if file.size_bytes > _LARGEST_BYTES:
        raise ForeignFileError(
            f"{printable(file.name)}: {file.size_bytes / MIB:.1f} MiB of {kind} are more than the limit of "
            f"{_LARGEST_BYTES // MIB}: import it in parts, or as JSON"
        )
    return tuple(checked(document) for document in _READERS[kind](file, whole_text(file)))


def _yaml(file: ForeignFile, text: str) -> list[Document]:
    try:
        return [Document(file, 1, yaml.load(text, _Loader))]  # noqa: S506 - a safe loader
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise ForeignFileError(f"{printable(file.name)}: {line}this is not YAML ({error.problem})") from error
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise ForeignFileError(f"{printable(file.name)}: this is not YAML ({str(error).splitlines()[0]})") from error
    except RecursionError as error:
        raise ForeignFileError(f"{printable(file.name)}: it is nested too deep") from error


class _Loader(yaml.SafeLoader):
    """YAML with the values of JSON: no dates, aliases and duplicate keys; infinity and NaN are null, as no value."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - as the base class declares it
        first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith((":timestamp", ":merge"))]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.constructor.ConstructorError(None, None, "aliases are not read", mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: ARG002, FBT001, FBT002
        made: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            if key is None or key in made:
                why = "a key that is no text" if key is None else f"duplicate key {printable(repr(key))} in one object"
                raise yaml.constructor.ConstructorError(None, None, why, key_node.start_mark)
            made[key] = self.construct_object(value_node, deep=True)
        return made

    def finite(self, node: yaml.ScalarNode) -> float | None:
        value: float = self.construct_yaml_float(node)
        return value if math.isfinite(value) else None


_Loader.add_constructor("tag:yaml.org,2002:float", _Loader.finite)


def _csv(file: ForeignFile, text: str) -> list[Document]:
    """Return a document per row: the values by the names of the first line, numbers as numbers, empty ones as null."""
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    found: list[Document] = []
    try:
        names = next(lines)
        for values in filter(None, lines):
            if len(values) != len(names) or len(set(names)) != len(names):
                raise ForeignFileError(
                    f"{printable(file.name)}: line {lines.line_num}: this row does not have each of the {len(names)} "
                    "columns of line 1 once"
                )
            found.append(Document(file, lines.line_num, dict(zip(names, map(_value, values), strict=True))))
    except csv.Error as error:
        raise ForeignFileError(f"{printable(file.name)}: line {lines.line_num}: this is not CSV ({error})") from error
    return found


def _loadgen(file: ForeignFile, text: str) -> list[Document]:
    """Return the summary's names and values as one object; of a repeated name, the first."""
    found: dict[str, object] = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if counted := _COUNTED.match(line):
            found[f"{counted['what'].lower()} encountered"] = (
                0 if counted["count"] == "No" else _value(counted["count"])
            )
        elif colon and value.strip():
            found.setdefault(name.strip(), _value(value.strip()))
    has_tokens = any("okens per second" in name for name in found)
    title = "MLPerf Results Summary" if has_tokens else "MLPerf Results Summary without tokens per second"
    return [Document(file, 1, {title: True, **found})]


def _value(text: str) -> object:
    """Return a number as one that JSON would give, an empty value as None, and anything else as text."""
    try:
        return json.loads(text) if _NUMBER.fullmatch(text) else text or None
    except ValueError:  # such as a number with leading zeros, or of too many digits
        return text


_READERS: dict[str, Callable[[ForeignFile, str], list[Document]]] = {YAML: _yaml, CSV: _csv, LOADGEN: _loadgen}
