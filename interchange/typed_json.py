"""Typed access to foreign JSON: pydantic types and the base of the formats' models, with errors as one sentence.

Null and absent mean the same, and unknown fields are ignored.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, TypeVar, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails, PydanticCustomError

from interchange.files import printable
from interchange.json_reader import Document, Step
from lab.errors import ForeignFileError

#: Larger than any time in ms, any count and any rate; still exact as a float.
LARGEST = 2**53
_LONGEST_NAME = 1000


def _whole(value: object) -> object:
    """Return 16 for 16.0, which is a whole number too."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _one_line(text: str) -> str:
    if text and (len(text) > _LONGEST_NAME or not text.isprintable()):
        why = "a name of one line and at most {longest} characters is expected here"
        raise PydanticCustomError("name", why, {"longest": _LONGEST_NAME})
    return text


def _none_if_empty(value: object) -> object:
    return None if value == "" else value


Number = Annotated[float, Field(strict=True, ge=0, le=LARGEST, allow_inf_nan=False)]
Count = Annotated[int, Field(strict=True, ge=0, le=LARGEST), BeforeValidator(_whole)]
Flag = Annotated[bool, Field(strict=True)]
Text = Annotated[str, Field(strict=True)]
#: A short text of one line. Markup is left alone: pages escape what they show.
OneLine = Annotated[Text, AfterValidator(_one_line)]
#: The same, with None for an empty one.
Name = Annotated[OneLine | None, BeforeValidator(_none_if_empty)]
#: Lists stop at their first error: a hostile file may have millions.
Numbers = Annotated[list[Number | None], Field(fail_fast=True)]
Counts = Annotated[list[Count | None], Field(fail_fast=True)]
Anything = list[Any]


class Record(BaseModel):
    """An object of a foreign file."""

    model_config = ConfigDict(extra="ignore", frozen=True, protected_namespaces=())

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, value: Any) -> Any:
        return {key: inner for key, inner in value.items() if inner is not None} if isinstance(value, dict) else value


T = TypeVar("T")


def parse(kind: type[T], document: Document, value: object, owner: str, at: Sequence[Step] = ()) -> T:
    """Return the value at `at` as `kind`, which is part of `owner`. Raises ForeignFileError naming the first error."""
    try:
        parsed: T = _adapter(cast("Any", kind)).validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise document.error((*at, *first["loc"]), _sentence(first, owner)) from None
    return parsed


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _sentence(error: ErrorDetails, owner: str) -> str:
    """Return why the value is refused, in the words of JSON."""
    kind, value = error["type"], error["input"]
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind == "missing":
        why = f"this is missing in {owner}"
    elif kind == "literal_error":
        shown = _kind(value) if isinstance(value, (dict, list)) else printable(str(value))
        why = f"found {shown}; supported are {error['ctx']['expected']}"
    elif kind in _EXPECTED and not (is_number and kind in _NUMBERS):
        why = f"{_EXPECTED[kind]} is expected here, not {_kind(value)}"
    elif kind == "int_type" and isinstance(value, float) and math.isfinite(value):
        why = f"a whole number is expected here, not {value}"
    elif is_number:
        shown = value if isinstance(value, float) or abs(value) <= LARGEST else "a larger one"
        why = f"a number between 0 and {LARGEST} is expected here, not {shown}"
    else:
        why = error["msg"]
    return why


_NUMBERS = ("float_type", "int_type")
_EXPECTED = {
    **dict.fromkeys(_NUMBERS, "a number"),
    **dict.fromkeys(("list_type", "tuple_type"), "a list"),
    **dict.fromkeys(("dict_type", "model_type"), "an object"),
    "string_type": "a text",
    "bool_type": "true or false",
}


def _kind(value: object) -> str:
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")


R = TypeVar("R", bound=Record)


@dataclass(frozen=True)
class Part:
    """An object of a document, with its path in it."""

    document: Document
    content: Mapping[str, object]
    at: tuple[Step, ...] = ()

    def error(self, key: Step, why: str) -> ForeignFileError:
        return self.document.error((*self.at, key), why)

    def parse(self, model: type[R], owner: str) -> R:
        """Return the object as `model`. Raises ForeignFileError."""
        return parse(model, self.document, self.content, owner, self.at)

    def labels(self, keys: Sequence[str]) -> dict[str, str]:
        """Return the values of these keys that are short, as text."""
        values = {key: self.content.get(key) for key in keys}
        short = {key: value for key, value in values.items() if _is_short(value)}
        texts = {key: value if isinstance(value, str) else repr(value) for key, value in short.items()}
        return {printable(key): printable(text) for key, text in texts.items() if text}


def whole(document: Document) -> Part:
    """Return the document's only object. Raises ForeignFileError for a document of another kind."""
    return Part(document, parse(dict[str, object], document, document.value, "the file"))


def parts(document: Document, values: object, *at: Step) -> list[Part]:
    """Return the objects of a list at `at`. Raises ForeignFileError for a list of anything else."""
    objects = parse(list[dict[str, object]], document, values, "the file", at)
    return [Part(document, content, (*at, place)) for place, content in enumerate(objects)]


def all_known(values: Sequence[float | None] | None) -> Sequence[float]:
    """Return the values, or an empty list if one of them is unknown."""
    return [] if values is None or None in values else cast("Sequence[float]", values)


def _is_short(value: object) -> bool:
    return isinstance(value, (str, int, float, bool)) and not (isinstance(value, int) and abs(value) > LARGEST)
