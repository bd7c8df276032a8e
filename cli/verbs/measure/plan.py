"""`drafthouse plan` and `drafthouse presets`: the available experiments, and the time that a study takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from cli.arguments import AsJson, AsReference, OnEngine, StudyName
from cli.lab import the_lab
from cli.named_study import named_study
from cli.output import print_json, print_table, print_text
from jobs.presets import all_presets
from lab.study import Study


def presets(*, as_json: AsJson = False) -> None:
    """List the published experiments that can be submitted by name."""
    every = all_presets()
    if as_json:
        studies = ({"study": preset.study.model_dump(mode="json")} for preset in every)
        print_json([asdict(preset) | study for preset, study in zip(every, studies, strict=True)])
    else:
        print_table(("preset", "question"), [(preset.name, preset.title) for preset in every])


def plan(study: StudyName, *, reference: AsReference = False, engine: OnEngine = None, as_json: AsJson = False) -> None:
    """Show what a study needs: engine starts, runs, requests, time, problems to fix, and what will stay unknown."""
    named = named_study(study, reference=reference, engine=engine)
    planned = the_lab(ready=False).plan(named)
    if as_json:
        print_json(planned)
    else:
        _print_plan(named, planned)


def _print_plan(named: Study, planned: Mapping[str, Any]) -> None:
    minutes = planned["estimated_s"] / 60
    about = "" if named.tune is None else "about "
    print_text(
        f"{planned['study']}: {about}{planned['launches']} engine starts, {planned['runs']} runs, "
        f"{planned['requests']:,} requests"
    )
    print_text(f"about {minutes:,.0f} minutes ({planned['estimated_by']})")
    if planned["verdicts"] is not None:
        print_text("\n".join(line for line in (planned["verdicts"]["sentence"], planned["verdicts"]["advice"]) if line))
    for sentence in planned.get("advice", ()):
        print_text(f"note: {sentence}")
    if planned["problems"]:
        print_text("to be fixed before it can be submitted:")
        _print_fields(planned["problems"])
    if planned.get("unknown"):  # a lab of an older release does not say
        print_text("what will stay unknown:")
        _print_fields(planned["unknown"])


def _print_fields(named: Sequence[Mapping[str, str]]) -> None:
    print_text("\n".join(f"  {each['field']}: {each['sentence']}" for each in named))
