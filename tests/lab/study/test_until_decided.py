"""`repeats = "until decided"` and its budget, as people write them."""

from __future__ import annotations

from typing import Any

import pytest

from lab.errors import StudyError
from lab.study.parsing import measured_until_decided, study_from_dict, study_from_toml, study_to_toml
from tests.lab.studies import study, study_dict

UNTIL = {"repeats": "until decided", "budget": "45 min"}


def test_it_has_at_most_twelve_looks_and_a_budget_in_seconds() -> None:
    written = study(**UNTIL)
    assert (written.until_decided, written.repeats, written.budget_s) == (True, 12, 2700)
    assert study(**UNTIL, order="side_by_side").repeats == 24
    assert study(**UNTIL, repeats_per_launch=3).repeats == 36
    assert not study(repeats=3).until_decided


def test_it_reads_back_equal_from_toml_that_says_it_in_words() -> None:
    written = study(**UNTIL, order="side_by_side")
    text = study_to_toml(written)
    assert 'repeats = "until decided"' in text
    assert 'budget = "45 min"' in text
    assert study_from_toml(text) == written


def test_any_study_can_be_measured_until_decided() -> None:
    assert measured_until_decided(study(repeats=3), "45 min") == study(**UNTIL)
    assert measured_until_decided(study(**UNTIL), "1 h") == study(repeats="until decided", budget="1 h")


@pytest.mark.parametrize(
    ("changes", "field", "sentence"),
    [
        ({"repeats": "until decided"}, "budget", "needs the time it may take: write it like 45 min"),
        (UNTIL | {"budget": "45"}, "budget", "'45' is not a duration: write it like 45 min, 1 h 30 min or 90 s"),
        (UNTIL | {"budget": 45}, "budget", "'45' is not a duration"),
        ({"repeats": 3, "budget": "45 min"}, "budget", 'belongs to repeats = "until decided"'),
        (UNTIL | {"order": "fewest_launches"}, "", "looks at all arms after every repeat"),
    ],
)
def test_what_does_not_fit_is_answered_with_what_would(changes: dict[str, Any], field: str, sentence: str) -> None:
    with pytest.raises(StudyError) as caught:
        study_from_dict(study_dict(**changes))
    assert [where for where, text in caught.value.problems if sentence in text] == [field]
