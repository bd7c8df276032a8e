"""A check: a declaration for people to read, and a pure function over the evidence of a run."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from lab.validity.evidence import Evidence, StudyRun

#: An invalid run is stored but left out of charts; a warning is shown beside its figures; a note explains them.
Severity = Literal["invalid", "warning", "note"]


@dataclass(frozen=True)
class Finding:
    """A check that fired; its sentence has the run's own figures. `run_ids`: those of a study's finding."""

    check: str
    severity: Severity
    sentence: str
    advice: str
    run_ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class Skipped:
    """A check that was skipped because something it needs is unknown. That is not the same as passing."""

    check: str
    missing: str


@dataclass(frozen=True)
class Fired:
    """The result of a check that fires; without a severity it has that of the check."""

    sentence: str
    severity: Severity | None = None
    run_ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class Missing:
    """The result of a check that could not be made: what is unknown, as a noun phrase."""

    what: str


#: None if the check passes or does not apply (no GPU, no speculation).
Answer = Fired | Missing | None
#: Of a check of a study.
Answers = Iterable[Fired | Missing]


@dataclass(frozen=True)
class Declaration:
    """The declaration of a check.

    `traps` are numbers in docs/checks.md. `severity` is the worst it can give. `looks_at` names fields of RunRecord,
    RequestRecord or TelemetrySample, metrics, or "log".
    """

    name: str
    traps: tuple[int, ...]
    severity: Severity
    looks_at: tuple[str, ...]
    threshold: str
    why: str
    advice: str

    def skip(self, needs: Sequence[str] | None, unrecorded: Iterable[str]) -> Skipped | None:
        """Skip the check if something it needs (by default all it looks at) was not recorded.

        Files of other tools record less than Drafthouse measures. A name covers its parts: load covers
        load.max_concurrency.
        """
        if not (unknown := frozenset(unrecorded)):
            return None
        partly_unknown = _with_wholes_of_all(unknown)
        for name in needs or self.looks_at:
            if name in partly_unknown or not unknown.isdisjoint(_with_wholes(name)):
                return Skipped(self.name, f"{name}: not recorded")
        return None

    def finding(self, fired: Fired) -> Finding:
        return Finding(self.name, fired.severity or self.severity, fired.sentence, self.advice, fired.run_ids)


@functools.cache
def _with_wholes(name: str) -> frozenset[str]:
    """Return the name and every whole that it is a part of: load.max_concurrency and load."""
    parts = name.split(".")
    return frozenset(".".join(parts[:count]) for count in range(1, len(parts) + 1))


@functools.lru_cache(256)  # every check has the same few sets, one for each kind of file
def _with_wholes_of_all(names: frozenset[str]) -> frozenset[str]:
    return frozenset().union(*map(_with_wholes, names))


@dataclass(frozen=True)
class Check(Declaration):
    """A check of one run. `needs` is the part of `looks_at` that it cannot do without; None: all of it."""

    rule: Callable[[Evidence], Answer]
    needs: tuple[str, ...] | None = None

    def judge(self, evidence: Evidence) -> Finding | Skipped | None:
        if (skipped := self.skip(self.needs, evidence.unrecorded)) is not None:
            return skipped
        answer = self.rule(evidence)
        if isinstance(answer, Missing):
            return Skipped(self.name, answer.what)
        return None if answer is None else self.finding(answer)


@dataclass(frozen=True)
class StudyCheck(Declaration):
    """A check of the completed runs of a study together. `needs` as for a `Check`."""

    rule: Callable[[Sequence[StudyRun]], Answers]
    needs: tuple[str, ...] | None = None

    def judge(self, runs: Sequence[StudyRun], unrecorded: Iterable[str] = ()) -> list[Finding | Skipped]:
        if (skipped := self.skip(self.needs, unrecorded)) is not None:
            return [skipped]
        return [
            Skipped(self.name, answer.what) if isinstance(answer, Missing) else self.finding(answer)
            for answer in self.rule(runs)
        ]
