"""Golden acceptance lengths are read and written in the form that others publish them in."""

from __future__ import annotations

import pytest

from lab.errors import UserError
from lab.published.golden import GoldenLength, golden_text, read_golden

FILE = """# Acceptance Length (AL) reference values
# key = num_speculative_tokens; value = golden AL
some-model:
  thinking_on:
    1: 1.86
    3: 3.08
  thinking_off:
    3: 4
"""


def test_a_file_is_read_with_every_model_mode_and_draft_length() -> None:
    assert read_golden(FILE, "x.yaml") == [
        GoldenLength("some-model", "thinking_on", 1, 1.86),
        GoldenLength("some-model", "thinking_on", 3, 3.08),
        GoldenLength("some-model", "thinking_off", 3, 4.0),
    ]


def test_what_is_written_reads_back_rounded_to_two_decimals() -> None:
    text = golden_text([GoldenLength("m", "thinking_off", 3, 2.345678)], ["measured here"])
    assert text.startswith("# measured here\n")
    assert read_golden(text, "out") == [GoldenLength("m", "thinking_off", 3, 2.35)]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "x.yaml is not valid YAML"),
        ("- 1", "x.yaml should be a mapping"),
        ("m: 3", "x.yaml, m should be a mapping"),
        ("m: {thinking_on: {3: 4.5}}", "x.yaml, m, thinking_on: 3: 4.5 should be a number of drafted tokens k"),
        ("m: {thinking_on: {a: 2}}", "'a': 2 should be a number of drafted tokens k"),
        ("m: {thinking_on: {3: true}}", "3: True should be a number of drafted tokens k"),
        ("m: {thinking_on: {}}", "has no acceptance length: it should look like"),
    ],
)
def test_a_file_of_another_shape_is_refused_with_the_place(text: str, why: str) -> None:
    with pytest.raises(UserError, match=why):
        read_golden(text, "x.yaml")
