"""Checks that need several runs: copies, single points, forced acceptance among real ones, order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise, product

from lab.metrics.records import RunRecord
from lab.study.arm import SCHEDULE
from lab.validity.check import Answers, Fired, StudyCheck
from lab.validity.checks.acceptance import is_synthetic
from lab.validity.checks.comparability import arms_of, by_workload_and_load, ids_of
from lab.validity.evidence import StudyRun, number
from lab.validity.words import listed, percent

#: Figures that two runs never share by chance; compared to six digits.
FIGURES = ("output_tok_per_s", "ttft_mean_ms", "e2e_mean_ms")
#: By how much the tokens accepted per round must rise from the first to the last cell of an engine start, and how far a
#: cell may fall below the one before it. Real drafts that remember rose by half; others differ by 5 %.
RISE, FALL = 0.2, 0.05
#: Repeats of sampled outputs with fewer rounds may differ as much by chance. Greedy ones repeat.
LEAST_ROUNDS = 300
#: With fewer accepted tokens per round than this, a rise does not matter.
LEAST_ACCEPTED = 0.2
#: Below this many runs of a cell there is no interval.
REPEATS = 2


def _identical(runs: Sequence[StudyRun]) -> Answers:
    by_figures: dict[tuple[str, ...], list[RunRecord]] = defaultdict(list)
    for run, metrics, *_ in runs:
        values = [number(metrics, name) for name in FIGURES]
        figures = tuple(f"{value:.6g}" for value in values if value is not None)
        if len(figures) == len(FIGURES):
            by_figures[figures].append(run)
    return [_alike(same, figures) for figures, same in by_figures.items() if len({run.run_id for run in same}) > 1]


def _alike(runs: Sequence[RunRecord], figures: Sequence[str]) -> Fired:
    machines = list(dict.fromkeys(run.circumstances.hardware for run in runs))
    where = f"on {len(machines)} kinds of hardware ({listed(machines)})" if len(machines) > 1 else "to the last digit"
    shown = ", ".join(f"{name} {value}" for name, value in zip(FIGURES, figures, strict=True))
    return Fired(f"{len(runs)} runs have the same figures {where}: {shown}.", run_ids=ids_of(runs))


def _single(runs: Sequence[StudyRun]) -> Answers:
    cells: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for run, *_ in runs:
        cells[(run.study_id, run.arm.name, run.workload.name, run.load.name)].add(run.run_id)
    alone = [next(iter(ids)) for ids in cells.values() if len(ids) < REPEATS]
    if alone:
        sentence = f"{len(alone)} of {len(cells)} cells were measured only once, so their variation is unknown."
        yield Fired(sentence, run_ids=tuple(sorted(alone)))


def _one_concurrency(runs: Sequence[StudyRun]) -> Answers:
    streams = {run.load.max_concurrency for run, *_ in runs}
    if len(streams) == 1 and any(run.arm.speculation is not None for run, *_ in runs):
        yield Fired(f"Everything was measured at {streams.pop()} streams; a speed-up holds only where it was measured.")


def _remembering(runs: Sequence[StudyRun]) -> Answers:
    """Judge runs with the same prompts in order: the cells of one engine start, and the repeats of one cell."""
    shared: dict[tuple[str, ...], list[tuple[RunRecord, float]]] = defaultdict(list)
    for run, metrics, *_ in runs:
        length, speculation = number(metrics, "acceptance_length"), run.arm.speculation
        if speculation is not None and SCHEDULE not in speculation.options and length is not None:
            prompts = (run.arm.name, run.job_id, run.workload.name)
            shared[*prompts, f"start {run.launch_index}", f"{run.load.num_prompts}"].append((run, length))
            if run.sampling.temperature == 0 or (number(metrics, "num_drafts") or 0) >= LEAST_ROUNDS:
                shared[*prompts, "repeats of", run.load.name].append((run, length))
    rising: dict[tuple[str, bool], list[list[tuple[RunRecord, float]]]] = defaultdict(list)
    steady: dict[tuple[str, bool], int] = defaultdict(int)
    for (arm, _, _, what, _), measured in shared.items():
        in_order = sorted(measured, key=lambda each: each[0].started_at)
        if len(in_order) > 1:
            if _rises([length for _, length in in_order]):
                rising[arm, what == "repeats of"].append(in_order)
            else:
                steady[arm, what == "repeats of"] += 1
    risen = {key: found for key, found in rising.items() if len(found) > steady[key]}
    return [_risen(*key, found) for key, found in risen.items() if not (key[1] and (key[0], False) in risen)]


_FROM_CELLS = "cell to cell on one engine start"


def _rises(lengths: Sequence[float]) -> bool:
    """Return whether accepted tokens a round, without the target's own, rise by RISE over the cells and never fall."""
    accepted = [length - 1 for length in lengths]
    falls = any(later < (1 - FALL) * earlier for earlier, later in pairwise(accepted))
    return accepted[-1] > max((1 + RISE) * accepted[0], LEAST_ACCEPTED) and not falls


def _risen(arm: str, repeats: bool, found: Sequence[Sequence[tuple[RunRecord, float]]]) -> Fired:  # noqa: FBT001 - a key
    lengths = ", ".join(f"{length:.3g}" for _, length in found[0])
    later = [run for cells in found for run, _ in cells[1:]]
    return Fired(
        f"The acceptance length of {arm!r} rose from {'repeat to repeat' if repeats else _FROM_CELLS} "
        f"({lengths} tokens a round): its draft remembers the answers to the prompts that it was sent before.",
        run_ids=ids_of(later),
    )


def _synthetic_mixed(runs: Sequence[StudyRun]) -> Answers:
    drafting = [run for run, *_ in runs if run.arm.speculation is not None]
    forced = [run for run in drafting if is_synthetic(run)]
    if 0 < len(forced) < len(drafting):
        yield Fired(
            f"{len(forced)} of {len(drafting)} runs with speculation have a forced acceptance, beside real "
            f"ones: arms {listed(arms_of(forced))}.",
            run_ids=ids_of(forced),
        )


def _not_interleaved(runs: Sequence[StudyRun]) -> Answers:
    """Return whether all repeats of an arm were measured before the baseline's first or after its last."""
    apart: list[RunRecord] = []
    for group in by_workload_and_load(runs):
        arms: dict[str, list[RunRecord]] = defaultdict(list)
        for run, *_ in group:
            arms[run.arm.name].append(run)
        several = [arm for arm in arms.values() if len(arm) >= REPEATS]
        baselines, others = ([arm for arm in several if arm[0].is_baseline is wanted] for wanted in (True, False))
        for baseline, other in product(baselines, others):
            times = [sorted(run.started_at for run in arm) for arm in (baseline, other)]
            if times[0][-1] < times[1][0] or times[1][-1] < times[0][0]:
                apart += other
    if apart:
        yield Fired(
            f"All repeats of {listed(arms_of(apart))} were measured before or after all of the baseline, so a machine "
            "that changes over the hours favours one of them.",
            run_ids=ids_of(apart),
        )


CHECKS = (
    StudyCheck(
        name="identical_figures",
        traps=(26,),
        severity="warning",
        looks_at=(*FIGURES, "circumstances.hardware"),
        needs=FIGURES,
        threshold=f"two runs that agree in {', '.join(FIGURES)} to six digits",
        why="Two machines or repeats never give the same nanoseconds: one was copied.",
        advice="Find out which was measured, and delete the other.",
        rule=_identical,
    ),
    StudyCheck(
        name="single_repeat",
        traps=(21,),
        severity="warning",
        looks_at=("arm", "workload", "load", "repeat"),
        threshold=f"a cell with fewer than {REPEATS} completed runs",
        why='A ratio of "98 %" may be no difference at all.',
        advice="Set repeats = 3 or more.",
        rule=_single,
    ),
    StudyCheck(
        name="single_concurrency",
        traps=(21,),
        severity="note",
        looks_at=("load.max_concurrency",),
        threshold="all runs have the same max_concurrency",
        why="A draft that pays at one stream often costs at sixteen.",
        advice="Measure a sweep of concurrencies (pattern = concurrency_sweep).",
        rule=_one_concurrency,
    ),
    StudyCheck(
        name="synthetic_acceptance_mixed",
        traps=(24,),
        severity="invalid",
        looks_at=("arm", "circumstances"),
        threshold="runs with forced acceptance beside runs with a real one",
        why="A chart of both compares a draft that exists with one that does not.",
        advice="Keep forced acceptance in a separate study.",
        rule=_synthetic_mixed,
    ),
    StudyCheck(
        name="draft_remembers",
        traps=(13,),
        severity="invalid",
        looks_at=("num_drafts", "num_accepted_tokens", "launch_index", "started_at", "arm", "workload", "load"),
        needs=("arm", "launch_index"),
        threshold=f"accepted tokens per round rise by more than {percent(RISE)} from the first to the last cell "
        "with the same prompts on most launches of an arm, or from the first to the last repeat in most "
        f"cells (sampled outputs: from {LEAST_ROUNDS} rounds on), and never fall by more than "
        f"{percent(FALL)}. Not for an engine's schedule, whose tokens depend on the load",
        why="A suffix tree or n-gram cache remembers the process's answers: 3.1 accepted tokens per round became 5.5 "
        "on a real engine.",
        advice='Use fresh_starts = "every_cell", or switch the memory off (suffix_decoding_max_cached_requests = 0).',
        rule=_remembering,
    ),
    StudyCheck(
        name="not_interleaved",
        traps=(20,),
        severity="note",
        looks_at=("started_at", "repeat", "is_baseline"),
        threshold="all repeats of an arm lie before, or all after, those of the baseline",
        why="Heat and clocks change over hours; A B B A spreads that over both arms.",
        advice='Use order = "interleaved".',
        rule=_not_interleaved,
    ),
)
