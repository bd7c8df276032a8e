"""A verdict on a run: valid or not, what was found, and what could not be judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab.metrics.measure import Value
from lab.metrics.records import RequestRecord, RunRecord, TelemetrySample
from lab.validity.catalogue import CHECKS, RUN_FAILED, STUDY_CHECKS
from lab.validity.check import Finding, Skipped
from lab.validity.evidence import Evidence, StudyRun

_WORST_FIRST = ("invalid", "warning", "note")


@dataclass(frozen=True)
class Verdict:
    """What the checks say. Findings are sorted, the gravest first; `skipped` are checks that could not look."""

    findings: tuple[Finding, ...]
    skipped: tuple[Skipped, ...]

    @property
    def valid(self) -> bool:
        return not any(finding.severity == "invalid" for finding in self.findings)

    @property
    def why_invalid(self) -> tuple[str, ...]:
        """The sentences of what makes it invalid; none of a valid one."""
        return tuple(finding.sentence for finding in self.findings if finding.severity == "invalid")


def judge(
    run: RunRecord,
    requests: Sequence[RequestRecord],
    samples: Sequence[TelemetrySample],
    metrics: Mapping[str, Value],
    log: bytes | None = None,
    *,
    unrecorded: frozenset[str] = frozenset(),
    doubts: tuple[str, ...] = (),
) -> Verdict:
    """The verdict on one run. `metrics` are those of `lab.metrics.measure.measure`; `log` is None if unknown.

    A failed run has no figures to judge, so that it failed is all that is said of it. `unrecorded` and `doubts` are
    those of `Evidence`, for a run that was imported.
    """
    evidence = Evidence(run, requests, samples, metrics, log, unrecorded, doubts)
    checks = CHECKS if run.status == "completed" else (RUN_FAILED,)
    return _verdict([answer for check in checks if (answer := check.judge(evidence)) is not None])


def judge_study(runs: Sequence[StudyRun], unrecorded: frozenset[str] = frozenset()) -> Verdict:
    """The verdict on runs that are compared with each other, of one study or not; failed ones are left out.

    Its findings name the runs that they are about. It says nothing that a run alone shows. `unrecorded` names what is
    not known of one of them.
    """
    completed = [each for each in runs if each.run.status == "completed"]
    return _verdict([answer for check in STUDY_CHECKS for answer in check.judge(completed, unrecorded)])


def _verdict(answers: Sequence[Finding | Skipped]) -> Verdict:
    findings = [answer for answer in answers if isinstance(answer, Finding)]
    return Verdict(
        findings=tuple(sorted(findings, key=lambda finding: _WORST_FIRST.index(finding.severity))),
        skipped=tuple(answer for answer in answers if isinstance(answer, Skipped)),
    )
