"""What a tuning chooses between, and what it has measured."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Setting:
    """A draft, by its name within the tuning, with the number of tokens it drafts a round."""

    draft: str
    k: int


#: No speculation: what every setting is compared with, and a choice like any other.
NONE = Setting("", 0)


@dataclass(frozen=True)
class Space:
    """What may be measured: every draft with every k, at every load."""

    drafts: tuple[str, ...]
    ks: tuple[int, ...]  # ascending, without 0
    loads: tuple[int, ...]  # requests at once, ascending

    @property
    def settings(self) -> tuple[Setting, ...]:
        return (NONE, *(Setting(draft, k) for draft in self.drafts for k in self.ks))


@dataclass(frozen=True)
class TunedRun:
    """One run: its speed in output tokens a second, None if it failed or is invalid.

    `is_disturbed` if it was measured and is invalid: another try may count. `accepted` has for each position the share
    of rounds in which all tokens up to it were accepted; empty if unknown.
    """

    setting: Setting
    load: int
    block: Hashable  # runs of one block are compared with each other
    speed: float | None
    accepted: tuple[float, ...] = ()
    is_disturbed: bool = False
