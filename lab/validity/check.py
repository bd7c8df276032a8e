"""What a check is: a declaration that people read, and a pure function over what a run left behind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
class Skipped:
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

    def hidden(self, needs: Sequence[str] | None, unrecorded: Iterable[str]) -> Skipped | None:
        """That it cannot look where something it needs (by default all it looks at) was not recorded: a file of
        another tool tells less of a run than a measurement. Names go with their parts: load is load.max_concurrency.
        """
        unknown = tuple(unrecorded)
        for name in needs or self.looks_at:
            if any(_same_or_part(name, other) or _same_or_part(other, name) for other in unknown):
                return Skipped(self.name, f"{name}: not recorded")
        return None

    def finding(self, fired: Fired) -> Finding:
        return Finding(self.name, fired.severity or self.severity, fired.sentence, self.advice, fired.run_ids)


def _same_or_part(name: str, whole: str) -> bool:
    return name == whole or name.startswith(f"{whole}.")


@dataclass(frozen=True)
class Check(Declaration):
    """A check of one run. `needs` are those of `looks_at` without which it cannot look; None: all of them."""

    look: Callable[[Evidence], Answer]
    needs: tuple[str, ...] | None = None

    def judge(self, evidence: Evidence) -> Finding | Skipped | None:
        if (hidden := self.hidden(self.needs, evidence.unrecorded)) is not None:
            return hidden
        answer = self.look(evidence)
        if isinstance(answer, Missing):
            return Skipped(self.name, answer.what)
        return None if answer is None else self.finding(answer)


@dataclass(frozen=True)
class StudyCheck(Declaration):
    """A check of the completed runs of a study, together. `needs` as of a `Check`."""

    look: Callable[[Sequence[StudyRun]], Sequence[Fired | Missing]]
    needs: tuple[str, ...] | None = None

    def judge(self, runs: Sequence[StudyRun], unrecorded: Iterable[str] = ()) -> list[Finding | Skipped]:
        if (hidden := self.hidden(self.needs, unrecorded)) is not None:
            return [hidden]
        return [
            Skipped(self.name, answer.what) if isinstance(answer, Missing) else self.finding(answer)
            for answer in self.look(runs)
        ]
