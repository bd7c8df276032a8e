"""Checks that the slots of a host that shared a study measure the same."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence

from lab.metrics.records import RunRecord
from lab.validity.check import Fired, Missing, StudyCheck
from lab.validity.checks.comparability import ids_of
from lab.validity.evidence import StudyRun, number
from lab.validity.words import listed, percent

#: What is compared, and the usual one of the slots: the middle one, of two the better. A load with a rate has the same
#: throughput on a slow slot.
FIGURES = {
    "output_tok_per_s": ("throughput", statistics.median_high),
    "tpot_p50_ms": ("median TPOT", statistics.median_low),
}
#: How far a slot's median may lie from that of the other slots, each of at least this many runs, and the share of
#: studies on equal slots in which one may be named by chance.
DIFFERS, LEAST_RUNS, BY_CHANCE = 0.05, 4, 0.05

_PARTS = ("host", "hardware", "number of processors", "GPUs", "driver", "weights")
_Kind = tuple[str, ...]  # of these parts
_Cell = tuple[str, ...]
#: The figure of each run of a cell, by the slot.
_Measured = dict[_Cell, dict[int, list[tuple[RunRecord, float]]]]


def _slot_differs(runs: Sequence[StudyRun]) -> Sequence[Fired | Missing]:
    """Compare each slot once, by the figure in which it differs most."""
    furthest: dict[tuple[_Kind, int], tuple[float, Fired]] = {}
    kinds = {_kind(run) for run, *_ in runs if run.circumstances.slot is not None}
    for kind in sorted(kinds):
        alike = [run for run in runs if run.run.circumstances.slot is not None and _kind(run.run) == kind]
        for figure in FIGURES:
            for slot, distance, fired in _different(alike, figure):
                if distance > furthest.get((kind, slot), (0.0, None))[0]:
                    furthest[kind, slot] = distance, fired
    return [*_kept_apart(runs, kinds), *(fired for _, (_, fired) in sorted(furthest.items()))]


def _kind(run: RunRecord) -> _Kind:
    """Return what compared slots must have in common besides the engine's version."""
    around = run.circumstances
    gpus = ", ".join(sorted(name.partition(" (")[0] for name in around.gpus))
    parts = (around.host, around.hardware, around.cpu_count, gpus, around.driver_version, around.target_digest)
    return tuple(str(part or "") for part in parts)


def _kept_apart(runs: Sequence[StudyRun], kinds: set[_Kind]) -> Iterator[Fired]:
    if len(kinds) > 1:
        on_slots = [run for run, *_ in runs if run.circumstances.slot is not None]
        unlike = [part for part, values in zip(_PARTS, zip(*kinds, strict=True), strict=True) if len(set(values)) > 1]
        yield Fired(
            f"The slots that measured this study differ ({listed(unlike)}): each was compared with its like alone.",
            "note",
            ids_of(on_slots),
        )


def _different(runs: Sequence[StudyRun], figure: str) -> Iterator[tuple[int, float, Fired]]:
    """Return the slots that differ, with how far the logarithm of their ratio is from 0."""
    name, middle = FIGURES[figure]
    measured = _measured(runs, figure)
    ratios: dict[int, list[tuple[RunRecord, float]]] = defaultdict(list)
    for slots in measured.values():
        usual = middle(statistics.median(value for _, value in of_slot) for of_slot in slots.values())
        for slot, of_slot in slots.items():
            ratios[slot] += [(run, value / usual) for run, value in of_slot]
    blocks = {slot: _blocks(compared) for slot, compared in ratios.items()}
    for slot, compared in ratios.items():
        ratio = statistics.median(value for _, value in compared)
        if abs(ratio - 1) <= DIFFERS or len(compared) < LEAST_RUNS or not _stands_out(slot, blocks):
            continue
        others = [str(other) for other in sorted(ratios) if other != slot]
        sentence = (
            f"On slot {slot} the {name} was {percent(abs(ratio - 1))} {'higher' if ratio > 1 else 'lower'} than usual "
            f"on its like, in {len(compared)} runs (compared with {'slot' if len(others) == 1 else 'slots'} "
            f"{listed(others)})."
        )
        yield slot, abs(math.log(ratio)), Fired(sentence, run_ids=ids_of([run for run, _ in compared]))


def _blocks(compared: Sequence[tuple[RunRecord, float]]) -> list[float]:
    """Return each block's mean log ratio: its runs share the state of the machine at that hour."""
    of_block: dict[tuple[str, int], list[float]] = defaultdict(list)
    for run, value in compared:
        of_block[run.study_id, run.repeat].append(math.log(value))
    return [statistics.fmean(values) for values in of_block.values()]


def _stands_out(slot: int, blocks: dict[int, list[float]]) -> bool:
    """Return whether the slot differs from the others by more than blocks differ among themselves, by Student's t.

    The scatter is that of the slot's blocks or, where each slot has one, of the others'. Corrected for the
    number of slots and figures (Bonferroni).
    """
    own, others = blocks[slot], [value for other, values in blocks.items() if other != slot for value in values]
    df = sum(len(values) - 1 for values in blocks.values())
    if df:
        means = {other: statistics.fmean(values) for other, values in blocks.items()}
        squares = sum((value - means[other]) ** 2 for other, values in blocks.items() for value in values)
        variance = squares / df
    elif (df := len(others) - 1) > 0:
        variance = statistics.variance(others)
    else:
        return False
    from lab.comparison.spread import student  # noqa: PLC0415 - loads SciPy, for the few slots that lie apart

    least = float(student(df, 1 - BY_CHANCE / (len(blocks) * len(FIGURES))))
    error = math.sqrt(variance * (1 / len(own) + 1 / len(others)))
    return abs(statistics.fmean(own) - statistics.fmean(others)) > least * error


def _measured(runs: Sequence[StudyRun], figure: str) -> _Measured:
    """Return the figures of cells that several slots have measured."""
    cells: _Measured = defaultdict(lambda: defaultdict(list))
    for run, metrics, *_ in runs:
        value, slot = number(metrics, figure), run.circumstances.slot
        if value and slot is not None:
            version = run.circumstances.engine_version or ""
            cell = (run.study_id, run.arm.name, version, run.workload.name, run.load.name)
            cells[cell][slot].append((run, value))
    return {cell: slots for cell, slots in cells.items() if len(slots) > 1}


CHECKS = (
    StudyCheck(
        name="slot_differs",
        traps=(22,),
        severity="warning",
        looks_at=(*FIGURES, "circumstances", "arm", "workload", "load"),
        needs=("arm",),
        threshold=f"a slot's runs are, in the median of {LEAST_RUNS} or more, {percent(DIFFERS)} off what is usual for "
        f"their cells, and by more than blocks of one slot differ (Student's t, {percent(BY_CHANCE)} over all slots "
        "and figures). Usual is the middle of the medians of slots that are alike (machine, GPUs, driver, engine, "
        "weights), of two the better. A note where slots that are not alike measured the same study",
        why="A hotter, older or worse placed GPU makes every arm slower. Arms are compared on one slot, so ratios stay "
        "fair, but absolute figures mix the slots.",
        advice="Look at clocks, temperature and neighbours of that slot's runs, and leave its GPU out (setting gpus) "
        "until it measures what the others do.",
        rule=_slot_differs,
    ),
)
