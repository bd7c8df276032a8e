"""The schedule of a study that several slots share: which block of its runs the next free slot measures.

A block is the repeats of the arms that belong together: what is compared was measured on one slot. Unlike the steps of
`lab.schedule.schedule`, which of two blocks ends first is luck; so what a block holds is decided once, and kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from lab.schedule.schedule import End, Outcome
from lab.study import Study
from lab.study.plan import Launch, blocks

#: What a block holds, as text for a database; None: its number says it.
Content = str | None


@dataclass(frozen=True)
class Share:
    """What the next block holds, a sentence on what is known so far (perhaps empty), and what is left of a budget."""

    content: Content
    standing: str = ""
    left_s: float | None = None  # of all slots together, without the blocks that are done


class SharedSchedule(Protocol):
    """Pure, like `Schedule`. Blocks are numbered from 0 in the order in which they were handed out."""

    def launches(self, contents: Sequence[Content]) -> list[tuple[Launch, ...]]:
        """Return the launches of each of these blocks, which are the first ones of the study."""

    def later(self, contents: Sequence[Content]) -> tuple[Launch, ...]:
        """Return at most what follows these blocks."""

    def next(
        self, contents: Sequence[Content], done: Collection[int], outcomes_of: Callable[[int], Sequence[Outcome]]
    ) -> Share | End | None:
        """Return the block that follows those handed out, the end, or None: a block under way has to end first.

        `outcomes_of` reads those of a block that is done, from disk.
        """


class SharedPlan:
    """The blocks of a study with a fixed number of repeats."""

    def __init__(self, study: Study) -> None:
        self._blocks = blocks(study)

    def launches(self, contents: Sequence[Content]) -> list[tuple[Launch, ...]]:
        return list(self._blocks[: len(contents)])

    def later(self, contents: Sequence[Content]) -> tuple[Launch, ...]:
        return tuple(launch for block in self._blocks[len(contents) :] for launch in block)

    def next(
        self,
        contents: Sequence[Content],
        done: Collection[int],
        outcomes_of: Callable[[int], Sequence[Outcome]],  # noqa: ARG002 - a plan does not depend on them
    ) -> Share | End | None:
        if len(contents) < len(self._blocks):
            return Share(None)
        return End("complete") if len(done) == len(contents) else None
