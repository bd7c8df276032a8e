"""A tuning of one draft at two loads, written out: every launch, what may follow it, and every reason to end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from lab.schedule import End, Outcome, Step
from lab.schedule.tuning import Progress, RunResult, Tuning, result_of
from lab.study import Study
from lab.study.arm import SCHEDULE
from lab.study.plan import Launch, PlannedRun
from lab.tuning.result import Choice
from lab.tuning.setting import NONE, Setting
from tests.lab.studies import study

LOOK_UP = {"method": "ngram", "num_speculative_tokens": 5}
ARMS: list[dict[str, Any]] = [{"name": "no draft"}, {"name": "look-up k=5", "speculation": LOOK_UP}]
LOADS = [{"max_concurrency": 1, "num_prompts": 4}, {"max_concurrency": 4, "num_prompts": 8}]
ONE, THREE = Setting("look-up", 1), Setting("look-up", 3)
#: By position: four of five of those accepted at the one before.
ACCEPTED = (0.8, 0.64, 0.512, 0.4096, 0.32768)
BOTH = (1, 4)

#: The speed of an arm at a load in a repeat; None if the run fails.
Speed = Callable[[str, int, int], float | None]
Short = tuple[int, str, tuple[int, ...], int]


def tuning(arms: Iterable[dict[str, Any]] = ARMS, **tune: Any) -> Study:
    return study(arms=list(arms), loads=LOADS, tune={"drafted_tokens": [1, 3], "most_repeats": 3} | tune)


def short(launch: Launch) -> Short:
    """The launch's index, its only arm, the loads of its runs, and their repeat."""
    (arm,) = launch.arms
    (repeat,) = {run.repeat for run in launch.runs}
    assert all(run.arm == arm for run in launch.runs)
    return launch.index, arm.name, tuple(run.load.max_concurrency for run in launch.runs), repeat


def measured(run: PlannedRun, index: int, speed: Speed) -> Outcome:
    factor = speed(run.arm.name, run.load.max_concurrency, run.repeat)
    if factor is None:
        return Outcome(run, index, is_valid=False, error="it died", engine_start_s=20.0, took_s=10.0)
    speculation = run.arm.speculation
    metrics: dict[str, Any] = {"output_tok_per_s": factor}
    if speculation is not None:
        metrics["acceptance_per_position"] = ACCEPTED[: speculation.num_speculative_tokens]
    return Outcome(run, index, is_valid=True, metrics=metrics, engine_start_s=20.0, took_s=10.0)


def followed(
    study: Study, speed: Speed, most: int = 100, outcomes: list[Outcome] | None = None
) -> tuple[list[Step], End | None]:
    """The steps of a tuning, at most so many, and its end if it came to it; `outcomes` are extended."""
    schedule, steps, outcomes = Tuning(study), list[Step](), [] if outcomes is None else outcomes
    while len(steps) < most:
        step = schedule.next(outcomes)
        if isinstance(step, End):
            return steps, step
        steps.append(step)
        outcomes += [measured(run, step.launch.index, speed) for run in step.launch.runs]
    return steps, None


def clear(arm: str, load: int, repeat: int) -> float:
    """Three tokens are best alone, one token at four requests at once; repeats differ by a few thousandths."""
    drafting = {1: (1.5, 1.4), 2: (1.8, 1.1), 3: (2.2, 0.9), 4: (2.1, 0.8), 5: (2.0, 0.7)}
    factor = {f"look-up k={k}": gain for k, gain in drafting.items()}
    factor |= {"no draft": (1.0, 1.0), "look-up scheduled": (2.2, 1.4), "adaptive": (2.1, 1.2)}
    return 100 * factor[arm][BOTH.index(load)] * (1 + repeat * len(arm) % 7 / 1000)


FOUND = "Every load has its setting; now they are measured beside no speculation"


def racing(decided: int) -> str:
    return f"{decided} of 2 loads have their setting"


def test_a_tuning_is_a_race_and_then_its_result_three_times() -> None:
    """Three tokens are best alone, one token at four requests at once; what was found is measured A B C, C B A."""
    steps, end = followed(tuning(drafted_tokens=[1, 2, 3, 4, 5]), clear)
    assert [(*short(step.launch), step.standing, len(step.later)) for step in steps] == [
        (0, "no draft", BOTH, 0, "", 17),
        (1, "look-up k=5", BOTH, 0, "", 16),
        (2, "look-up k=1", BOTH, 0, racing(0), 15),
        (3, "look-up k=5", (1,), 1, racing(1), 16),
        (4, "look-up k=4", (1,), 1, racing(1), 15),
        (5, "look-up k=3", (1,), 1, racing(1), 14),
        (6, "look-up k=1", (4,), 1, racing(2), 13),
        (7, "no draft", BOTH, 1, racing(2), 12),
        (8, "no draft", BOTH, 2, racing(1), 13),
        (9, "look-up k=1", (4,), 2, racing(1), 12),
        (10, "look-up k=3", (1,), 2, racing(1), 11),
        (11, "look-up k=4", (1,), 2, racing(2), 10),
        (12, "look-up scheduled", BOTH, 3, FOUND, 8),
        (13, "look-up k=1", BOTH, 3, FOUND, 7),
        (14, "no draft", BOTH, 3, FOUND, 6),
        (15, "no draft", BOTH, 4, FOUND, 5),
        (16, "look-up k=1", BOTH, 4, FOUND, 4),
        (17, "look-up scheduled", BOTH, 4, FOUND, 3),
        (18, "look-up scheduled", BOTH, 5, FOUND, 2),
        (19, "look-up k=1", BOTH, 5, FOUND, 1),
        (20, "no draft", BOTH, 5, FOUND, 0),
    ]
    assert [step.later_is_certain for step in steps] == [False] * 12 + [True] * 9
    assert end == End("most repeats", "Some loads are inconclusive after 3 repeats")


def test_equal_outcomes_give_equal_steps_whichever_worker_asks() -> None:
    """A worker that is killed leaves outcomes behind; the next one asks for the launch that was not finished."""
    study, outcomes, done = tuning(drafted_tokens=[1, 2, 3]), list[Outcome](), 0
    steps, end = followed(study, clear, outcomes=outcomes)
    for step, following in zip(steps, [*steps[1:], end], strict=True):
        assert Tuning(study).next(outcomes[: done + len(step.launch.runs) - 1]) == step
        done += len(step.launch.runs)
        assert Tuning(study).next(outcomes[:done]) == following


def test_the_first_step_says_what_may_follow_at_most() -> None:
    """Nine runs are one and a half times a grid of three settings at two loads."""
    (step,), _ = followed(tuning(), clear, 1)
    assert short(step.launch) == (0, "no draft", BOTH, 0)
    assert [short(launch) for launch in step.later] == [
        (1, "look-up k=3", BOTH, 0),
        (2, "no draft", BOTH, 3),
        (3, "look-up k=1", BOTH, 3),
        (4, "look-up k=3", BOTH, 3),
        *[(index, "no draft", BOTH, 3) for index in range(5, 14)],
    ]
    assert (step.later_is_certain, step.standing) == (False, "")


def tied(arm: str, load: int, repeat: int) -> float:
    """One token is as good as three."""
    return clear(arm, load, repeat) if arm == "no draft" else 150 * (1 + load / 100)


@pytest.mark.parametrize(
    ("tune", "speed", "expected"),
    [
        ({}, tied, End("most runs", "Some loads are inconclusive after the 9 runs that a race may take")),
        ({}, clear, End("decided", "At no load could another setting be faster by more than 2 %")),
        ({"budget_minutes": 7.99}, clear, End("budget spent", "The budget did not allow another round")),
        (
            {},
            lambda arm, load, repeat: None if arm == "no draft" else clear(arm, load, repeat),
            End("nothing to compare", "No load has both a valid run without speculation and one with it"),
        ),
    ],
)
def test_each_reason_to_end_has_its_sentence(tune: dict[str, Any], speed: Speed, expected: End) -> None:
    assert followed(tuning(**tune), speed)[1] == expected


@pytest.mark.parametrize(
    ("budget_minutes", "beside", "is_spent"),
    [(8.0, False, False), (7.99, False, True), (10.0, True, False), (9.99, True, True)],
)
def test_a_round_begins_if_the_budget_also_holds_the_result(
    budget_minutes: float,
    beside: bool,  # noqa: FBT001
    is_spent: bool,  # noqa: FBT001
) -> None:
    """A launch takes 40 s. After two of them one is next, and the result takes three times three (or four)."""
    extra = [{"name": "adaptive", "speculation": LOOK_UP}] if beside else []
    names = [extra_arm["name"] for extra_arm in extra]
    steps, _ = followed(tuning([*ARMS, *extra], budget_minutes=budget_minutes, beside=names), clear, 3)
    assert steps[2].later_is_certain is is_spent
    assert (short(steps[2].launch)[1] == "look-up k=1") is not is_spent


def test_a_launch_is_repeated_if_one_of_its_runs_has_no_outcome() -> None:
    schedule, speed = Tuning(tuning()), clear
    first = schedule.next([])
    assert isinstance(first, Step)
    outcomes = [measured(run, 0, speed) for run in first.launch.runs]
    assert schedule.next(outcomes[:1]) == first
    progress = schedule.follow(lambda run: RunResult(1.0) if run.arm.name == "no draft" else None)
    assert [launch.index for launch in progress.launches] == [0]
    assert progress.waiting is not None
    assert progress.waiting.index == 1


def test_progress_counts_each_engine_start_once() -> None:
    schedule = Tuning(tuning())
    progress: Progress = schedule.follow(
        lambda run: RunResult(1.0, took_s=10.0, engine_start_s=20.0) if run.arm.name == "no draft" else None
    )
    assert progress.spent_s == 20 + 2 * 10


def choice_of(*ranges: tuple[int, int, int], draft: str | None = "look-up") -> Choice:
    return Choice({1: THREE}, ONE, draft, {1: 3}, ranges)


def test_a_schedule_is_deployed_only_if_loads_differ_and_engines_have_one() -> None:
    schedule, without = Tuning(tuning()), Tuning(tuning(schedule=False))
    assert schedule.deployed(choice_of((1, 4096, 3), draft=None)).name == "no draft"
    assert schedule.deployed(choice_of((1, 4096, 3))).name == "look-up k=3"
    scheduled = schedule.deployed(choice_of((1, 2, 3), (3, 4096, 1)))
    assert scheduled.name == "look-up scheduled"
    assert scheduled.speculation is not None
    assert scheduled.speculation.options[SCHEDULE] == [[1, 2, 3], [3, 4096, 1]]
    assert without.deployed(choice_of((1, 2, 3), (3, 4096, 1))).name == "look-up k=1"
    assert [arm.name for arm in schedule.final_arms(choice_of((1, 4096, 1)))] == ["no draft", "look-up k=1"]
    assert schedule.settings == {"no draft": NONE, "look-up k=1": ONE, "look-up k=3": THREE}


def test_what_counts_of_an_outcome_is_known_or_none() -> None:
    run = tuning_run()
    whole = Outcome(
        run,
        0,
        is_valid=True,
        metrics={"output_tok_per_s": 7, "acceptance_per_position": (0.5,)},
        engine_start_s=2.0,
        took_s=3.0,
    )
    assert result_of(whole) == RunResult(7.0, (0.5,), took_s=3.0, engine_start_s=2.0)
    invalid = Outcome(run, 0, is_valid=False, metrics={"output_tok_per_s": 7.0, "acceptance_per_position": 0.5})
    assert result_of(invalid) == RunResult(None, (), is_disturbed=True)
    assert result_of(Outcome(run, 0, is_valid=True)) == RunResult(None)


def tuning_run() -> PlannedRun:
    first = Tuning(tuning()).next([])
    assert isinstance(first, Step)
    return first.launch.runs[0]


def test_no_other_study_is_tuned() -> None:
    with pytest.raises(ValueError, match=r"^the study 'small' is not a tuning$"):
        Tuning(study())
