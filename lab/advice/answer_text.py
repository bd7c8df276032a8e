"""A study's answer in sentences, for the terminal, a report and a page."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from lab.advice.answer import Answer, Choice, InconclusiveCells, JudgedPair
from lab.advice.next_study import MOST_REPEATS
from lab.comparison.compare import counted
from lab.comparison.effect import Interval
from lab.comparison.verdict import READING_WORDS
from lab.metrics import number_format
from lab.metrics.catalogue import BY_NAME
from lab.study.duration import rough_duration

#: Fewer repeats than this cannot show how much runs vary.
_LEAST_REPEATS = 3


@dataclass(frozen=True)
class Sentences:
    """The answer in words: the surest claim, one sentence for each workload, and how sure all of it is.

    `inconclusive` names what is inconclusive and what would decide it; empty if nothing is. `controls` say of each arm
    that is identical to the baseline how far it differs.
    """

    headline: str
    workloads: tuple[str, ...]
    reading: str
    inconclusive: str
    controls: tuple[str, ...] = ()
    over_all: str = ""

    @property
    def lines(self) -> list[str]:
        said = (self.headline, *self.workloads, self.over_all, self.reading, self.inconclusive, *self.controls)
        return [line for line in said if line]


def sentences(answer: Answer) -> Sentences:
    """Put the answer into words. Without any pair there is only a headline, which states that."""
    controls = tuple(f"{control.arm} is a control, {control.sentence}." for control in answer.controls)
    if not answer.choices:
        headline = f"There is no answer yet: no arm was measured beside {answer.baseline}."
        return Sentences(headline, (), "", "", controls)
    headline_reading = f"; the first line stands on the strict reading: {READING_WORDS[True]}"
    is_of_both = answer.headline is not None and not answer.strict
    by_workload = itertools.groupby(answer.stretches, key=lambda stretch: stretch[0].workload)
    return Sentences(
        _headline(answer),
        tuple(_workload(answer, workload, list(stretches)) for workload, stretches in by_workload),
        f"How sure: {READING_WORDS[answer.strict]}{headline_reading if is_of_both else ''}.",
        "" if answer.inconclusive is None else _what_would_decide(answer.inconclusive, answer.cells),
        controls,
        _over_all(answer),
    )


def interval(ratio: Interval | None) -> str:
    """Format as `1.42× [1.31, 1.54]`; without bounds the ratio alone."""
    if ratio is None:
        return "no ratio"
    return number_format.ratio(ratio.value, ratio.low, ratio.high)


def _headline(answer: Answer) -> str:
    best = answer.headline
    if best is not None:
        gain = f"{interval(best.strictly.ratio)} its {label(answer.metric)}"
        reading = "" if answer.strict else ", by the strict reading"
        on = f" on {best.workload}" if best.workload else ""
        return f"{best.arm} beats {answer.baseline}{on} {_at(best, answer)}: {gain}{reading}."
    actions = {choice.action for choice in answer.choices}
    if actions == {"leave off"}:
        return f"No arm beats {answer.baseline} by {label(answer.metric)} anywhere measured: {_off(answer)}."
    if "enable" in actions:
        return "No single claim stands on the strict reading yet; the calls below do on theirs."
    where = " in any single cell" if answer.over_all else ""
    return f"No arm beats {answer.baseline} by {label(answer.metric)} for sure{where} yet."


def _over_all(answer: Answer) -> str:
    """`D over all 5 cells is faster: 1.18× [1.14, 1.22]; ...`; empty where no arm has such a verdict."""
    parts = [
        f"{mean.arm} over all {mean.cells} cells is {mean.word}: {interval(mean.ratio)}" for mean in answer.over_all
    ]
    return f"{'; '.join(parts)}." if parts else ""


def label(metric: str) -> str:
    """Return the metric's label for use within a sentence: in lower case, unless it begins with an abbreviation."""
    text = BY_NAME[metric].label
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]


def _workload(answer: Answer, workload: str, stretches: Sequence[Sequence[Choice]]) -> str:
    every = [choice for stretch in stretches for choice in stretch]
    parts = [_stretch(answer, stretch, every) for stretch in stretches]
    said = "; ".join(parts)
    return f"On {workload}: {said}." if workload else f"{said[:1].upper()}{said[1:]}."


def _stretch(answer: Answer, stretch: Sequence[Choice], every: Sequence[Choice]) -> str:
    where, first = _where(stretch, every), stretch[0]
    if first.action == "enable":
        between = ", inconclusive between them," if len(first.best) > 1 else ""
        return f"enable {' or '.join(first.arms)}{between} {where}: {_gains(stretch, every)}{_may_be_better(stretch)}"
    if first.action == "leave off":
        is_end = stretch[-1] is every[-1] and first is not every[0] and _by_concurrency(every)
        return f"{f'from concurrency {first.concurrency} on' if is_end else where} {_off(answer)}"
    return f"inconclusive {where}"


def _off(answer: Answer) -> str:
    return "leave speculation off" if answer.of_speculation else f"keep {answer.baseline}"


def _gains(stretch: Sequence[Choice], every: Sequence[Choice]) -> str:
    """List the ratios of the best arms, each in its own cell, in the order in which the arms were named."""
    if len(stretch) == 1:
        return _ratios(stretch[0], stretch[0].arms)
    names = [str(choice.concurrency) if _by_concurrency(every) else choice.load for choice in stretch]
    shown = [f"{_ratios(choice, stretch[0].arms)} at {name}" for choice, name in zip(stretch, names, strict=True)]
    return ", ".join(shown)


def _ratios(choice: Choice, arms: Sequence[str]) -> str:
    by_arm = {pair.arm: interval(pair.ratio) for pair in choice.best}
    return " and ".join(by_arm[arm] for arm in arms)


def _may_be_better(stretch: Sequence[Choice]) -> str:
    """Arms that may turn out better than the best."""
    names = list(dict.fromkeys(pair.arm for choice in stretch for pair in choice.inconclusive))
    return f" ({', '.join(names)} {'is' if len(names) == 1 else 'are'} inconclusive there)" if names else ""


def _where(stretch: Sequence[Choice], every: Sequence[Choice]) -> str:
    if not _by_concurrency(every):
        return f"under {' and '.join(choice.load for choice in stretch)}"
    least, most = stretch[0].concurrency, stretch[-1].concurrency
    if least == most:
        return f"at concurrency {least}"
    if len(stretch) == len(every):
        return f"at every concurrency measured ({', '.join(str(choice.concurrency) for choice in every)})"
    return f"up to concurrency {most}" if least == 1 else f"at concurrency {least} to {most}"


def _by_concurrency(every: Sequence[Choice]) -> bool:
    """Whether the loads of a workload differ in their concurrency."""
    return len({choice.concurrency for choice in every}) == len(every)


def _at(pair: JudgedPair, answer: Answer) -> str:
    """Name the load of one pair, as the sentence on its workload words it."""
    every = [choice for choice in answer.choices if choice.workload == pair.workload]
    return _where([choice for choice in every if choice.load == pair.load], every)


def _what_would_decide(found: InconclusiveCells, cells: int) -> str:
    """What is inconclusive, and what would decide it."""
    is_ = "is" if found.cells == 1 else "are"
    begin = f"{found.cells} of {cells} cell{'s' * (cells != 1)} {is_} inconclusive"
    which = {1: "it", 2: "both"}.get(found.cells, "most of them")
    if found.more_repeats is not None:
        repeats = counted(found.more_repeats, "more repeat")
        minutes = "" if found.takes_s is None else f", about {rough_duration(found.takes_s)} by the forecast"
        or_prompts = ", or fewer of more prompts" if found.more_repeats > MOST_REPEATS else ""
        return f"{begin}; {repeats}{or_prompts} would decide {which}{minutes}."
    if found.more_starts is not None:
        return f"{begin}; {counted(found.more_starts, 'more engine start')} of each arm would decide {which}."
    if 2 * found.without_ratio > found.cells:
        return f"{begin}: there an arm or the baseline has no valid number."
    if 2 * (found.without_ratio + found.without_interval) > found.cells:
        return f"{begin}: too few repeats to show how much runs vary; measure {_LEAST_REPEATS} or more."
    return f"{begin}: more repeats alone would not decide {which}; measure more prompts."
