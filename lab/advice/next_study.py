"""The study that would decide what a study's answer leaves inconclusive."""

from __future__ import annotations

import math

from lab.advice.answer import Answer
from lab.study import Study

#: Two repeats estimate their scatter badly (one degree of freedom), so a deciding study has at least three.
LEAST_REPEATS = 3
#: More repeats at once are rarely worth it: such cells are better decided by runs with more prompts, up to this many
#: times as many.
MOST_REPEATS = 20
MOST_TIMES_PROMPTS = 8


def next_study(study: Study, answer: Answer) -> Study | None:
    """Return a study of the inconclusive arms, workloads and loads with the baseline; None if there are none.

    It has as many repeats in all as they need. Where these are more than `MOST_REPEATS`, its runs have more prompts, as
    the scatter of short runs is that of their prompts. Arms and loads that the study does not have are left out.
    """
    inconclusive = [pair for choice in answer.choices for pair in choice.inconclusive]
    arms = {pair.arm for pair in inconclusive}
    chosen = tuple(arm for arm in study.arms if arm.name in arms or arm == study.baseline)
    workloads = tuple(
        workload for workload in study.workloads if workload.name in {pair.workload for pair in inconclusive}
    )
    loads = tuple(load for load in study.loads if load.name in {pair.load for pair in inconclusive})
    if len(chosen) < 2 or not workloads or not loads:
        return None
    more = max((pair.verdict.more_repeats or pair.verdict.more_starts or 0 for pair in inconclusive), default=0)
    before = 0 if study.until_decided else study.repeats
    repeats = min(MOST_REPEATS, max(LEAST_REPEATS, before + more))
    times = max(1, min(MOST_TIMES_PROMPTS, math.ceil((before + more) / MOST_REPEATS)))
    loads = tuple(  # a load that ends after a time stays as it is
        load if load.duration_s is not None else load.model_copy(update={"num_prompts": times * load.num_prompts})
        for load in loads
    )
    changes = {"arms": chosen, "workloads": workloads, "loads": loads, "repeats": repeats, "budget_s": None}
    return study.model_copy(update=changes)
