"""Checks that a file of another tool is consistent."""

from __future__ import annotations

from lab.validity.check import Check, Fired
from lab.validity.words import listed

CHECKS = (
    Check(
        name="file_contradicts_itself",
        traps=(26,),
        severity="warning",
        looks_at=("doubts",),
        threshold="a printed figure that is more than 0.5 % away from what the file's own requests, counts or rates "
        "give; does not apply to measured runs",
        why="Tools round, interpolate and define figures a little differently, but not by more than that. A larger "
        "difference means another definition than the name says, or an edited file. The figure computed from the "
        "requests is used.",
        advice="Look up how this version of the tool computes the figure, and compare it only by its requests.",
        rule=lambda evidence: (
            Fired(f"The file contradicts itself: {listed(list(evidence.doubts), 3)}.") if evidence.doubts else None
        ),
    ),
)
