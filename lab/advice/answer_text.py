"""A study's answer in sentences, for the terminal, a report and a page."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lab.advice.answer import Answer, Choice
from lab.advice.metric_lines import line, lines
from lab.advice.next_study import sentence
from lab.comparison.effect import Interval
from lab.metrics import number_format
from lab.metrics.catalogue import BY_NAME

#: The rules behind the intervals of a study's answer, in either reading.
STRICT = "Verdicts are strict: with 95 % confidence no call by a metric is false (Holm)"
READING = (
    "The first line of a metric is strict unless it says usual reading: with 95 % confidence no call by that metric is "
    "false (Holm). Everything else is the usual reading: at most 5 % of its calls are expected to be false "
    "(Benjamini-Hochberg)."
)


@dataclass(frozen=True)
class Sentences:
    """The answer in words: the surest claim, one sentence for each workload, and how sure all of it is.

    `inconclusive` says how much is inconclusive and what to measure next; empty if nothing is. `controls` say of each
    arm that is identical to the baseline how far it differs.
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


def sentences(answer: Answer, follow_up_s: float | None = None) -> Sentences:
    """Put the answer into words. Without any pair there is only a headline, which states that.

    `follow_up_s`: the forecast of what to measure next.
    """
    controls = tuple(f"{control.arm} is a control, {control.sentence}." for control in answer.controls)
    if not answer.choices:
        headline = f"No answer yet: only the baseline ({answer.baseline}) has valid runs."
        return Sentences(headline, (), "", "", controls)
    by_workload = itertools.groupby(answer.stretches, key=lambda stretch: stretch[0].workload)
    return Sentences(
        line(answer).sentence,
        tuple(_workload(answer, workload, list(stretches)) for workload, stretches in by_workload),
        f"{STRICT}." if answer.strict else READING,
        sentence(answer, follow_up_s),
        controls,
        _over_all(answer),
    )


def answer_lines(answer: Answer, by_metric: Iterable[Answer], follow_up_s: float | None = None) -> list[str]:
    """Return the line of each metric, then the rest of an answer in sentences; `follow_up_s` as in `sentences`."""
    first, *rest = sentences(answer, follow_up_s).lines
    return [*(found.sentence for found in lines(by_metric)), *rest] if answer.choices else [first, *rest]


def interval(ratio: Interval | None) -> str:
    """Format as `1.42× [1.31, 1.54]`; without bounds the ratio alone."""
    if ratio is None:
        return "no ratio"
    return number_format.ratio(ratio.value, ratio.low, ratio.high)


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
