"""What a study takes, as a JSON document: the same from the command and from the API."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from host.settings import Settings
from jobs.forecast import forecast_study, forecast_verdicts
from jobs.submission import missing_here
from lab.estimate import Estimate
from lab.study import Study

if TYPE_CHECKING:
    from lab.planning.prospects import Prospects


def plan_document(settings: Settings, study: Study, *, look: bool = True) -> dict[str, Any]:
    """Engine starts, runs, requests, time, the verdicts to expect, and what is missing for it on this host.

    Without `look`, its models and datasets are not looked for.
    """
    planned = _planned(study, forecast_study(settings, study), forecast_verdicts(settings, study))
    missing = missing_here(settings, study) if look else []
    planned["missing"] = [{"field": field, "problem": problem} for field, problem in missing]
    return planned


def _planned(study: Study, estimate: Estimate, prospects: Prospects | None) -> dict[str, Any]:
    return {
        "study": study.name,
        "target": study.target,
        "arms": [arm.name for arm in study.arms],
        "workloads": [workload.name for workload in study.workloads],
        "loads": [load.name for load in study.loads],
        "repeats": study.repeats,
        "launches": estimate.launches,
        "runs": estimate.runs,
        "requests": estimate.requests,
        "estimated_s": round(estimate.wall_s, 1),
        "estimated_by": estimate.basis,
        "launches_from_history": estimate.launches_from_history,
        "runs_from_history": estimate.runs_from_history,
        "verdicts": None if prospects is None else _verdicts(prospects),
    }


def _verdicts(prospects: Prospects) -> dict[str, Any]:
    plans = {"as_is": prospects.as_is, "one_more_start": prospects.one_more, "best": prospects.best}
    return {
        "cells": prospects.cells,
        **{name: None if prospect is None else asdict(prospect) for name, prospect in plans.items()},
        "sentence": f"{prospects.sentence}, {prospects.basis}",
        "advice": prospects.advice,
    }
