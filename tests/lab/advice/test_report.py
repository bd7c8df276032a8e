"""The report in Markdown: its dates, its repeats, and names that look like markup."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from lab.advice.answer import answer
from lab.advice.report import Provenance, Report, Step, Steps, markdown
from lab.comparison.effect import Interval
from tests.lab.advice.judged_pairs import judged

MORNING, NOON = datetime(2026, 11, 22, 9, 5, tzinfo=UTC), datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
FROM = Provenance("demo", "reference", ("job-1",), ("AMD EPYC",), ("vllm 0.32.0",), MORNING, NOON, 36, 6, (2,))


def report_text(provenance: Provenance = FROM, arm: str = "draft", picture: str | None = None) -> str:
    answered = answer([judged(arm, 1, "faster")], metric="output_tok_per_s", baseline="no draft")
    return markdown(Report(answered, provenance, picture, "http://127.0.0.1:8501/compare?job=job-1", "0.1.0"))


@pytest.mark.parametrize(
    ("provenance", "expected"),
    [
        (FROM, "measured 2026-11-22 09:05 to 12:00 UTC · on AMD EPYC · vllm 0.32.0 · 36 valid runs on 6 engine starts"),
        (replace(FROM, last_began=datetime(2026, 11, 23, 1, 0, tzinfo=UTC)), "09:05 to 2026-11-23 01:00 UTC"),
        (
            replace(FROM, last_began=MORNING, launches=1),
            "09:05 UTC · on AMD EPYC · vllm 0.32.0 · 36 valid runs on 1 engine start ·",
        ),
        (replace(FROM, launches=0, runs=1), " · 1 valid run · "),
        (
            replace(FROM, lost="1 failed, 2 invalid"),
            " · 36 valid runs on 6 engine starts · besides 1 failed, 2 invalid ·",
        ),
        (replace(FROM, repeats=(1,)), " · 1 repeat a cell · "),
        (replace(FROM, repeats=(2, 3, 5)), " · 2 to 5 repeats a cell · "),
        (replace(FROM, jobs=("a", "b")), " · jobs a, b · "),
        (
            replace(FROM, began=None, last_began=None, hardware=(), target=None),
            "job job-1 · vllm 0.32.0 · 36 valid runs",
        ),
    ],
)
def test_the_last_line_says_where_the_numbers_come_from(provenance: Provenance, expected: str) -> None:
    assert expected in report_text(provenance).splitlines()[-1]


def test_names_write_no_markup_and_intervals_stay_readable() -> None:
    text = report_text(replace(FROM, study="a *b* [c](d)\n# e"), arm="x|y <b>")
    assert text.startswith(r"## a \*b\* \[c\](d) \# e: output throughput against no draft")
    assert r"| code | c1 | x\|y \<b\> | 1.40× [1.30, 1.50] | ▲ faster | 3 repeats |" in text.splitlines()


def test_a_picture_is_referred_to_only_where_there_is_one() -> None:
    assert "![Ratio to no draft](report.png)" in report_text(picture="report.png")
    assert "![" not in report_text()


def test_what_changes_within_a_session_is_a_table_of_its_own() -> None:
    rows = (
        Step("chat|s", "c1", "1", "draft", Interval(0.9, 0.8, 1.0), "faster", 2.125),
        Step("chat|s", "c1", "9–16", "draft", Interval(1.2, 1.1, 1.3), "slower", None),
    )
    steps = Steps("turn of the session", "Time per output token mean", rows, ("draft: pays up to 8",))
    answered = answer([judged("draft", 1, "faster")], metric="output_tok_per_s", baseline="no draft")
    lines = markdown(Report(answered, FROM, None, "http://h/c", "0.1.0", steps)).splitlines()
    began = lines.index("**Time per output token mean by turn of the session**")
    assert lines[began + 2 : began + 8] == [
        "- draft: pays up to 8",
        "",
        "| workload | load | turn of the session | arm | ratio [95 %] | verdict | acceptance length |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        r"| chat\|s | c1 | 1 | draft | 0.90× [0.80, 1.00] | ▲ faster | 2.12 |",
        r"| chat\|s | c1 | 9–16 | draft | 1.20× [1.10, 1.30] | ▼ slower |  |",
    ]


def test_the_last_line_is_whole() -> None:
    assert report_text().splitlines()[-1] == (
        "<sub>study demo · job job-1 · target reference · measured 2026-11-22 09:05 to 12:00 UTC · on AMD EPYC · "
        "vllm 0.32.0 · 36 valid runs on 6 engine starts · 2 repeats a cell · usual reading (Benjamini-Hochberg) · "
        "Drafthouse 0.1.0</sub>"
    )


def test_a_report_is_whole() -> None:
    pairs = [
        judged("draft", 1, "faster"),
        judged("head", 1, "inconclusive", (1.1, 0.9, 1.3), more=1),
        judged("look-up", 1, "slower", (0.8, 0.7, 0.9)),
        judged("draft", 4, "inconclusive", (1.05, 0.9, 1.2), more=4, workload="prose"),
        judged("head", 4, "no difference", (1.0, 0.99, 1.01), workload="prose"),
    ]
    answered = answer(pairs, metric="output_tok_per_s", baseline="no draft", strict=True)
    text = markdown(Report(answered, replace(FROM, study=None, jobs=("a", "b")), "p.png", "http://host/c", "0.1.0"))
    assert (
        text
        == """\
## a, b: output throughput against no draft

**Throughput at concurrency 1: 40 % higher (strict 95 % CI 30 to 50 %), draft on code. 1 of 5 comparisons better, 1 \
worse, 1 no different, 2 inconclusive.**

- On code: enable draft at concurrency 1: 1.40× [1.30, 1.50] (head is inconclusive there).
- On prose: inconclusive at concurrency 4.

Verdicts are strict: with 95 % confidence no call by a metric is false (Holm).

2 of 5 comparisons are inconclusive. A follow-up of 7 repeats would decide both if ratios and scatter stay as they are.

![Ratio to no draft](p.png)

| workload | load | arm | ratio [95 %] | verdict | from |
| --- | --- | --- | --- | --- | --- |
| code | c1 | draft | 1.40× [1.30, 1.50] | ▲ faster | 3 repeats |
| code | c1 | look-up | 0.80× [0.70, 0.90] | ▼ slower | 3 repeats |
| code | c1 | head | 1.10× [0.90, 1.30] | ? inconclusive (about 1 more repeat) | 3 repeats |
| prose | c4 | head | 1.00× [0.99, 1.01] | = no difference | 3 repeats |
| prose | c4 | draft | 1.05× [0.90, 1.20] | ? inconclusive (about 4 more repeats) | 3 repeats |

[Open this comparison](http://host/c)

<sub>jobs a, b · target reference · measured 2026-11-22 09:05 to 12:00 UTC · on AMD EPYC · vllm 0.32.0 · 36 valid runs \
on 6 engine starts · 2 repeats a cell · strict reading (Holm) · Drafthouse 0.1.0</sub>
"""
    )
