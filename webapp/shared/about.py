"""What a file of a picture or a table says of itself: title, whose figures these are, from when, and the link. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import urlencode

from webapp.shared.text import moment

_NOT_IN_NAMES = re.compile(r"[^\w.-]+")
_MOST_NAME_LETTERS = 80
#: Whose figures they are.
SOURCE = "Drafthouse"


@dataclass(frozen=True)
class View:
    """A page and the parameters of its link. `page` is its path in the URL."""

    page: str
    parameters: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def link(self) -> str:
        """Relative to the app: `results?job=...`."""
        query = urlencode(self.parameters, doseq=True)
        return f"{self.page}?{query}" if query else self.page


@dataclass(frozen=True)
class About:
    """`source`: whose figures; `as_of`: the moment of the data, null where unknown; `link`: where the view stands."""

    title: str
    note: str
    source: str
    as_of: datetime | None
    link: str

    @property
    def lines(self) -> tuple[str, ...]:
        """Below the title."""
        return tuple(line for line in (self.note, f"{self.source}, data of {moment(self.as_of)}", self.link) if line)

    def file_name(self, ending: str) -> str:
        """The title as a name that every file system takes."""
        name = _NOT_IN_NAMES.sub("-", self.title).strip("-.")[:_MOST_NAME_LETTERS]
        return f"{name or 'drafthouse'}.{ending}"
