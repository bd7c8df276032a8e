"""The study that would decide what another one left open."""

from __future__ import annotations

from collections.abc import Sequence

from lab.advice import Advice, Measured
from lab.study import Study

#: Two repeats know their own scatter badly (one degree of freedom): a study that is to decide has three at least.
_LEAST_REPEATS = 3
#: More in one go are seldom well spent: what needs them is better decided by more prompts.
MOST_REPEATS = 20


def next_study(study: Study, advice: Sequence[Advice], measured: Sequence[Measured]) -> Study | None:
    """The baseline and the arms, workloads and loads of the verdicts "measure this next"; None where there are none.

    With as many repeats in all as they are said to need. Raises nothing: what the study does not know is left out.
    """
    open_ = {(one.workload, one.pattern, one.arm) for one in advice if one.action == "measure this next"}
    there = [one for one in measured if (one.workload, one.pattern, one.arm) in open_]
    arms = {one.arm for one in there}
    kept = tuple(arm for arm in study.arms if arm.name in arms or arm == study.baseline)
    workloads = tuple(each for each in study.workloads if each.name in {one.workload for one in there})
    loads = tuple(each for each in study.loads if each.name in {one.pattern for one in there})
    if len(kept) < 2 or not workloads or not loads:
        return None
    more = max((one.more_repeats or 0 for one in there), default=0)
    repeats = min(MOST_REPEATS, max(_LEAST_REPEATS, study.repeats + more))
    changes = {"arms": kept, "workloads": workloads, "loads": loads, "repeats": repeats}
    return study.model_copy(update=changes)
