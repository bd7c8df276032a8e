"""Whether a run can be believed: declared checks, and a verdict with the run's own figures."""

from lab.validity.catalogue import ALL, CHECKS, STUDY_CHECKS
from lab.validity.check import Check, Finding, Severity, StudyCheck, Unjudged
from lab.validity.evidence import StudyRun
from lab.validity.verdict import Verdict, judge, judge_study

__all__ = [
    "ALL",
    "CHECKS",
    "STUDY_CHECKS",
    "Check",
    "Finding",
    "Severity",
    "StudyCheck",
    "StudyRun",
    "Unjudged",
    "Verdict",
    "judge",
    "judge_study",
]
