"""What every part of a study is made of."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated

from pydantic import BaseModel, ConfigDict, StringConstraints

Name = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200, pattern=r"^[^\x00-\x1f]+$")
]
FlagValue = bool | int | float | str


class Frozen(BaseModel):
    """Immutable, and a key it does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    def digest(self) -> str:
        """SHA-256 (hex) of the canonical JSON form: the same content has the same digest on every machine.

        What is at its default is left out, so that a field added later leaves the digests of before as they were.
        """
        content = self.model_dump(mode="json", exclude_defaults=True)
        canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(canonical.encode()).hexdigest()
