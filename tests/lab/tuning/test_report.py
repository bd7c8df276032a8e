"""The report of a small tuning, whole: in the middle of its race, and at its end."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from lab.schedule import Outcome, Step
from lab.schedule.tuning import Tuning, result_of
from lab.study import Study
from lab.tuning.report import Measured, Report, Tried, report
from tests.lab.schedule.test_small_tuning import Speed, clear, measured, tuning

FIVE = tuning(drafted_tokens=[1, 2, 3, 4, 5])
ONCE = "1 repeat, which cannot show how much runs differ"


def reported(study: Study, speed: Speed, most_runs: int) -> Report:
    """The report after about so many runs."""
    schedule, outcomes = Tuning(study), list[Outcome]()
    while len(outcomes) < most_runs and isinstance(step := schedule.next(outcomes), Step):
        outcomes += [measured(run, step.launch.index, speed) for run in step.launch.runs]
    results = {outcome.run.key(""): result_of(outcome) for outcome in outcomes}
    tuning_report = report(study, lambda run: results.get(run.key("")))
    assert tuning_report is not None
    return tuning_report


def near(*expected: tuple[object, ...]) -> list[object]:
    """These rows, with their numbers to six digits."""
    return [
        tuple(pytest.approx(value, rel=1e-6) if isinstance(value, float) else value for value in row)
        for row in expected
    ]


def rows(*every: Measured) -> list[tuple[object, ...]]:
    return [astuple(measured) for measured in every]


def tried(*every: Tried) -> list[tuple[object, ...]]:
    """Each setting at each load, without its interval and without what its own runs say."""
    return [(setting.arm, setting.load, setting.k, setting.runs, setting.expected, setting.fate) for setting in every]


def test_in_the_race_every_setting_has_its_expectation_and_fate() -> None:
    tuned = reported(FIVE, clear, 6)
    assert (tuned.ended, tuned.runs, tuned.grid_runs, tuned.final) == ("", 6, 12, ())
    assert (tuned.single.name, tuned.deployed.name) == ("look-up k=1", "look-up scheduled")
    assert tuned.ranges == ((1, 2, 5), (3, 4096, 1))
    assert rows(*tuned.best) == near(
        ("look-up k=5", 1, 5, 2.0, None, None, "inconclusive", ONCE),
        ("look-up k=1", 4, 1, 1.4, None, None, "inconclusive", ONCE),
    )
    assert tried(*tuned.tried) == near(
        ("no draft", 1, 0, 1, 1.0, "slower: 0.50× of the chosen one"),
        ("look-up k=1", 1, 1, 1, 1.5013017758, "slower: 0.75× of the chosen one"),
        ("look-up k=2", 1, 2, 0, 1.7939448223, "not run, slower: 0.90× of the chosen one judged by its neighbours"),
        ("look-up k=3", 1, 3, 0, 1.9399085786, "inconclusive: it may be faster by up to 4 %"),
        ("look-up k=4", 1, 4, 0, 1.9970161550, "inconclusive: it may be faster by up to 5 %"),
        ("look-up k=5", 1, 5, 1, 1.9997577141, "chosen"),
        ("no draft", 4, 0, 1, 1.0, "slower: 0.73× of the chosen one"),
        ("look-up k=1", 4, 1, 1, 1.3740403148, "chosen"),
        ("look-up k=2", 4, 2, 0, 1.0613095883, "not run, slower: 0.77× of the chosen one judged by its neighbours"),
        ("look-up k=3", 4, 3, 0, 0.9086957723, "not run, slower: 0.66× of the chosen one judged by its neighbours"),
        ("look-up k=4", 4, 4, 0, 0.8007283903, "not run, slower: 0.58× of the chosen one judged by its neighbours"),
        ("look-up k=5", 4, 5, 1, 0.7151763766, "slower: 0.52× of the chosen one"),
    )


def test_at_the_end_the_result_has_all_its_repeats() -> None:
    tuned = reported(FIVE, clear, 100)
    assert (tuned.ended, tuned.runs, tuned.grid_runs) == ("most repeats", 35, 12)
    assert tuned.scheduled == tuned.deployed
    assert tuned.ranges == ((1, 2, 3), (3, 4096, 1))
    six = "with the scatter of 6 like cells"
    at_four = ("look-up k=1", 4, 1, 1.4006970381, 1.3976437828, 1.4037569635, "faster", f"6 repeats, {six}")
    assert rows(*tuned.best) == near(
        ("look-up k=3", 1, 3, 2.2021945143, 2.1895709119, 2.2148908958, "faster", f"2 repeats, {six}"), at_four
    )
    assert rows(*tuned.final) == near(
        ("look-up k=1", 1, 1, 1.5003722502, 1.4959513370, 1.5048062284, "faster", f"4 repeats, {six}"),
        at_four,
        ("look-up scheduled", 1, 3, 2.1970759250, 2.1880357460, 2.2061534547, "faster", f"3 repeats, {six}"),
        ("look-up scheduled", 4, 1, 1.3981392250, 1.3923863838, 1.4039158348, "faster", f"3 repeats, {six}"),
    )
    assert tried(*tuned.tried[:6]) == near(
        ("no draft", 1, 0, 3, 1.0, "slower: 0.45× of the chosen one"),
        ("look-up k=1", 1, 1, 1, 1.6464811063, "slower: 0.75× of the chosen one"),
        ("look-up k=2", 1, 2, 0, 1.9721167209, "inconclusive: it may be faster by up to 11 %"),
        ("look-up k=3", 1, 3, 2, 2.2016565093, "chosen"),
        ("look-up k=4", 1, 4, 2, 2.1020278546, "slower: 0.95× of the chosen one"),
        ("look-up k=5", 1, 5, 2, 2.0032166933, "slower: 0.91× of the chosen one"),
    )
    for setting in tuned.tried:
        assert setting.is_chosen == (setting.fate == "chosen")
        assert setting.draft == ("look-up" if setting.k else "")
        assert (setting.measured is None) == (setting.runs == 0 or setting.k == 0)
        if setting.expected is not None and setting.at_least is not None and setting.at_most is not None:
            assert setting.at_least <= setting.expected <= setting.at_most
    assert tuned.caveats == ""


def test_an_unmeasured_setting_may_be_chosen_and_a_failed_one_not() -> None:
    def dying(arm: str, load: int, repeat: int) -> float | None:
        return None if (arm, load) == ("look-up k=3", 4) else clear(arm, load, repeat)

    tuned = reported(tuning(drafted_tokens=[1, 3]), dying, 6)
    assert [setting.fate for setting in tuned.tried if setting.load == 4] == [
        "slower: 0.71× of the chosen one",
        "chosen",
        "no run of it counts",
    ]
    slow = reported(tuning(drafted_tokens=[1, 3]), lambda arm, *_: 100.0 if arm == "no draft" else 50.0, 6)
    assert slow.best == tuple(
        Measured("no draft", load, 0, 1.0, None, None, "no difference", "it is what the others are compared with")
        for load in (1, 4)
    )
    assert (slow.deployed.name, slow.scheduled, slow.ranges) == ("no draft", None, ((1, 4096, 0),))
    unmeasured = reported(FIVE, lambda arm, *_: 100.0 if arm == "no draft" else 118.0, 4)
    assert unmeasured.best == tuple(
        Measured("look-up k=2", load, 2, None, None, None, "inconclusive", "not measured") for load in (1, 4)
    )
    assert unmeasured.caveats == (
        "At 1 and 4 requests at once the number of drafted tokens rests on what a round usually costs, because only "
        "one number was measured there. A larger budget measures two."
    )


def test_an_inconclusive_load_gets_no_speculation_unless_drafting_pays() -> None:
    """After one run of each, 1.05 times as fast may be noise; 1.8 times is not."""

    def unclear(arm: str, load: int, _repeat: int) -> float:
        return 100.0 if arm == "no draft" else {1: 180.0, 4: 105.0}[load]

    found = reported(tuning(drafted_tokens=[1, 3]), unclear, 6)
    assert [(each.load, each.k) for each in found.best] == [(1, 3), (4, 0)]
    assert found.ranges == ((1, 2, 3), (3, 4096, 0))
    assert found.caveats == (
        "Inconclusive at 4 requests at once: left off, because drafting was not shown to be faster there than no "
        "speculation."
    )
    fates = {each.arm: each.fate for each in found.tried if each.load == 4}
    assert fates["no draft"] == "chosen"
    assert "left off: not shown to be faster than no speculation" in fates.values()
