"""What the command prints on a terminal."""

from __future__ import annotations

import pytest

from cli.output import folded, print_table, print_text


def test_a_table_wider_than_the_terminal_becomes_paragraphs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    columns, row = (
        ("arm", "verdict", "ratio", "workload", "load", "from"),
        ("draft", "faster", 1.5, "code", None, "x" * 9),
    )
    print_table(columns, [row])
    assert len(capsys.readouterr().out.splitlines()) == 2  # a file has no width
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    print_table(columns, [row])
    printed = capsys.readouterr().out.splitlines()
    assert max(map(len, printed)) <= 40 + len("\x1b[1m\x1b[0m")
    assert printed[1:] == ["  verdict faster; ratio 1.5; workload", "  code; from xxxxxxxxx"]


def test_sentences_are_folded_between_words_on_a_terminal_only(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = "one two three four\n\n  five sixteen-seventeen eight\nhttp://a.b/a-long-link"
    lines = ["one two", "three four", "", "  five", "  sixteen-seventeen", "  eight", "http://a.b/a-long-link"]
    assert folded(text, 12).split("\n") == lines
    print_text(text)
    assert capsys.readouterr().out == f"{text}\n"
