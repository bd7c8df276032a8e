"""`drafthouse plan` and `drafthouse presets`: what can be measured, and what it takes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from cli.arguments import AsJson, AsReference, StudyName
from cli.named_study import named_study
from cli.output import print_json, print_table
from jobs.forecast import forecast_study
from jobs.presets import all_presets
from lab.study import Study
from warehouse.settings import Settings, load_settings


def presets(*, as_json: AsJson = False) -> None:
    """List the published experiments that can be submitted by name."""
    found = all_presets()
    if as_json:
        studies = ({"study": each.study.model_dump(mode="json")} for each in found)
        print_json([asdict(each) | study for each, study in zip(found, studies, strict=True)])
    else:
        print_table(("preset", "question"), [(each.name, each.title) for each in found])


def plan(study: StudyName, *, reference: AsReference = False, as_json: AsJson = False) -> None:
    """Show what a study needs: engine starts, runs, requests, and time."""
    planned = _plan_as_dict(load_settings(), named_study(study, reference=reference))
    if as_json:
        print_json(planned)
        return
    minutes = planned["estimated_s"] / 60
    print(
        f"{planned['study']}: {planned['launches']} engine starts, {planned['runs']} runs, "
        f"{planned['requests']:,} requests"
    )
    print(f"about {minutes:,.0f} minutes ({planned['estimated_by']})")


def _plan_as_dict(settings: Settings, study: Study) -> dict[str, Any]:
    estimate = forecast_study(settings, study)
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
    }
