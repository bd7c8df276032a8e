"""A study's report in Markdown, for a pull request or a chat: answer, verdicts, one picture, link and provenance."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from lab.advice.answer import Answer, JudgedPair
from lab.advice.answer_text import interval, label, sentences
from lab.advice.metric_lines import lines
from lab.comparison.effect import Interval
from lab.comparison.verdict import MARKS, Word

#: What Markdown may take for markup within a line or a table's cell.
_MARKUP = re.compile(r"([\\`*_<>\[\]|~#$])")


@dataclass(frozen=True)
class Provenance:
    """Where a study's numbers come from: the valid runs of its jobs.

    `repeats` are the numbers of repeats that cells have, lowest first.
    """

    study: str | None
    target: str | None
    jobs: tuple[str, ...]
    hardware: tuple[str, ...]
    engines: tuple[str, ...]  # with their versions
    began: datetime | None
    last_began: datetime | None  # of the last run
    runs: int
    launches: int
    repeats: tuple[int, ...]
    lost: str = ""  # the runs that are not valid, in words
    standing: str = ""  # when the verdicts were stored


@dataclass(frozen=True)
class Step:
    """An arm against the baseline at one turn or length of context; `length` is the acceptance length, if known."""

    workload: str
    load: str
    at: str
    arm: str
    ratio: Interval
    word: Word
    length: float | None


@dataclass(frozen=True)
class Steps:
    """What changes within a session, or with the length of prompts. `axis`: `turn of the session`, for example.

    `metric` is that of the ratios, in words; `sentences` say where each arm pays.
    """

    axis: str
    metric: str
    rows: tuple[Step, ...]
    sentences: tuple[str, ...] = ()


@dataclass(frozen=True)
class Report:
    """What a report is made of. `picture` is the name of the file with the picture, or None without one."""

    answer: Answer
    provenance: Provenance
    picture: str | None
    link: str
    drafthouse_version: str
    steps: Steps | None = None
    by_metric: tuple[Answer, ...] = ()  # by each metric that decides
    follow_up_s: float | None = None  # the forecast of what to measure next


def markdown(report: Report) -> str:
    """The report as GitHub's Markdown. Names are escaped, so that none of a study or an arm is markup."""
    answer, text = report.answer, sentences(report.answer, report.follow_up_s)
    title = _plain(report.provenance.study or ", ".join(report.provenance.jobs))
    parts = [
        f"## {title}: {_plain(label(answer.metric))} against {_plain(answer.baseline)}",
        "  \n".join(f"**{_plain(line)}**" for line in _first_lines(report, text.headline)),
        "\n".join(f"- {_plain(line)}" for line in (*text.workloads, text.over_all) if line),
        "\n\n".join(_plain(line) for line in (text.reading, text.inconclusive, *text.controls) if line),
        "" if report.picture is None else f"![Ratio to {_plain(answer.baseline)}]({report.picture})",
        _table(answer),
        "" if report.steps is None else _steps(report.steps),
        f"[Open this comparison]({report.link})",
        _provenance(report),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _first_lines(report: Report, headline: str) -> list[str]:
    """Return the line of each metric; that of the report's own metric alone if it is another."""
    found = [line.sentence for line in lines(report.by_metric)]
    return found if headline in found else [headline]


def _table(answer: Answer) -> str:
    """Return a table with a row for each pair, in the order of the choices."""
    if not answer.pairs:
        return ""
    return _lines(("workload", "load", "arm", "ratio [95 %]", "verdict", "from"), map(_row, answer.pairs))


def _steps(steps: Steps) -> str:
    """Return a table of each arm's ratio at each step, in the given order."""
    head = ("workload", "load", steps.axis, "arm", "ratio [95 %]", "verdict", "acceptance length")
    rows = (
        [
            *map(_plain, (step.workload, step.load, step.at, step.arm, interval(step.ratio))),
            f"{MARKS[step.word]} {step.word}",
            "" if step.length is None else f"{step.length:.2f}",
        ]
        for step in steps.rows
    )
    found = "\n".join(f"- {_plain(sentence)}" for sentence in steps.sentences)
    parts = (f"**{_plain(steps.metric)} by {_plain(steps.axis)}**", found, _lines(head, rows))
    return "\n\n".join(part for part in parts if part)


def _lines(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join([_line(head), _line(["---"] * len(head)), *map(_line, rows)])


def _row(pair: JudgedPair) -> list[str]:
    needed = f" (about {pair.verdict.would_decide})" if pair.verdict.would_decide else ""
    verdict = f"{MARKS[pair.verdict.word]} {pair.verdict.word}{needed}"
    columns = (pair.workload, pair.load, pair.arm, interval(pair.ratio))
    alone = pair.alone_sentence
    return [*map(_plain, columns), f"{verdict}; {_plain(alone)}" if alone else verdict, pair.comparison.basis]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _provenance(report: Report) -> str:
    provenance = report.provenance
    repeats = " to ".join(str(number) for number in dict.fromkeys((*provenance.repeats[:1], *provenance.repeats[-1:])))
    parts = [
        f"study {provenance.study}" if provenance.study else "",
        f"job{'s' * (len(provenance.jobs) > 1)} {', '.join(provenance.jobs)}",
        f"target {provenance.target}" if provenance.target else "",
        _dates(provenance),
        f"on {', '.join(provenance.hardware)}" if provenance.hardware else "",
        ", ".join(provenance.engines),
        f"{provenance.runs} valid run{'s' * (provenance.runs != 1)}{_starts(provenance.launches)}",
        f"besides {provenance.lost}" if provenance.lost else "",
        f"{repeats} repeat{'s' * (repeats != '1')} a cell" if repeats else "",
        "strict reading (Holm)" if report.answer.strict else "usual reading (Benjamini-Hochberg)",
        provenance.standing,
        f"Drafthouse {report.drafthouse_version}",
    ]
    return f"<sub>{_plain(' · '.join(part for part in parts if part))}</sub>"


def _starts(launches: int) -> str:
    """Return ` on 3 engine starts`; empty if the number is unknown, as for imported runs."""
    return f" on {launches} engine start{'s' * (launches != 1)}" if launches else ""


def _dates(provenance: Provenance) -> str:
    """Return `measured 2026-11-22 14:17 to 14:21 UTC`; the second date is named if it differs."""
    if provenance.began is None or provenance.last_began is None:
        return ""
    began, last = (_utc(moment) for moment in (provenance.began, provenance.last_began))
    until = f" to {last:%H:%M}" if last.date() == began.date() else f" to {last:%Y-%m-%d %H:%M}"
    return f"measured {began:%Y-%m-%d %H:%M}{until if last - began >= timedelta(minutes=1) else ''} UTC"


def _utc(moment: datetime) -> datetime:
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)


def _plain(text: str) -> str:
    """Escape the text, on one line, so that Markdown shows it as written; an interval in brackets needs no escape."""
    line = _MARKUP.sub(r"\\\1", " ".join(text.split()))
    return re.sub(r"\\\[([\d., ]+)\\\]", r"[\1]", line)
