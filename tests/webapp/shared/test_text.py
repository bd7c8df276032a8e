from __future__ import annotations

from datetime import UTC, datetime

import pytest

from webapp.shared import text


@pytest.mark.parametrize(
    ("written", "escaped"),
    [
        ("<b>", r"\<b\>"),
        ("$x$", r"\$x\$"),
        ("[a](b)", r"\[a\]\(b\)"),
        (":smile:", r"\:smile\:"),
        ("*k* _j_", r"\*k\* \_j\_"),
        ("a\\b", r"a\\b"),
        ("plain words 3", "plain words 3"),
    ],
)
def test_every_mark_of_markdown_carries_a_backslash(written: str, escaped: str) -> None:
    assert text.literal(written) == escaped


@pytest.mark.parametrize("arrow", ["->", "<-", "--", ">=", "<=", "http://x", "www.x", "a@b"])
def test_what_streamlit_would_turn_into_signs_and_links_is_broken_up_invisibly(arrow: str) -> None:
    assert "\u2060" in text.literal(arrow)
    assert text.literal(arrow).replace("\u2060", "").replace("\\", "") == arrow


def test_line_breaks_of_a_message_stay() -> None:
    assert text.literal("one\ntwo") == "one  \ntwo"


def test_a_command_in_a_sentence_is_code_that_can_be_copied_and_all_else_is_literal() -> None:
    written = "<b>: run `drafthouse submit --engine a_b`\nor `x"
    assert text.sentence(written) == "\\<b\\>\\: run `drafthouse submit --engine a_b`  \nor \\`x"
    assert text.sentence_html(written) == "&lt;b&gt;: run <code>drafthouse submit --engine a_b</code>\nor `x"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(None, "–"), (0.4, "0 s"), (59.4, "59 s"), (200, "3 min 20 s"), (7500, "2 h 05 min"), (float("inf"), "–")],
)
def test_a_duration_reads_in_the_unit_that_fits_it(seconds: float | None, words: str) -> None:
    assert text.duration(seconds) == words


def test_a_moment_is_given_in_utc() -> None:
    assert text.moment(datetime(2026, 11, 21, 4, 12, 33, tzinfo=UTC)) == "2026-11-21 04:12 UTC"
    assert text.moment(None) == "–"


def test_a_count_agrees_with_its_noun() -> None:
    assert [text.count(1, "run"), text.count(2, "run"), text.count(3, "study", "studies")] == [
        "1 run",
        "2 runs",
        "3 studies",
    ]
