"""How many runs of a study or a warehouse completed, failed and were found invalid, in words."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RunCounts:
    """Of several attempts at a cell one counts. `invalid` ones are among the completed ones."""

    completed: int
    invalid: int
    failed: int

    @property
    def words(self) -> str:
        """`12`, or `10 of 12, 2 failed, 1 invalid`."""
        of = f" of {self.completed + self.failed}, {self.failed} failed" if self.failed else ""
        return f"{self.completed}{of}{f', {self.invalid} invalid' if self.invalid else ''}"

    @property
    def lost(self) -> str:
        """`2 failed, 1 invalid`, or `none failed`."""
        failed = f"{self.failed} failed" if self.failed else "none failed"
        return f"{failed}, {self.invalid} invalid" if self.invalid else failed
