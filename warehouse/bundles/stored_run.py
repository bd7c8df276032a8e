"""The stored form of `run.json`, by the version of the bundle format: every field of RunRecord that the version has.

Types are checked, and unknown and missing fields are refused. The rules for studies that users submit are not, so that
these may become stricter while stored bundles stay readable. A field that a version lacks has the record's default.
"""

from __future__ import annotations

import functools
from types import UnionType
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, create_model
from pydantic.fields import FieldInfo

from lab.metrics.records import BUNDLE_FORMAT_VERSION, RunRecord
from lab.study.model_base import FIRST_FORMAT_VERSION, RecordField

READABLE_FORMAT_VERSIONS = tuple(range(FIRST_FORMAT_VERSION, BUNDLE_FORMAT_VERSION + 1))


class _Stored(BaseModel):
    """The stored form of `record`, with the same fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    record: ClassVar[type[BaseModel]]


def run_from_json(version: int, content: bytes) -> RunRecord:
    """Read a run in the form of a readable version. Raises pydantic's ValidationError for a record of another form."""
    run = _record(stored_form(RunRecord, version).model_validate_json(content))
    assert isinstance(run, RunRecord)  # noqa: S101 - tells mypy
    return run


@functools.cache
def stored_form(record: type[BaseModel], version: int) -> type[_Stored]:
    """Return the model of a record as bundles of this version store it."""
    fields: dict[str, Any] = {
        name: (_stored_type(info.annotation, version), ...)
        for name, info in record.model_fields.items()
        if _since(info) <= version
    }
    form = create_model(f"Stored{record.__name__}", __base__=_Stored, **fields)
    form.record = record
    return form


def _since(info: FieldInfo) -> int:
    return next((mark.since for mark in info.metadata if isinstance(mark, RecordField)), FIRST_FORMAT_VERSION)


def _stored_type(hint: Any, version: int) -> Any:
    """Return the type without constraints, and with a stored form in place of each record in it."""
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        return stored_form(hint, version)
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _stored_type(inner[0], version)
    if origin is Literal:
        return Union[tuple(map(type, inner))]  # noqa: UP007 - of as many types as there are
    if origin is None:
        return hint
    stored = tuple(_stored_type(part, version) for part in inner)
    return Union[stored] if origin in (Union, UnionType) else origin[stored]  # noqa: UP007


def _record(value: Any) -> Any:
    """Turn stored forms, and tuples of them, into their records, without the checks for what users submit."""
    if isinstance(value, tuple):
        return tuple(map(_record, value))
    if not isinstance(value, _Stored):
        return value
    return value.record.model_construct(**{name: _record(getattr(value, name)) for name in type(value).model_fields})
