"""What a user can mend prints as one sentence; everything else keeps its traceback."""

from __future__ import annotations

from datetime import date

import pytest

from lab import errors
from lab.errors import CancelledError, DrafthouseError, EngineError, StudyError, UnknownPriceError, UserError


def test_what_a_user_can_mend_is_told_from_what_drafthouse_did() -> None:
    classes = {
        class_ for class_ in vars(errors).values() if isinstance(class_, type) and issubclass(class_, DrafthouseError)
    }
    not_the_users = {class_ for class_ in classes if not issubclass(class_, UserError)}
    assert not_the_users == {DrafthouseError, EngineError, CancelledError}
    assert issubclass(UnknownPriceError, errors.QueryError)


def test_a_study_names_every_field_that_is_wrong_a_line_each() -> None:
    problems = [("arms", "at least one is needed"), ("", "the whole is too large")]
    error = StudyError(problems)
    assert error.problems == problems
    assert str(error) == "arms: at least one is needed\nthe whole is too large"


@pytest.mark.parametrize(("day", "words"), [(date(2026, 11, 22), "on 2026-11-22"), (None, "on an unknown day")])
def test_an_unknown_price_names_hardware_and_day_and_how_to_mend_it(day: date | None, words: str) -> None:
    error = UnknownPriceError("NVIDIA H200", day)
    assert (error.hardware, error.day) == ("NVIDIA H200", day)
    assert "'NVIDIA H200'" in str(error)
    assert words in str(error)
    assert "drafthouse prices add" in str(error)
    assert "--price-per-hour" in str(error)
