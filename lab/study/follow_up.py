"""The follow-up study that would decide what another one left open."""

from __future__ import annotations

from collections.abc import Sequence

from lab.advice import Advice, Measured
from lab.study import Study

#: Two repeats estimate their scatter badly (one degree of freedom), so a deciding study has at least three.
_LEAST_REPEATS = 3
#: More repeats at once are rarely worth it: such cells are better decided by more prompts.
MOST_REPEATS = 20


def next_study(study: Study, advice: Sequence[Advice], measured: Sequence[Measured]) -> Study | None:
    """Return a study of what the verdicts "measure this next" name, with the baseline; None if there are none.

    It has as many repeats in all as they need. Arms and loads that the study does not have are left out.
    """
    open_ = {(one.workload, one.pattern, one.arm) for one in advice if one.action == "measure this next"}
    there = [one for one in measured if (one.workload, one.pattern, one.arm) in open_]
    arms = {one.arm for one in there}
    chosen = tuple(arm for arm in study.arms if arm.name in arms or arm == study.baseline)
    workloads = tuple(each for each in study.workloads if each.name in {one.workload for one in there})
    loads = tuple(each for each in study.loads if each.name in {one.pattern for one in there})
    if len(chosen) < 2 or not workloads or not loads:
        return None
    more = max((one.more_repeats or 0 for one in there), default=0)
    repeats = min(MOST_REPEATS, max(_LEAST_REPEATS, study.repeats + more))
    changes = {"arms": chosen, "workloads": workloads, "loads": loads, "repeats": repeats}
    return study.model_copy(update=changes)
