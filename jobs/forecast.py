"""How long a study will take and how much it will decide, from past runs on the same hardware."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from host.settings import Settings
from jobs.engines.hardware import hardware_name, nvidia_gpus
from jobs.engines.models import local_folder
from jobs.known_models import advice
from jobs.table import get_job
from lab.errors import UserError
from lab.estimate import OF_ANOTHER_MODEL, WITH_GPU, WITHOUT_GPU, Estimate, History, LengthOf, PastRuns, estimate
from lab.study import Study
from lab.study.plan import blocks, plan
from lab.study.reference_pair import TARGET
from lab.study.session_length import session_length
from warehouse.app_db.engine import reading
from warehouse.queries.connect import open_warehouse
from warehouse.queries.point_in_time import seen_as_of

if TYPE_CHECKING:
    from lab.advice.answer import Answer
    from lab.planning.components import Components
    from lab.planning.prospects import Prospects, Size

_Publication = tuple[int, int, int, datetime | None]
#: The metric whose verdicts are forecast.
_METRIC = "output_tok_per_s"
#: How many publications are cached: the newest, and points in time that visitors chose.
_REMEMBERED_PUBLICATIONS = 4


def forecast_study(settings: Settings, study: Study) -> Estimate:
    """Estimate how long the study takes on this host (or on the hardware it names), from the published runs.

    With `workers_elsewhere` in the settings workers may have a GPU that this host lacks. Every host is taken to have as
    many slots as the settings state.
    """
    past = _history(settings.warehouse_file, study.target, study.hardware)
    models_dir = settings.models_dir
    here = study.hardware is None or study.hardware.casefold() in hardware_name().casefold()
    on_gpu = bool(nvidia_gpus()) or settings.workers_elsewhere if here else True
    small = study.target == TARGET and study.hardware is None
    is_reference = local_folder(models_dir, study.target) == local_folder(models_dir, TARGET)
    assumed = WITH_GPU if on_gpu and not small else WITHOUT_GPU if is_reference else OF_ANOTHER_MODEL
    length_of = _length_of(settings, study)
    forecast = estimate(plan(study), past, assumed, hardware=study.hardware or hardware_name(), length_of=length_of)
    if study.budget_s is not None:
        forecast = forecast.within(study.budget_s, study.repeats)
    return forecast.shared(blocks=len(blocks(study)), slots=settings.slots) if study.spread else forecast


def _length_of(settings: Settings, study: Study) -> LengthOf:
    """Return a function from a workload to the length of its sessions; each dataset is read once."""
    if all(workload.sessions is None for workload in study.workloads):
        return session_length
    from jobs.datasets.loader import known_session_length  # noqa: PLC0415 - loads readers that few studies need

    known = {workload.name: known_session_length(settings, workload) for workload in study.workloads}
    return lambda workload: known[workload.name]


def forecast_verdicts(settings: Settings, study: Study) -> Prospects | None:
    """Forecast how many cells the study will decide on this host, or on the hardware it names.

    None if there is nothing to compare, if the study tunes or measures until decided, so that its cells depend on what
    it finds, or if too few cells were measured there with several engine starts to estimate the scatter. The
    target's own ratios are preferred to other targets', with which it is called rough.
    """
    if study.tune is not None or study.until_decided or not settings.warehouse_file.exists():
        return None
    from lab.planning.prospects import prospects  # noqa: PLC0415 - imports SciPy, which takes a while

    hardware, whole = (hardware_name(), True) if study.hardware is None else (study.hardware, False)
    publication = _publication_of(settings.warehouse_file)
    past = functools.partial(_past_components, settings.warehouse_file, publication, hardware, whole=whole)
    components, seconds = past(study.target), _seconds_of(settings, study)
    if components is None and (others := past(None)) is not None:
        return prospects(study, others, seconds, of_other_targets=True)
    return None if components is None else prospects(study, components, seconds)


@functools.lru_cache(_REMEMBERED_PUBLICATIONS)
def _past_components(
    warehouse_file: Path, _publication: _Publication, hardware: str, target: str | None, *, whole: bool
) -> Components | None:
    """Return the past scatter of ratios on the hardware, of the target, or of any for None.

    Read once per publication: the form forecasts the study after each edit.
    """
    from warehouse.queries.comparing.past_ratios import past_components  # noqa: PLC0415 - imports SciPy

    with open_warehouse(warehouse_file) as connection:
        return past_components(connection, _METRIC, target=target, hardware=hardware, whole=whole)


def _seconds_of(settings: Settings, study: Study) -> Callable[[Size], float]:
    """Return a function from a study's size to its estimated seconds, based on one repeat."""
    single = study.model_copy(update={"repeats": 1, "order": "interleaved"})
    estimate = forecast_study(settings, single)
    return lambda size: (
        size.starts
        * (estimate.starts_s + size.runs_per_start * size.prompts_factor * (estimate.seconds - estimate.starts_s))
    )


def plan_document(
    settings: Settings, study: Study, problems: Sequence[tuple[str, str]], unknown: Sequence[tuple[str, str]] = ()
) -> dict[str, Any]:
    """Return a study's plan as a JSON document: engine starts, runs, requests, time, the verdicts to expect,
    advice about its target, the problems for which it would be refused, and what will stay `unknown` in its results.
    """
    estimate, prospects = forecast_study(settings, study), forecast_verdicts(settings, study)
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
        "advice": [] if settings.workers_elsewhere else advice(study),
        "problems": [{"field": field, "sentence": sentence} for field, sentence in problems],
        "unknown": [{"field": field, "sentence": sentence} for field, sentence in unknown],
    }


def _verdicts(prospects: Prospects) -> dict[str, Any]:
    plans = {"as_is": prospects.as_is, "one_more_start": prospects.one_more, "best": prospects.best}
    return {
        "cells": prospects.cells,
        **{name: None if prospect is None else asdict(prospect) for name, prospect in plans.items()},
        "sentence": f"{prospects.sentence}, {prospects.basis}",
        "advice": prospects.advice,
    }


def follow_up_seconds(settings: Settings, database: sa.Engine, job_id: str, answer: Answer) -> float | None:
    """Estimate how long the follow-up of a job takes here; None without one, or if this host's queue does not know the
    job.
    """
    from lab.advice.next_study import next_study  # noqa: PLC0415 - imports SciPy, which takes a while

    try:
        with reading(database).connect() as connection:
            study = get_job(connection, job_id).study
    except UserError:
        return None
    proposed = next_study(study, answer)
    return None if proposed is None else forecast_study(settings, proposed).wall_s


def _history(warehouse_file: Path, target: str, hardware: str | None) -> History:
    """Return past times of the target's runs on hardware with `hardware` in its name, by default this host's own.

    Empty before the first publication. Raises UserError for a warehouse of another revision.
    """
    try:
        publication = _publication_of(warehouse_file)
    except FileNotFoundError:
        return History()
    wanted = (hardware or hardware_name()).casefold()
    return History(
        [
            runs
            for run_hardware, target_of_runs, runs in _past_runs(warehouse_file, publication)
            if target_of_runs == target and (wanted in run_hardware if hardware else wanted == run_hardware)
        ]
    )


def _publication_of(warehouse_file: Path) -> _Publication:
    """Return a key that differs between publications of a file, and between points in time."""
    stat = warehouse_file.stat()
    return stat.st_ino, stat.st_mtime_ns, stat.st_size, seen_as_of()


@functools.lru_cache(_REMEMBERED_PUBLICATIONS)
def _past_runs(warehouse_file: Path, _publication: _Publication) -> tuple[tuple[str, str, PastRuns], ...]:
    """Return hardware (casefolded), target and times of all past runs.

    Read once per publication: the Jobs page forecasts every queued study after each.
    """
    from warehouse.queries import results  # noqa: PLC0415 - imports pandas, which takes a second

    with open_warehouse(warehouse_file) as connection:
        runs = results.run_seconds(connection)
    return tuple((row["hardware"].casefold(), row["target"], _past(row)) for row in runs.to_dict("records"))


def _past(row: Mapping[Hashable, Any]) -> PastRuns:
    import pandas as pd  # noqa: PLC0415 - takes a second

    values: dict[str, Any] = {str(key): None if pd.isna(value) else value for key, value in row.items()}
    values["output_tokens"] = values["requested_output_tokens"]
    return PastRuns(**{name: values[name] for name in PastRuns.__dataclass_fields__})
