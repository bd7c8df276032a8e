"""The study that would decide what is open."""

from __future__ import annotations

from dataclasses import replace

from lab.advice import Measured, advise
from lab.advice.advise import MOST_REPEATS, next_study
from tests.lab.studies import study

OPEN = Measured(
    workload="reference/code/16",
    concurrency=4,
    arm="draft",
    method="draft_model",
    gamma=3,
    speedup=1.01,
    low=0.9,
    high=1.13,
    outcome="not enough data",
    acceptance_rate=0.6,
    acceptance_length=2.5,
    output_tokens=60,
    more_repeats=4,
    pattern="c4-n8",
)
DECIDED = replace(
    OPEN, concurrency=1, pattern="c1-n4", speedup=1.4, low=1.3, high=1.5, outcome="faster", more_repeats=0
)


def test_only_what_is_open_is_measured_again_with_the_repeats_that_it_needs() -> None:
    measured = [OPEN, DECIDED]
    proposed = next_study(study(repeats=3), advise(measured), measured)
    assert proposed is not None
    assert [arm.name for arm in proposed.arms] == ["no draft", "draft"]
    assert [load.name for load in proposed.loads] == ["c4-n8"]
    assert proposed.repeats == 7


def test_repeats_are_three_at_least_and_never_hundreds() -> None:
    for more, repeats in ((None, 3), (1, 3), (700, MOST_REPEATS)):
        measured = [replace(OPEN, more_repeats=more)]
        proposed = next_study(study(), advise(measured), measured)
        assert proposed is not None
        assert proposed.repeats == repeats


def test_where_nothing_is_open_there_is_no_next_study() -> None:
    assert next_study(study(), advise([DECIDED]), [DECIDED]) is None


def test_what_the_study_does_not_know_is_not_made_up() -> None:
    measured = [replace(OPEN, workload="imported")]
    assert next_study(study(), advise(measured), measured) is None
