"""`drafthouse plan` and `drafthouse presets`: what can be measured, and what it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cli.arguments import AsJson, AsReference, StudyName
from cli.named_study import named_study
from cli.output import print_json, print_table
from jobs.forecast import forecast_study, forecast_verdicts
from jobs.presets import all_presets
from lab.estimate import Estimate
from lab.study import Study
from warehouse.settings import load_settings

if TYPE_CHECKING:
    from lab.planning.prospects import Prospects


def presets(*, as_json: AsJson = False) -> None:
    """List the published experiments that can be submitted by name."""
    every = all_presets()
    if as_json:
        studies = ({"study": preset.study.model_dump(mode="json")} for preset in every)
        print_json([asdict(preset) | study for preset, study in zip(every, studies, strict=True)])
    else:
        print_table(("preset", "question"), [(preset.name, preset.title) for preset in every])


def plan(study: StudyName, *, reference: AsReference = False, as_json: AsJson = False) -> None:
    """Show what a study needs: engine starts, runs, requests, time, and the models and datasets it lacks."""
    from jobs.submission import missing_here  # noqa: PLC0415 - a list of presets needs no engine and no dataset

    settings, named = load_settings(), named_study(study, reference=reference)
    home = (settings.warehouse_file, settings.models_dir)
    forecast = forecast_study(*home, named, workers_elsewhere=settings.workers_elsewhere)
    planned = _plan_as_dict(named, forecast, forecast_verdicts(*home, named))
    planned["missing"] = [{"field": field, "problem": problem} for field, problem in missing_here(settings, named)]
    if as_json:
        print_json(planned)
    else:
        _print_plan(named, planned)


def _print_plan(named: Study, planned: Mapping[str, Any]) -> None:
    minutes = planned["estimated_s"] / 60
    about = "" if named.tune is None else "about "
    print(
        f"{planned['study']}: {about}{planned['launches']} engine starts, {planned['runs']} runs, "
        f"{planned['requests']:,} requests"
    )
    print(f"about {minutes:,.0f} minutes ({planned['estimated_by']})")
    if planned["verdicts"] is not None:
        print("\n".join(line for line in (planned["verdicts"]["sentence"], planned["verdicts"]["advice"]) if line))
    if planned["missing"]:
        print("missing here, to be fixed before it can be submitted:")
        print("\n".join(f"  {missing['field']}: {missing['problem']}" for missing in planned["missing"]))


def _plan_as_dict(study: Study, estimate: Estimate, prospects: Prospects | None) -> dict[str, Any]:
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
        "estimated_s": round(estimate.seconds, 1),
        "estimated_by": estimate.basis,
        "launches_from_history": estimate.launches_from_history,
        "runs_from_history": estimate.runs_from_history,
        "verdicts": None if prospects is None else _verdicts_as_dict(prospects),
    }


def _verdicts_as_dict(prospects: Prospects) -> dict[str, Any]:
    plans = {"as_is": prospects.as_is, "one_more_start": prospects.one_more, "best": prospects.best}
    return {
        "cells": prospects.cells,
        **{name: None if prospect is None else asdict(prospect) for name, prospect in plans.items()},
        "sentence": f"{prospects.sentence}, {prospects.basis}",
        "advice": prospects.advice,
    }
