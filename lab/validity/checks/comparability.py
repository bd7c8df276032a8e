"""Whether the arms of a study are comparable: differences between a run and its baseline besides speculation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from lab.metrics.records import RunRecord
from lab.validity.check import Fired, Missing, StudyCheck
from lab.validity.differences import changed_settings, conditions, engines
from lab.validity.evidence import StudyRun
from lab.validity.words import listed

Answers = Sequence[Fired | Missing]


def _other_conditions(runs: Sequence[StudyRun]) -> Answers:
    return _differing(runs, conditions, "were measured under other conditions")


def _other_engine(runs: Sequence[StudyRun]) -> Answers:
    return _differing(runs, engines, "ran on another engine")


def _other_settings(runs: Sequence[StudyRun]) -> Answers:
    return _differing(runs, changed_settings, "have other settings, besides speculation,")


def _differing(
    runs: Sequence[StudyRun], differences: Callable[[RunRecord, RunRecord], Iterator[str]], what: str
) -> Answers:
    """One finding per set of differences, however many pairs of runs share it."""
    found: dict[tuple[str, ...], list[RunRecord]] = defaultdict(list)
    for pair in pairs(runs):
        baseline, candidate = (each.run for each in pair)
        if named := tuple(differences(baseline, candidate)):
            found[named] += [baseline, candidate]
    return [
        Fired(f"Arms {listed(arms_of(pair))} {what} than the baseline: {listed(list(named), 5)}.", run_ids=ids_of(pair))
        for named, pair in found.items()
    ]


def pairs(runs: Sequence[StudyRun]) -> Iterator[tuple[StudyRun, StudyRun]]:
    """Pair each candidate's run with the baseline's run of the same cell and, if there is one, the same repeat."""
    cells: dict[tuple[str, ...], list[StudyRun]] = defaultdict(list)
    for each in runs:
        cells[(each.run.study_id, each.run.workload.name, each.run.load.name)].append(each)
    for cell in cells.values():
        baselines = [each for each in cell if each.run.is_baseline]
        for each in cell:
            if baselines and not each.run.is_baseline:
                yield min(baselines, key=lambda other: abs(other.run.repeat - each.run.repeat)), each


def arms_of(runs: Sequence[RunRecord]) -> list[str]:
    return list(dict.fromkeys(repr(run.arm.name) for run in runs if not run.is_baseline))


def ids_of(runs: Sequence[RunRecord]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(run.run_id for run in runs))


_SAME = "Measure both arms in one study on one machine, at the same revision of everything but speculation."
CHECKS = (
    StudyCheck(
        name="baseline_of_other_conditions",
        traps=(5, 22),
        severity="invalid",
        looks_at=("circumstances", "sampling", "endpoint", "prompts_seed", "identity"),
        threshold="any difference in hardware, target, sampling, endpoint, prompts or seed between a run and its "
        "baseline; what is unknown for one of them is not compared",
        why="Then the ratio mixes two effects, and nobody can tell which part is due to speculation.",
        advice=_SAME,
        look=_other_conditions,
    ),
    StudyCheck(
        name="baseline_of_other_engine",
        traps=(22,),
        severity="warning",
        looks_at=("circumstances.engine", "circumstances.engine_version", "circumstances.driver_version"),
        threshold="any difference in engine, its version or the driver's",
        why="The comparison may be meant that way, but then the speed-up is that of engine and speculation together.",
        advice="Add an arm without speculation on the same engine, and make that the baseline.",
        look=_other_engine,
    ),
    StudyCheck(
        name="settings_differ",
        traps=(15, 22),
        severity="warning",
        looks_at=("circumstances.effective_config", "arm.flags", "circumstances.environment"),
        threshold="any part of the effective configuration that differs, except speculation, names, ports and "
        "observability",
        why="Turning speculation on changes other settings, such as the token budget or which graphs are captured.",
        advice="Set what is named here to the same value for both arms, or state that it is part of the comparison.",
        look=_other_settings,
    ),
)
