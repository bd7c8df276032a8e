"""Text that no parser can read is answered with a sentence, never with a traceback."""

from __future__ import annotations

import pytest

from lab.errors import StudyError
from lab.study.parsing import study_from_json, study_from_toml


@pytest.mark.parametrize("text", ["repeats = " + "9" * 5_000, "name = " + "[" * 50_000, "name = " + "{a=" * 50_000])
def test_huge_numbers_or_deep_nesting_in_toml_are_a_study_error(text: str) -> None:
    with pytest.raises(StudyError, match="this is not valid TOML"):
        study_from_toml(text)


@pytest.mark.parametrize("text", ['{"repeats": ' + "9" * 5_000 + "}", "[" * 90_000])
def test_huge_numbers_or_deep_nesting_in_json_are_a_study_error(text: str) -> None:
    with pytest.raises(StudyError, match="this is not valid JSON"):
        study_from_json(text)
