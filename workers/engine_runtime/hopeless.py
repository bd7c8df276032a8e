"""Whether an engine that did not start shows that no other arm of its study will start either."""

from __future__ import annotations

import re

from lab.study import Arm, Study

#: How engines report a model that the hub does not have, does not give away, or cannot be asked for.
_NO_MODEL = re.compile(
    r"gated|Repository ?Not ?Found|RepoError|not a valid model identifier|is not a local folder|Entry ?Not ?Found"
    r"|couldn't connect|OfflineMode|offline mode|\b40[134] Client Error|does not appear to have a file named config",
    re.IGNORECASE,
)


def for_every_arm(study: Study, arm: Arm, why: str) -> bool:
    """Return whether the arms that are left would fail as this one did, which is `why` its engine did not start.

    So it is if the engine reports that it cannot get the target, or if the arm has nothing of its own, neither
    speculation nor settings, and all arms have its engine. A running server says nothing about another one.
    """
    if arm.server is not None:
        return False
    is_plain = not (arm.speculation or arm.flags or arm.config or arm.environment)
    if _NO_MODEL.search(why) and (is_plain or study.target in why):
        return all(other.server is None for other in study.arms)
    return is_plain and all(other.engine == arm.engine for other in study.arms)


def sentence(arm: Arm, why: str) -> str:
    """Say in the first line what the engine wrote last, then all of it."""
    last = why.strip().splitlines()[-1].strip()
    return f"no engine of this study can start; the first, of arm {arm.name!r}, says: {last}\n{why}"
