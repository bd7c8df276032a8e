"""Typed access to foreign JSON: pydantic types and the base of the formats' models, with errors as one sentence.

Null and absent mean the same, and unknown fields are ignored.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, TypeVar, cast

from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasPath,
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
#: Of a count that a tool computed in floating point.
_ROUNDING = 1e-12


def _whole(value: object) -> object:
    """Turn 16.0 into 16, and so 440.00000000000006: tools compute sums as mean times count."""
    if isinstance(value, float) and abs(value) <= LARGEST and abs(value - round(value)) <= _ROUNDING * abs(value):
        return round(value)
    return value


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


def at(*path: str, default: Any = None) -> Any:
    """Declare a field that is read from this path within the object. It is missing if any part of the path is."""
    return Field(default, validation_alias=AliasPath(*path))


def either(*paths: Sequence[str], default: Any = None) -> Any:
    """Declare a field that versions of a tool write to different paths: the first that the object has is read."""
    return Field(default, validation_alias=AliasChoices(*(AliasPath(*path) for path in paths)))


T = TypeVar("T")


def parse(kind: type[T], document: Document, value: object, owner: str, path: Sequence[Step] = ()) -> T:
    """Return the value at `path` of `owner` as `kind`. Raises ForeignFileError naming the first error."""
    try:
        parsed: T = _adapter(cast("Any", kind)).validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise document.error((*path, *first["loc"]), _sentence(first, owner)) from None
    return parsed


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _sentence(error: ErrorDetails, owner: str) -> str:
    """Return the reason why the value is refused."""
    if error["type"] == "missing":
        return f"this is missing in {owner}"
    value, why = error["input"], error["msg"]
    if not why.startswith("Input should"):  # a sentence of ours
        return why
    return f"{why[:1].lower()}{why[1:]}, not {_KINDS.get(type(value)) or printable(repr(value))}"


_KINDS = {dict: "an object", list: "a list", type(None): "null"}


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
        """Return the short values among these keys, as text."""
        values = {key: self.content.get(key) for key in keys}
        short = {key: value for key, value in values.items() if _is_short(value)}
        texts = {key: value if isinstance(value, str) else repr(value) for key, value in short.items()}
        return {printable(key): printable(text) for key, text in texts.items() if text}


def whole(document: Document) -> Part:
    """Return the document's only object. Raises ForeignFileError for a document of another kind."""
    return Part(document, parse(dict[str, object], document, document.value, "the file"))


def parts(document: Document, values: object, *path: Step) -> list[Part]:
    """Return the objects of a list at `path`. Raises ForeignFileError for a list of anything else."""
    objects = parse(list[dict[str, object]], document, values, "the file", path)
    return [Part(document, content, (*path, index)) for index, content in enumerate(objects)]


def records(document: Document) -> list[tuple[Part, str]]:
    """Return the document's object, or each of its list, with its place in the file. Raises ForeignFileError."""
    if isinstance(document.value, list):
        return [(part, f"[{part.at[0]}]") for part in parts(document, document.value)]
    return [(whole(document), f"line {document.line}" if document.line > 1 else "")]


def error_text(error: object, otherwise: str) -> str:
    """Return why a request failed as one line: the message if the error is an object, or JSON, that has one."""
    if isinstance(error, str) and error.lstrip().startswith("{"):
        with contextlib.suppress(ValueError, RecursionError):
            error = json.loads(error)
    while isinstance(error, dict):
        error = next((error[key] for key in ("error", "message", "error_msg", "detail") if error.get(key)), None)
    return " ".join(str(error or "").split()) or otherwise


def all_known(values: Sequence[float | None] | None) -> Sequence[float]:
    """Return the values, or an empty list if one of them is unknown."""
    return [] if values is None or None in values else cast("Sequence[float]", values)


def _is_short(value: object) -> bool:
    return isinstance(value, (str, int, float, bool)) and not (isinstance(value, int) and abs(value) > LARGEST)
