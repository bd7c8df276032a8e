"""Which drafts remember the answers of earlier requests, by the kind of engine."""

from __future__ import annotations

from collections.abc import Iterator

from jobs.engines.capabilities import Capabilities
from jobs.engines.kinds import KINDS
from lab.study import Arm, Study


def memory_problems_of_drafts(study: Study, arm: Arm, has: Capabilities) -> Iterator[tuple[str, str]]:
    """Yield a draft that remembers by its engine's kind, which the plan of the study cannot know by its method."""
    if arm.speculation is None or study.fresh_starts != "as_declared" or study.starts_each_cell(arm):
        return
    kind = KINDS[has.kind]
    if arm.server is None and kind.remembers is not None and kind.remembers(arm.speculation):
        without = f"; or set {kind.forgets} in its options" if kind.forgets else ""
        problem = (
            f"{arm.speculation.method} of {has.engine} keeps the answers of earlier requests, so later cells would "
            f'replay those of the cells before: set "every_cell" for an engine start each, or "never"{without}'
        )
        yield "fresh_starts", problem
