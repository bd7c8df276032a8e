"""Decide for each workload and concurrency: enable speculation, do not, or measure this next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lab.advice import theory
from lab.advice.measured import Action, Advice, Failed, Measured, Reason
from lab.advice.rules import checklist, tuning, unsupported

#: A measured speed-up this far below what its acceptance length allows has lost the rest to verification.
_FAR_BELOW = 0.75
_Place = tuple[str, int, str]


def advise(measured: Sequence[Measured], failed: Sequence[Failed] = ()) -> list[Advice]:
    """Return one verdict per workload, concurrency and load, in this order.

    `measured` must hold valid runs only; `failed` the failed runs of speculating arms.
    """
    places = sorted({*map(_place, measured), *map(_place, failed)})
    return [
        _verdict(
            place,
            [one for one in measured if _place(one) == place],
            list(unsupported([one for one in failed if _place(one) == place])),
        )
        for place in places
    ]


def _place(one: Measured | Failed) -> _Place:
    return (one.workload, one.concurrency, one.pattern)


def _verdict(place: _Place, there: list[Measured], failures: list[Reason]) -> Advice:
    """Choose the fastest arm that is certainly faster; else the one that still might be; else none."""
    faster = [one for one in there if one.outcome == "faster"]
    open_ = [one for one in there if one.outcome == "not enough data"]
    if faster:
        return _advice("enable", max(faster, key=_speed), failures)
    if open_:
        return _advice("measure this next", max(open_, key=_speed), failures)
    reasons = [line for one in there for line in (_evidence(one), *tuning(one))]
    rules = checklist(max(there, key=_speed)) if there else ()
    workload, concurrency, pattern = place
    return Advice(workload, concurrency, "do not enable", None, None, (*reasons, *rules, *failures), pattern)


def _advice(action: Action, one: Measured, failures: Sequence[Reason]) -> Advice:
    lines = (_evidence(one), *_prediction(one), *tuning(one), *checklist(one), *failures)
    return Advice(one.workload, one.concurrency, action, one.arm, one.gamma, lines, one.pattern)


def _speed(one: Measured) -> float:
    return one.speedup if one.speedup is not None else 0.0


def _evidence(one: Measured) -> Reason:
    text = f"{one.arm} (k = {one.gamma}) is {_words(one)}"
    if one.outcome == "not enough data":
        needed = f"about {one.more_repeats} more repeats would decide" if one.more_repeats else "add repeats"
        text += f"; {needed}"
    return Reason(text, "measured", one.run_ids)


def _words(one: Measured) -> str:
    if one.speedup is None:
        return "not comparable with the baseline"
    interval = "" if one.low is None or one.high is None else f" (95 % interval {one.low:.2f} to {one.high:.2f})"
    verdicts = {
        "faster": "faster than the baseline",
        "slower": "slower than the baseline",
        "no difference": "no different from the baseline",
        "not enough data": "not certainly different from the baseline",
    }
    return f"{verdicts[one.outcome]}: {one.speedup:.2f} times its throughput{interval}"


def _prediction(one: Measured) -> Iterator[Reason]:
    """The speed-up that its acceptance length allows if drafting were free, against the measured one."""
    if one.acceptance_length is None or one.speedup is None:
        return
    most = theory.speedup_of_length(one.acceptance_length, one.gamma, draft_cost=0.0)
    cost = theory.implied_draft_cost(one.speedup, one.acceptance_length, one.gamma)
    text = f"{one.acceptance_length:.2f} tokens a round would allow up to {most:.2f} times if drafting were free"
    if cost is not None and one.speedup < _FAR_BELOW * most:
        text += (
            f"; the rest went into drafting and verifying, as if each drafted token cost {cost:.2f} of a target step"
        )
    yield Reason(text, "expected", one.run_ids)
