"""What to measure next: one plan, from which the sentence, the button and the study itself follow."""

from __future__ import annotations

import math
from dataclasses import dataclass

from lab.advice.answer import Answer, InconclusiveCells
from lab.study import Study
from lab.study.duration import rough_duration

#: Two repeats estimate their scatter badly (one degree of freedom), so a deciding study has at least three.
LEAST_REPEATS = 3
#: More repeats at once are rarely worth it: such cells are better decided by runs with more prompts, up to this many
#: times as many.
MOST_REPEATS = 20
MOST_TIMES_PROMPTS = 8
#: For cells that no number of repeats decides, as the scatter is that of their prompts.
_TIMES_PROMPTS = 4


@dataclass(frozen=True)
class FollowUp:
    """A study of the inconclusive cells: `repeats` in all, with `prompts` times as many prompts a run.

    `why` says what it would decide, or why it would not; a clause.
    """

    repeats: int
    prompts: int
    why: str

    @property
    def what(self) -> str:
        """Return `20 repeats with twice the prompts`, for the sentence and for the button."""
        times = (
            ""
            if self.prompts == 1
            else f" with {'twice' if self.prompts == 2 else f'{self.prompts} times'} the prompts"
        )
        return f"{self.repeats} repeats{times}"


def follow_up(answer: Answer) -> FollowUp | None:
    """Return the plan for what an answer leaves inconclusive; None if nothing is."""
    found = answer.inconclusive
    if found is None:
        return None
    which = {1: "it", 2: "both"}.get(found.cells, "most of them")
    more = found.more_repeats if found.more_repeats is not None else found.more_starts
    if more is not None:
        total = max(LEAST_REPEATS, found.repeats + more)
        prompts = math.ceil(total / MOST_REPEATS)
        if prompts <= MOST_TIMES_PROMPTS:
            return FollowUp(
                min(total, MOST_REPEATS), prompts, f"would decide {which} if ratios and scatter stay as they are"
            )
        return FollowUp(MOST_REPEATS, MOST_TIMES_PROMPTS, f"would still not decide {which}")
    repeats = max(LEAST_REPEATS, found.repeats)
    if lacking := _lacking(found):
        return FollowUp(repeats, 1, lacking)
    return FollowUp(repeats, _TIMES_PROMPTS, f"is the next step, as repeats alone would not decide {which}")


def _lacking(found: InconclusiveCells) -> str:
    """Say why most cells have no interval; empty if they have one."""
    if 2 * found.without_ratio > found.cells:
        return "is the next step, once the runs work: an arm or the baseline has no valid number in most of them"
    if 2 * (found.without_ratio + found.without_interval) > found.cells:
        return "would show how much runs vary, which fewer do not"
    return ""


def sentence(answer: Answer, seconds: float | None = None) -> str:
    """Say how many comparisons are inconclusive, and what to measure next; empty if none is.

    `seconds`: the forecast of the follow-up.
    """
    plan, found = follow_up(answer), answer.inconclusive
    if plan is None or found is None:
        return ""
    which = (
        f"{found.cells} of {answer.cells} comparisons"
        if found.cells < answer.cells
        else f"All {found.cells} comparisons"
    )
    if answer.cells == 1:
        which = "The only comparison"
    takes = "" if seconds is None else f" (about {rough_duration(seconds)})"
    return f"{which} {'is' if found.cells == 1 else 'are'} inconclusive. A follow-up of {plan.what}{takes} {plan.why}."


def next_study(study: Study, answer: Answer) -> Study | None:
    """Return the follow-up as a study of the inconclusive arms, workloads and loads with the baseline; None if there
    are none. Arms and loads that the study does not have are left out.
    """
    plan = follow_up(answer)
    inconclusive = [pair for choice in answer.choices for pair in choice.inconclusive]
    arms = {pair.arm for pair in inconclusive}
    chosen = tuple(arm for arm in study.arms if arm.name in arms or arm == study.baseline)
    workloads = tuple(
        workload for workload in study.workloads if workload.name in {pair.workload for pair in inconclusive}
    )
    loads = tuple(load for load in study.loads if load.name in {pair.load for pair in inconclusive})
    if plan is None or len(chosen) < 2 or not workloads or not loads:
        return None
    loads = tuple(  # a load that ends after a time stays as it is
        load
        if load.duration_s is not None
        else load.model_copy(update={"num_prompts": plan.prompts * load.num_prompts})
        for load in loads
    )
    changes = {"arms": chosen, "workloads": workloads, "loads": loads, "repeats": plan.repeats, "budget_s": None}
    return study.model_copy(update=changes)
