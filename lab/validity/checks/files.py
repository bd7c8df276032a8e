"""Whether a file of another tool agrees with itself."""

from __future__ import annotations

from lab.validity.check import Answer, Check, Fired
from lab.validity.evidence import Evidence
from lab.validity.words import listed

_SHOWN = 3


def _contradicts_itself(seen: Evidence) -> Answer:
    if not seen.doubts:
        return None
    return Fired(f"The file contradicts itself: {listed(list(seen.doubts), _SHOWN)}.")


CHECKS = (
    Check(
        name="file_contradicts_itself",
        traps=(26,),
        severity="warning",
        looks_at=("doubts",),
        threshold="a printed figure that is more than 0.5 % from what the file's own requests, counts or rates give; "
        "measured runs have none",
        why="Tools round, interpolate and define a little differently, but no further than that. What is further away "
        "was counted otherwise than its name says, or edited. The figure that follows from the requests is kept.",
        advice="Look up how this version of the tool computes the figure, and compare others with it only by requests.",
        look=_contradicts_itself,
    ),
)
