"""Studies as a person names them on the command line, and what they would ask of this machine."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cli.output import print_json, print_table
from jobs.forecast import forecast_study
from jobs.presets import all_presets, load_preset, preset_names
from lab.errors import UserError
from lab.study import Study
from lab.study.parsing import study_from_json, study_from_toml
from lab.study.reference_pair import reference_version
from warehouse.settings import Settings


def named_study(name: str, *, reference: bool = False) -> Study:
    """A preset's name, the path of a TOML or JSON file, or - for TOML on standard input.

    Raises UserError for what is none of them, or no study.
    """
    if name in preset_names() and not Path(name).is_file():
        return load_preset(name, reference=reference)
    study = _read(name)
    return reference_version(study) if reference else study


def _read(name: str) -> Study:
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{name} is neither a file nor a preset; the presets are {', '.join(preset_names())}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{name} cannot be read as a study: {error}") from None
    return study_from_json(text) if name.endswith(".json") else study_from_toml(text)


def show_presets(*, as_json: bool) -> None:
    found = all_presets()
    if as_json:
        shown = ((each, {"study": each.study.model_dump(mode="json")}) for each in found)
        print_json([asdict(each) | study for each, study in shown])
    else:
        print_table(("preset", "asks"), [(each.name, each.title) for each in found])


def show_plan(settings: Settings, study: Study, *, as_json: bool) -> None:
    planned = plan_as_dict(settings, study)
    if as_json:
        print_json(planned)
        return
    minutes = planned["estimated_s"] / 60
    print(
        f"{study.name}: {planned['launches']} engine starts, {planned['runs']} runs, {planned['requests']:,} requests"
    )
    print(f"about {minutes:,.0f} minutes ({planned['estimated_by']})")


def plan_as_dict(settings: Settings, study: Study) -> dict[str, Any]:
    """What a program may want to know before it submits the study."""
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
