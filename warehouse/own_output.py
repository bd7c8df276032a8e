"""The standard output of a process that another process reads its answer from."""

from __future__ import annotations

import os


def own_output() -> int:
    """Return a descriptor of the standard output that nobody else has: write the answer to it.

    From now on, what libraries write to the standard output goes to the standard error: a progress bar or a warning
    within the answer would make it unreadable. Call it before they are imported.
    """
    output = os.dup(1)
    os.dup2(2, 1)
    return output
