"""Checks of what a study claims: that speculation changes no output, and what a token costs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from lab.validity.check import Answers, Fired, Missing, StudyCheck
from lab.validity.checks.comparability import by_workload_and_load, ids_of, pairs
from lab.validity.evidence import StudyRun
from lab.validity.words import listed, percent

if TYPE_CHECKING:
    from lab.comparison.effect import Interval

#: Below this share of equal outputs an arm does not match its target, unless the target's own repeats differ as much.
SAME_SHARE = 0.9


@dataclass(frozen=True)
class _Agreed:
    """How many outputs were the same in both runs of a pair, over all pairs, and to how many prompts they are."""

    same: int
    compared: int
    prompts: int

    @property
    def interval(self) -> Interval | None:
        """Return the share with its interval over prompts: repeats and loads send each of them again."""
        from lab.comparison.agreement import share  # noqa: PLC0415 - SciPy, which runs alone do without

        return share(self.same / self.compared * self.prompts, self.prompts) if self.compared else None


def _outputs(runs: Sequence[StudyRun]) -> Answers:
    greedy = [study_run for study_run in runs if study_run.run.sampling.temperature == 0]
    by_arm: dict[str, list[tuple[StudyRun, StudyRun]]] = defaultdict(list)
    for baseline, candidate in pairs(greedy):
        by_arm[candidate.run.arm.name].append((baseline, candidate))
    if not by_arm:
        return []
    baselines = by_workload_and_load(study_run for study_run in greedy if study_run.run.is_baseline)
    own = _agreed(pair for cell in baselines for pair in pairwise(sorted(cell, key=lambda each: each.run.repeat)))
    agreement_of = {arm: _agreed(both) for arm, both in by_arm.items()}
    if not any(agreed.compared for agreed in agreement_of.values()):
        return [Missing("the outputs of an arm and of the baseline for the same prompts")]
    return [
        _differs(arm, agreed, own, [study_run for both in by_arm[arm] for study_run in both])
        for arm, agreed in agreement_of.items()
        if agreed.same < agreed.compared
    ]


def _agreed(both: Iterable[tuple[StudyRun, StudyRun]]) -> _Agreed:
    outputs = [(ours.run.workload.name, ours.outputs or {}, theirs.outputs or {}) for ours, theirs in both]
    same = [
        ((workload, prompt), ours[prompt] == theirs[prompt])
        for workload, ours, theirs in outputs
        for prompt in ours.keys() & theirs.keys()
    ]
    return _Agreed(sum(is_same for _, is_same in same), len(same), len({prompt for prompt, _ in same}))


def _differs(arm: str, agreed: _Agreed, own: _Agreed, runs: Sequence[StudyRun]) -> Fired:
    interval, of_baseline = agreed.interval, own.interval
    agreement, is_low = "", False
    if interval is not None and interval.low is not None and interval.high is not None:
        agreement = f" ({percent(interval.value)}; 95 % interval {percent(interval.low)} to {percent(interval.high)})"
        # beyond chance, and lower than among the baseline's own repeats
        is_low = interval.high < SAME_SHARE and (
            of_baseline is None or of_baseline.low is None or interval.high < of_baseline.low
        )
    beside = "" if of_baseline is None else f"; the baseline's own repeats agree for {percent(of_baseline.value)}"
    of = "prompts" if agreed.compared == agreed.prompts else f"answers to {agreed.prompts} prompts"
    return Fired(
        f"Arm {arm!r} gave the same output as the baseline for {agreed.same} of {agreed.compared} "
        f"{of}{agreement}{beside}.",
        "warning" if is_low else "note",
        ids_of([study_run.run for study_run in runs]),
    )


def _undated_price(runs: Sequence[StudyRun]) -> Answers:
    by_price: dict[float, list[StudyRun]] = defaultdict(list)
    for study_run in runs:
        if study_run.price_usd_per_hour is not None:
            by_price[study_run.price_usd_per_hour].append(study_run)
    return [_undated(price, priced) for price, priced in by_price.items()]


def _undated(price: float, runs: Sequence[StudyRun]) -> Fired:
    machines = list(dict.fromkeys(study_run.run.circumstances.hardware for study_run in runs))
    same = "" if len(machines) == 1 else f", and is the same for {len(machines)} kinds of hardware ({listed(machines)})"
    return Fired(
        f"Costs follow from the study's own price, {price:g} USD an hour, which has no date and no source{same}.",
        "note" if len(machines) == 1 else "warning",
        ids_of([study_run.run for study_run in runs]),
    )


CHECKS = (
    StudyCheck(
        name="outputs_differ",
        traps=(23,),
        severity="warning",
        looks_at=("output_text", "prompt_id", "sampling", "is_baseline"),
        threshold="any greedy output that differs from the baseline's (each run's first requests): a warning if "
        f"the equal share's 95 % interval (Wilson, over prompts) lies below {percent(SAME_SHARE)} and below that of "
        "the baseline's own repeats, else a note",
        why="Sums in another order may flip a token; fewer equal outputs than that mean that another text was timed.",
        advice="Read pairs that differ (drafthouse compare STUDY). If they are worse, or only this arm differs, do "
        "not trust its speed-up; look for reports about this engine version.",
        rule=_outputs,
    ),
    StudyCheck(
        name="price_without_date",
        traps=(25,),
        severity="warning",
        looks_at=("price_usd_per_hour", "circumstances.hardware"),
        threshold="a study with its own price_usd_per_hour: a warning if its runs were on several kinds of hardware, "
        "else a note",
        why="A later reader can look up neither the date of the price nor its source.",
        advice="Remove price_usd_per_hour from the study, and add a dated price with its source for each hardware "
        "(drafthouse prices add).",
        rule=_undated_price,
    ),
)
