"""Checks that the arms of a study differ from their baseline in speculation alone.

What is unknown for one of the two runs is not compared.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from lab.metrics.records import RunRecord
from lab.validity.check import Fired, Missing, StudyCheck
from lab.validity.evidence import StudyRun
from lab.validity.words import listed

#: Parts of an effective configuration that always differ between arms, or that only concern observation.
NOT_COMPARED = re.compile(
    r"spec|draft|non_default_args|model_tag|served_model_name|\bport\b|_port\b|observability|log|metric|cache_dir|"
    r"debug_dump|random_seed|dist_init|nccl|watchdog",
    re.IGNORECASE,
)
#: `'key': value` or `key=value` inside a setting; enough to say which part of a long one differs.
_PART = re.compile(r"'?(?P<name>\w+)'?(?:: |=)(?P<value>\[[^\[\]]*\]|<[^<>]*>|[^,{}()]*)")
_SHOWN_CHARS = 40


def conditions(baseline: RunRecord, other: RunRecord) -> Iterator[str]:
    """Yield differences in hardware, target, sampling, endpoint and prompts."""
    expected, actual = baseline.circumstances, other.circumstances
    pairs = {
        "hardware": (expected.hardware, actual.hardware),
        "GPUs": (_kinds(expected.gpus), _kinds(actual.gpus)),
        "target": (expected.target_digest or expected.target_revision, actual.target_digest or actual.target_revision),
        "sampling": (str(baseline.sampling), str(other.sampling)),
        "endpoint": (baseline.endpoint, other.endpoint),
        "seed": (baseline.prompts_seed, other.prompts_seed),
        "prompts": (_workload(baseline), _workload(other)),
    }
    yield from _differing(pairs)


def engines(baseline: RunRecord, other: RunRecord) -> Iterator[str]:
    """Yield differences in engine, version and driver."""
    expected, actual = baseline.circumstances, other.circumstances
    yield from _differing(
        {
            "engine": (expected.engine, actual.engine),
            "version": (expected.engine_version, actual.engine_version),
            "driver": (expected.driver_version, actual.driver_version),
        }
    )


def changed_settings(baseline: RunRecord, other: RunRecord) -> Iterator[str]:
    """Yield differences in effective configuration and environment, within one engine."""
    expected, actual = baseline.circumstances, other.circumstances
    if expected.engine != actual.engine:
        return
    for name in ("effective_config", "environment"):
        ours, theirs = getattr(expected, name), getattr(actual, name)
        if ours and theirs:
            yield from _settings(ours, theirs)


def _settings(ours: Mapping[str, str], theirs: Mapping[str, str]) -> Iterator[str]:
    for name in sorted({*ours, *theirs}):
        our_value, their_value = ours.get(name, "not set"), theirs.get(name, "not set")
        if our_value == their_value or NOT_COMPARED.search(name):
            continue
        inner = _parts(our_value), _parts(their_value)
        if all(inner):
            yield from (f"{name}.{part}" for part in _settings(*inner))
        else:
            yield f"{name} {_short(our_value)} -> {_short(their_value)}"


def _parts(value: str) -> Mapping[str, str]:
    """Return the settings within a setting; none without braces."""
    return {match["name"]: match["value"].strip() for match in _PART.finditer(value)} if "{" in value else {}


def _differing(pairs: Mapping[str, tuple[object, object]]) -> Iterator[str]:
    for name, (ours, theirs) in pairs.items():
        if ours != theirs and ours not in (None, ()) and theirs not in (None, ()):
            yield f"{name} {_short(str(ours))} -> {_short(str(theirs))}"


def _kinds(gpus: tuple[str, ...]) -> tuple[str, ...]:
    """Return the model names of the GPUs; which device of a model it was does not matter."""
    return tuple(sorted(gpu.partition(" (")[0] for gpu in gpus))


def _workload(run: RunRecord) -> str | None:
    return None if run.identity is None else run.identity.workload_id


def _short(value: str) -> str:
    return value if len(value) <= _SHOWN_CHARS else value[: _SHOWN_CHARS - 1] + "…"


Answers = Sequence[Fired | Missing]


def _fired(
    runs: Sequence[StudyRun], differences: Callable[[RunRecord, RunRecord], Iterator[str]], difference: str
) -> Answers:
    """Report each set of differences once, however many pairs of runs share it."""
    runs_of: dict[tuple[str, ...], list[RunRecord]] = defaultdict(list)
    for pair in pairs(runs):
        baseline, candidate = (study_run.run for study_run in pair)
        if named := tuple(differences(baseline, candidate)):
            runs_of[named] += [baseline, candidate]
    return [
        Fired(
            f"Arms {listed(arms_of(pair))} {difference} than the baseline: {listed(list(named), 5)}.",
            run_ids=ids_of(pair),
        )
        for named, pair in runs_of.items()
    ]


def by_workload_and_load(runs: Iterable[StudyRun]) -> list[list[StudyRun]]:
    """Group runs by study, workload and load."""
    grouped: dict[tuple[str, ...], list[StudyRun]] = defaultdict(list)
    for study_run in runs:
        run = study_run.run
        grouped[run.study_id, run.workload.name, run.load.name].append(study_run)
    return list(grouped.values())


def pairs(runs: Sequence[StudyRun]) -> Iterator[tuple[StudyRun, StudyRun]]:
    """Pair each candidate's run with the baseline's run of the same cell and, if there is one, the same repeat."""
    for cell in by_workload_and_load(runs):
        baselines = [study_run for study_run in cell if study_run.run.is_baseline]
        for study_run in cell:
            if baselines and not study_run.run.is_baseline:
                yield min(baselines, key=lambda other: abs(other.run.repeat - study_run.run.repeat)), study_run


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
        rule=lambda runs: _fired(runs, conditions, "were measured under other conditions"),
    ),
    StudyCheck(
        name="baseline_of_other_engine",
        traps=(22,),
        severity="warning",
        looks_at=("circumstances.engine", "circumstances.engine_version", "circumstances.driver_version"),
        threshold="any difference in engine, its version or the driver's",
        why="The comparison may be meant that way, but then the speed-up is that of engine and speculation together.",
        advice="Add an arm without speculation on the same engine, and make that the baseline.",
        rule=lambda runs: _fired(runs, engines, "ran on another engine"),
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
        rule=lambda runs: _fired(runs, changed_settings, "have other settings, besides speculation,"),
    ),
)
