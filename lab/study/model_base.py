"""The base model of every part of a study."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, StringConstraints

Name = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200, pattern=r"^[^\x00-\x1f]+$")
]
FlagValue = bool | int | float | str


#: The highest price per hour or kWh, in any currency: a sum of some of them is still a number that pages show.
MOST_PRICE = 1e9


#: The first version of the bundle format that is kept.
FIRST_FORMAT_VERSION = 13


@dataclass(frozen=True)
class RecordField:
    """Declares a field of what a bundle stores, as `Annotated[type, RecordField(...)]`.

    The Parquet files, the readers of old bundles, the warehouse's columns and the data dictionary follow from it.
    `since` is the first version of the bundle format that has the field. A field that is newer than the first version
    needs a default: its value in older bundles. `column` is its name in the warehouse if that differs.
    """

    comment: str
    unit: str | None = None
    since: int = FIRST_FORMAT_VERSION
    column: str = ""


@dataclass(frozen=True)
class Input:
    """How a form shows a field beyond its title, description and type, as `Annotated[..., Input(...)]`."""

    placeholder: str = ""  # an example, or what an empty field means
    step: float = 1.0  # how much a click adds to a number
    choices: Mapping[Any, str] = field(default_factory=dict)  # what each value is called


class Frozen(BaseModel):
    """An immutable model that refuses unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    def digest(self) -> str:
        """SHA-256 (hex) of the canonical JSON form: the same content has the same digest on every machine.

        Defaults are left out, so that a field added later does not change earlier digests.
        """
        content = self.model_dump(mode="json", exclude_defaults=True)
        canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(canonical.encode()).hexdigest()
