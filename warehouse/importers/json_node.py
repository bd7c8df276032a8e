"""Reading an object of a foreign file key by key: every value has the type and range it must have, or is refused."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab.errors import ForeignFileError
from warehouse.importers.files import printable
from warehouse.importers.json_reader import Document, Step

#: Larger than any time in ms, any count and any rate; still exact as a float.
LARGEST = 2.0**53
_LONGEST_NAME = 1000


@dataclass(frozen=True)
class Node:
    """An object of the file and where it stands. A key that is absent or null is None to every reader here."""

    document: Document
    content: Mapping[str, object]
    path: tuple[Step, ...] = ()

    def error(self, key: Step, why: str) -> ForeignFileError:
        return self.document.error((*self.path, key), why)

    def has(self, *keys: str) -> bool:
        return all(self.content.get(key) is not None for key in keys)

    def at(self, dotted: str) -> tuple[Node, str] | None:
        """The object that the last step of `a.b.c` stands in, and that step; None where the way there is missing."""
        *way, last = dotted.split(".")
        node: Node | None = self
        for step in way:
            node = node.node(step) if node is not None else None
        return None if node is None else (node, last)

    def node(self, key: str) -> Node | None:
        value = self.content.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.error(key, f"an object is expected here, not {_kind(value)}")
        return Node(self.document, value, (*self.path, key))

    def nodes(self, key: str) -> list[Node]:
        """The objects of a list; none where the key is absent."""
        found = []
        for place, value in enumerate(self.items(key) or ()):
            if not isinstance(value, dict):
                raise self.document.error((*self.path, key, place), f"an object is expected here, not {_kind(value)}")
            found.append(Node(self.document, value, (*self.path, key, place)))
        return found

    def items(self, key: str) -> Sequence[object] | None:
        value = self.content.get(key)
        if value is None:
            return None
        if not isinstance(value, list):
            raise self.error(key, f"a list is expected here, not {_kind(value)}")
        return value

    def number(self, key: str) -> float | None:
        """Finite, not negative, and not larger than LARGEST."""
        value = self.content.get(key)
        return None if value is None else _number(value, self.document, (*self.path, key))

    def count(self, key: str) -> int | None:
        """A whole number; 16.0 is one too."""
        number = self.number(key)
        if number is not None and not number.is_integer():
            raise self.error(key, f"a whole number is expected here, not {number}")
        return None if number is None else int(number)

    def numbers(self, key: str) -> list[float | None] | None:
        values = self.items(key)
        if values is None:
            return None
        at = (*self.path, key)
        return [None if v is None else _number(v, self.document, (*at, place)) for place, v in enumerate(values)]

    def counts(self, key: str) -> list[int | None] | None:
        """Whole numbers; 16.0 is one too."""
        numbers = self.numbers(key)
        for place, number in enumerate(numbers or ()):
            if number is not None and not number.is_integer():
                at = (*self.path, key, place)
                raise self.document.error(at, f"a whole number is expected here, not {number}")
        return None if numbers is None else [None if number is None else int(number) for number in numbers]

    def text(self, key: str) -> str | None:
        """Any text, as it is."""
        value = self.content.get(key)
        if value is not None and not isinstance(value, str):
            raise self.error(key, f"a text is expected here, not {_kind(value)}")
        return value

    def name(self, key: str) -> str | None:
        """A short text of one line; an empty one is None. Markup is left alone: pages escape what they show."""
        value = self.text(key)
        if value and (len(value) > _LONGEST_NAME or not value.isprintable()):
            raise self.error(key, f"a name of one line and at most {_LONGEST_NAME} characters is expected here")
        return value or None

    def flag(self, key: str) -> bool | None:
        value = self.content.get(key)
        if value is not None and not isinstance(value, bool):
            raise self.error(key, f"true or false is expected here, not {_kind(value)}")
        return value

    def labels(self, keys: Sequence[str]) -> dict[str, str]:
        """Those of the keys that hold something short, as text."""
        values = {key: self.content.get(key) for key in keys}
        texts = {
            key: value if isinstance(value, str) else repr(value) for key, value in values.items() if _plain(value)
        }
        return {printable(key): printable(text) for key, text in texts.items() if text}


def top(document: Document) -> Node:
    """The document's object. Raises ForeignFileError where it is none."""
    if not isinstance(document.value, dict):
        raise document.error((), f"an object is expected here, not {_kind(document.value)}")
    return Node(document, document.value)


def _plain(value: object) -> bool:
    return isinstance(value, (str, int, float, bool)) and not (isinstance(value, int) and abs(value) > LARGEST)


def _number(value: object, document: Document, path: Sequence[Step]) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise document.error(path, f"a number is expected here, not {_kind(value)}")
    if not 0 <= value <= LARGEST or math.isnan(value):
        shown = value if isinstance(value, float) or abs(value) <= LARGEST else "a larger one"
        raise document.error(path, f"a number between 0 and {LARGEST:.0f} is expected here, not {shown}")
    return float(value)


def _kind(value: object) -> str:
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")
