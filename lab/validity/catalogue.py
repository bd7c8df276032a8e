"""Every check, in the order in which they are listed."""

from __future__ import annotations

from lab.validity.check import Check, Declaration, StudyCheck
from lab.validity.checks import (
    acceptance,
    answers,
    caches,
    claims,
    client,
    comparability,
    counting,
    files,
    machine,
    settings,
    steadiness,
    studies,
    warmth,
    workload,
)
from lab.validity.checks.answers import RUN_FAILED

__all__ = ["ALL", "CHECKS", "RUN_FAILED", "STUDY_CHECKS"]

#: Of one run.
CHECKS: tuple[Check, ...] = (
    *answers.CHECKS,
    *workload.CHECKS,
    *settings.CHECKS,
    *counting.CHECKS,
    *acceptance.CHECKS,
    *warmth.CHECKS,
    *caches.CHECKS,
    *client.CHECKS,
    *machine.CHECKS,
    *steadiness.CHECKS,
    *files.CHECKS,
)
#: Of several runs together.
STUDY_CHECKS: tuple[StudyCheck, ...] = (*studies.CHECKS, *comparability.CHECKS, *claims.CHECKS)
ALL: tuple[Declaration, ...] = (*CHECKS, *STUDY_CHECKS)
