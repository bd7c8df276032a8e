"""What to measure next: one plan, from which the sentence, the button and the study itself follow."""

from __future__ import annotations

import math
from dataclasses import dataclass

from lab.advice.answer import Answer, InconclusiveCells, JudgedPair
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

    `why` says what it would decide, a clause. `nearest`: the number of cells it measures, those that it would decide;
    None: all.
    """

    repeats: int
    prompts: int
    why: str
    nearest: int | None = None

    @property
    def what(self) -> str:
        """Return `20 repeats with twice the prompts`, for the sentence and for the button."""
        return _size(self.repeats, self.prompts)


def _size(repeats: int, prompts: int) -> str:
    times = "" if prompts == 1 else f" with {'twice' if prompts == 2 else f'{prompts} times'} the prompts"
    return f"{repeats} repeats{times}"


def follow_up(answer: Answer) -> FollowUp | None:
    """Return the plan for what an answer leaves inconclusive; None if nothing is, or if no plan would decide any of it.

    It decides most of the cells; or else those that are within reach.
    """
    found = answer.inconclusive
    if found is None:
        return None
    more = found.more_repeats
    if more is not None and found.repeats + more <= MOST_REPEATS * MOST_TIMES_PROMPTS:
        return _deciding(found.repeats + more, {1: "it", 2: "both"}.get(found.cells, "most of them"))
    repeats = max(LEAST_REPEATS, found.repeats)
    if lacking := _lacking(found):
        return FollowUp(repeats, 1, lacking)
    needed = [found.repeats + each for pair in _nearest_first(answer) if (each := pair.more_repeats) is not None]
    for most in (MOST_REPEATS, MOST_REPEATS * MOST_TIMES_PROMPTS):
        if reached := [total for total in needed if total <= most]:
            return _deciding(reached[-1], f"{len(reached)} of them", nearest=len(reached))
    if more is not None:
        return None
    what = {1: "it", 2: "both"}.get(found.cells, "most of them")
    return FollowUp(repeats, _TIMES_PROMPTS, f"is the next step, as repeats alone would not decide {what}")


def _deciding(total: int, which: str, *, nearest: int | None = None) -> FollowUp:
    total = max(LEAST_REPEATS, total)
    why = f"would decide {which} if ratios and scatter stay as they are"
    return FollowUp(min(total, MOST_REPEATS), math.ceil(total / MOST_REPEATS), why, nearest)


def _nearest_first(answer: Answer) -> list[JudgedPair]:
    """Return the inconclusive pairs, the one that is decided by the fewest repeats first."""
    inconclusive = [pair for choice in answer.choices for pair in choice.inconclusive]
    return sorted(inconclusive, key=lambda pair: math.inf if pair.more_repeats is None else pair.more_repeats)


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
    if found is None:
        return ""
    which = (
        f"{found.cells} of {answer.cells} comparisons"
        if found.cells < answer.cells
        else f"All {found.cells} comparisons"
    )
    if answer.cells == 1:
        which = "The only comparison"
    said = f"{which} {'is' if found.cells == 1 else 'are'} inconclusive"
    if plan is None:
        largest, each = _size(MOST_REPEATS, MOST_TIMES_PROMPTS), "it" if found.cells == 1 else "any of them"
        return f"{said}, and even {largest} would not decide {each}."
    takes = "" if seconds is None else f" (about {rough_duration(seconds)})"
    return f"{said}. A follow-up of {plan.what}{takes} {plan.why}."


def next_study(study: Study, answer: Answer) -> Study | None:
    """Return the follow-up as a study of the arms, workloads and loads that it decides, with the baseline; None without
    one. Arms and loads that the study does not have are left out.
    """
    plan = follow_up(answer)
    inconclusive = _nearest_first(answer)[: None if plan is None else plan.nearest]
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
