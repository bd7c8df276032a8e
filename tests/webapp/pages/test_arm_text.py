from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webapp.pages.submit import form_model

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,20}", fullmatch=True)
TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=40)
VALUES = st.recursive(
    st.booleans() | st.integers(-(10**9), 10**9) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(NAMES | TEXT, VALUES, max_size=4))
def test_flags_and_options_read_back_as_they_were_from_one_line_each(flags: dict[str, Any]) -> None:
    text = form_model.flags_text(flags)
    assert form_model.read_flags(text) == flags
    assert len(text.splitlines()) == len(flags)


def test_a_schedule_is_one_line_that_a_person_can_edit() -> None:
    text = form_model.flags_text({"num_speculative_tokens_per_batch_size": [[1, 4, 3], [5, 512, 0]]})
    assert text == "num_speculative_tokens_per_batch_size = [[1, 4, 3], [5, 512, 0]]"


@given(st.dictionaries(NAMES, VALUES, max_size=4))
def test_a_configuration_file_reads_back_as_it_was(config: dict[str, Any]) -> None:
    assert form_model.read_config(form_model.config_text(config)) == config


@given(st.dictionaries(NAMES, st.text(st.characters(exclude_categories=["Cs"]), max_size=40), max_size=5))
def test_an_environment_reads_back_as_it_was(environment: dict[str, str]) -> None:
    assert form_model.read_environment(form_model.environment_text(environment)) == environment


def test_the_configuration_of_the_sources_is_read_as_an_engine_reads_it() -> None:
    text = "kv-cache-dtype: fp8\nasync-scheduling: true\nmax-num-batched-tokens: 8192\n"
    assert form_model.read_config(text) == {
        "kv-cache-dtype": "fp8",
        "async-scheduling": True,
        "max-num-batched-tokens": 8192,
    }


@pytest.mark.parametrize("empty", ["", "\n", "  \n"])
def test_an_empty_text_is_nothing(empty: str) -> None:
    assert form_model.read_config(empty) == form_model.read_flags(empty) == form_model.read_environment(empty) == {}
