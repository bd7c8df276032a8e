"""Validity of runs: declared checks, and a verdict with the run's own figures."""

from lab.validity.check import Check, Finding, Severity, Skipped, StudyCheck
from lab.validity.evidence import StudyRun
from lab.validity.verdict import ALL, CHECKS, STUDY_CHECKS, Verdict, judge, judge_study

__all__ = [
    "ALL",
    "CHECKS",
    "STUDY_CHECKS",
    "Check",
    "Finding",
    "Severity",
    "Skipped",
    "StudyCheck",
    "StudyRun",
    "Verdict",
    "judge",
    "judge_study",
]
