"""The standard output of a process whose result another process reads."""

from __future__ import annotations

import os


def own_output() -> int:
    """Return a private descriptor of the standard output: write the result to it.

    From now on, what libraries write to the standard output goes to the standard error: a progress bar or a warning
    within the result would make it unreadable. Call it before they are imported.
    """
    output = os.dup(1)
    os.dup2(2, 1)
    return output
