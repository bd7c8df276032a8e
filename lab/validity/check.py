"""What a check is: a declaration that people read, and a pure function over what a run left behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from lab.validity.evidence import Evidence, StudyRun

#: An invalid run stays stored and is left out of charts; a warning stands beside its figures; a note explains them.
Severity = Literal["invalid", "warning", "note"]


@dataclass(frozen=True)
class Finding:
    """A check that fired: the sentence has the run's own figures. `run_ids` are those that a study's check is about."""

    check: str
    severity: Severity
    sentence: str
    advice: str
    run_ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class Unjudged:
    """A check that could not look, because something it needs is unknown. That is not the same as passing."""

    check: str
    missing: str


@dataclass(frozen=True)
class Fired:
    """What a check saw; without a severity of its own it has that of the check."""

    sentence: str
    severity: Severity | None = None
    run_ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class Missing:
    """What is unknown, as a noun."""

    what: str


#: None where there is nothing to say, also where the check has no meaning (no GPU, no speculation).
Answer = Fired | Missing | None


@dataclass(frozen=True)
class Declaration:
    """What is said of every check.

    `traps` are numbers of docs/checks.md. `severity` is the worst it can give. `looks_at` names fields of RunRecord,
    RequestRecord or TelemetrySample, metrics, or "log".
    """

    name: str
    traps: tuple[int, ...]
    severity: Severity
    looks_at: tuple[str, ...]
    threshold: str
    why: str
    advice: str

    def finding(self, fired: Fired) -> Finding:
        return Finding(self.name, fired.severity or self.severity, fired.sentence, self.advice, fired.run_ids)


@dataclass(frozen=True)
class Check(Declaration):
    """A check of one run."""

    look: Callable[[Evidence], Answer]

    def judge(self, evidence: Evidence) -> Finding | Unjudged | None:
        answer = self.look(evidence)
        if isinstance(answer, Missing):
            return Unjudged(self.name, answer.what)
        return None if answer is None else self.finding(answer)


@dataclass(frozen=True)
class StudyCheck(Declaration):
    """A check of the completed runs of a study, together."""

    look: Callable[[Sequence[StudyRun]], Sequence[Fired | Missing]]

    def judge(self, runs: Sequence[StudyRun]) -> list[Finding | Unjudged]:
        return [
            Unjudged(self.name, answer.what) if isinstance(answer, Missing) else self.finding(answer)
            for answer in self.look(runs)
        ]
