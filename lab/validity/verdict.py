"""Every check in the order in which they are listed, and the verdict on a run or a study: findings, skipped checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab.metrics.measure import Value
from lab.metrics.records import EngineLog, RunRecord, TelemetrySample
from lab.metrics.request_table import RequestTable
from lab.validity.check import Check, Declaration, Finding, Skipped, StudyCheck
from lab.validity.checks import (
    acceptance,
    answers,
    caches,
    claims,
    client,
    comparability,
    contradictions,
    counting,
    machine,
    repeats,
    settings,
    slots,
    steadiness,
    streaming,
    studies,
    warmth,
    workload,
)
from lab.validity.checks.answers import RUN_FAILED
from lab.validity.evidence import Evidence, StudyRun

#: Of one run.
CHECKS: tuple[Check, ...] = (
    *answers.CHECKS,
    *workload.CHECKS,
    *settings.CHECKS,
    *counting.CHECKS,
    *contradictions.CHECKS,
    *streaming.CHECKS,
    *acceptance.CHECKS,
    *warmth.CHECKS,
    *caches.CHECKS,
    *client.CHECKS,
    *machine.CHECKS,
    *steadiness.CHECKS,
)
#: Of several runs together.
STUDY_CHECKS: tuple[StudyCheck, ...] = (
    *studies.CHECKS,
    *repeats.CHECKS,
    *slots.CHECKS,
    *comparability.CHECKS,
    *claims.CHECKS,
)
ALL: tuple[Declaration, ...] = (*CHECKS, *STUDY_CHECKS)


_WORST_FIRST = ("invalid", "warning", "note")


@dataclass(frozen=True)
class Verdict:
    """The result of all checks. Findings are sorted, the gravest first; `skipped` checks lacked data that they need."""

    findings: tuple[Finding, ...]
    skipped: tuple[Skipped, ...]

    @property
    def valid(self) -> bool:
        return not any(finding.severity == "invalid" for finding in self.findings)

    @property
    def why_invalid(self) -> tuple[str, ...]:
        """Return the sentences of the invalid findings; empty for a valid run."""
        return tuple(finding.sentence for finding in self.findings if finding.severity == "invalid")


def judge(
    run: RunRecord,
    requests: RequestTable,
    samples: Sequence[TelemetrySample],
    metrics: Mapping[str, Value],
    log: EngineLog | None = None,
    *,
    unrecorded: frozenset[str] = frozenset(),
    doubts: tuple[str, ...] = (),
) -> Verdict:
    """Judge one run. `metrics` are those of `lab.metrics.measure.measure`; `log` is None if unknown.

    A failed run has no figures to judge, so its failure is the only finding. `unrecorded` and `doubts` are those of
    `Evidence`, for an imported run.
    """
    evidence = Evidence(run, requests, samples, metrics, log, unrecorded, doubts)
    checks = CHECKS if run.status == "completed" else (RUN_FAILED,)
    return _verdict([answer for check in checks if (answer := check.judge(evidence)) is not None])


def judge_study(runs: Sequence[StudyRun], unrecorded: frozenset[str] = frozenset()) -> Verdict:
    """Judge runs that are compared with each other, of one study or of several; failed runs are left out.

    Findings name the runs that they are about, and cover only what a single run cannot show. `unrecorded` names what
    is unknown for at least one of them.
    """
    completed = [study_run for study_run in runs if study_run.run.status == "completed"]
    return _verdict([answer for check in STUDY_CHECKS for answer in check.judge(completed, unrecorded)])


def _verdict(answers: Sequence[Finding | Skipped]) -> Verdict:
    findings = [answer for answer in answers if isinstance(answer, Finding)]
    return Verdict(
        findings=tuple(sorted(findings, key=lambda finding: _WORST_FIRST.index(finding.severity))),
        skipped=tuple(answer for answer in answers if isinstance(answer, Skipped)),
    )
