"""Checks that the slots of a host, or the hosts, that shared a study measure the same."""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from lab.metrics.number_format import counted
from lab.metrics.records import RunRecord
from lab.validity.check import Answers, Fired, StudyCheck
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
#: A slot's number or a host's name, and which of them measured a run; None: none.
_Unit = TypeVar("_Unit", int, str)
_UnitOf = Callable[[RunRecord], _Unit | None]
#: The figure of each run of a cell, by the slot or host.
_Measured = dict[_Cell, dict[_Unit, list[tuple[RunRecord, float]]]]


def _host_of(run: RunRecord) -> str | None:
    return run.circumstances.host


def _slot_differs(runs: Sequence[StudyRun]) -> Answers:
    """Compare each slot once, by the figure in which it differs most."""
    kinds = {_kind(run) for run, *_ in runs if run.circumstances.slot is not None}
    yield from _kept_apart(runs, kinds)
    for kind in sorted(kinds):
        alike = [run for run in runs if run.run.circumstances.slot is not None and _kind(run.run) == kind]
        yield from _furthest(alike, "slot", lambda run: run.circumstances.slot)


def _host_differs(runs: Sequence[StudyRun]) -> Answers:
    """Say which repeats no host measured with all arms, and which host differs; else that hosts are a factor of the
    study. Comparisons pair the runs of one host (`warehouse.queries.comparing.paired_runs.sample`).
    """
    runs = [run for run in runs if _host_of(run.run)]
    counts = Counter(run.run.circumstances.host for run in runs)
    if len(counts) < 2:
        return []
    found: list[Fired] = []
    pairs: dict[tuple[object, ...], list[RunRecord]] = defaultdict(list)
    for run, *_ in runs:
        pairs[run.job_id, run.workload.name, run.load.name, run.repeat].append(run)
    of_arms = [pair for pair in pairs.values() if len({run.arm.name for run in pair}) > 1]
    if across := [pair for pair in of_arms if not _has_a_whole_host(pair)]:
        sentence = (
            f"In {len(across)} of {len(of_arms)} repeats of a cell no host measured all arms "
            f"({listed(sorted(counts))}): what was measured on different hosts is not compared."
        )
        found.append(Fired(sentence, run_ids=ids_of([run for pair in across for run in pair])))
    for kind in sorted({_kind(run)[1:] for run, *_ in runs}):
        found += _furthest([run for run in runs if _kind(run.run)[1:] == kind], "host", _host_of)
    named = listed([f"{host} ({counted(count, 'run')})" for host, count in sorted(counts.items())])
    note = f"This study was measured on {len(counts)} hosts: {named}."
    return found or [Fired(note, "note", ids_of([run.run for run in runs]))]


def _has_a_whole_host(runs: Sequence[RunRecord]) -> bool:
    """Return whether one of the hosts measured every arm."""
    arms_of: dict[str | None, set[str]] = defaultdict(set)
    for run in runs:
        arms_of[_host_of(run)].add(run.arm.name)
    return set().union(*arms_of.values()) in arms_of.values()


def _furthest(alike: Sequence[StudyRun], word: str, unit_of: _UnitOf[_Unit]) -> list[Fired]:
    """Return what each slot or host differs in most, among like ones."""
    furthest: dict[_Unit, tuple[float, Fired]] = {}
    for figure in FIGURES:
        for unit, distance, fired in _different(alike, figure, word, unit_of):
            if unit not in furthest or distance > furthest[unit][0]:
                furthest[unit] = distance, fired
    return [fired for _, (_, fired) in sorted(furthest.items())]


def _kind(run: RunRecord) -> _Kind:
    """Return what compared slots must have in common, apart from the engine's version."""
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


def _different(
    runs: Sequence[StudyRun], figure: str, word: str, unit_of: _UnitOf[_Unit]
) -> Iterator[tuple[_Unit, float, Fired]]:
    """Return the slots or hosts that differ, with how far the logarithm of their ratio is from 0."""
    name, middle = FIGURES[figure]
    measured = _measured(runs, figure, unit_of)
    ratios: dict[_Unit, list[tuple[RunRecord, float]]] = defaultdict(list)
    for units in measured.values():
        usual = middle(statistics.median(value for _, value in of_unit) for of_unit in units.values())
        for slot, of_unit in units.items():
            ratios[slot] += [(run, value / usual) for run, value in of_unit]
    blocks = {slot: _blocks(compared) for slot, compared in ratios.items()}
    for slot, compared in ratios.items():
        ratio = statistics.median(value for _, value in compared)
        if abs(ratio - 1) <= DIFFERS or len(compared) < LEAST_RUNS or not _stands_out(slot, blocks):
            continue
        others = [str(other) for other in sorted(ratios) if other != slot]
        sentence = (
            f"On {word} {slot} the {name} was {percent(abs(ratio - 1))} {'higher' if ratio > 1 else 'lower'} than "
            f"usual on its like, in {len(compared)} runs (compared with {word}{'s' * (len(others) > 1)} "
            f"{listed(others)})."
        )
        yield slot, abs(math.log(ratio)), Fired(sentence, run_ids=ids_of([run for run, _ in compared]))


def _blocks(compared: Sequence[tuple[RunRecord, float]]) -> list[float]:
    """Return each block's mean log ratio: its runs share the state of the machine at that hour."""
    of_block: dict[tuple[str, int], list[float]] = defaultdict(list)
    for run, value in compared:
        of_block[run.study_id, run.repeat].append(math.log(value))
    return [statistics.fmean(values) for values in of_block.values()]


def _stands_out(slot: _Unit, blocks: dict[_Unit, list[float]]) -> bool:
    """Return whether it differs from the others by more than blocks differ among themselves, by Student's t.

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


def _measured(runs: Sequence[StudyRun], figure: str, unit_of: _UnitOf[_Unit]) -> _Measured[_Unit]:
    """Return the figures of cells that several slots or hosts have measured."""
    cells: _Measured[_Unit] = defaultdict(lambda: defaultdict(list))
    for run, metrics, *_ in runs:
        value, slot = number(metrics, figure), unit_of(run)
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
        threshold=f"a slot's runs are, in the median of {LEAST_RUNS} or more, {percent(DIFFERS)} off what is usual "
        f"for their cells, and by more than blocks of one slot differ (Student's t, {percent(BY_CHANCE)} "
        "over all slots and figures). Usual is the middle of the medians of like slots (machine, GPUs, "
        "driver, engine, weights), of two the better. A note if unlike slots measured the study",
        why="A hotter, older or badly placed GPU slows every arm. Ratios stay fair; absolute figures mix the slots.",
        advice="Look at clocks, temperature and neighbours of that slot's runs, and leave its GPU out (setting gpus) "
        "until it matches the others.",
        rule=_slot_differs,
    ),
    StudyCheck(
        name="host_differs",
        traps=(22,),
        severity="warning",
        looks_at=(*FIGURES, "circumstances", "arm", "workload", "load"),
        needs=("arm",),
        threshold="no host measured all arms of a cell's repeat, or a host differs from like hosts as in slot_differs. "
        "A note if there are only several hosts",
        why="Only runs of one host are compared, so a study that moved within a block has fewer repeats. Absolute "
        "figures mix the hosts.",
        advice="Retry the study with --all on one host (hardware), and drain workers before their hosts stop.",
        rule=_host_differs,
    ),
)
