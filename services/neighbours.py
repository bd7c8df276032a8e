"""Measures the cost of neighbours: one cell alone on the host, and on all slots at once, alternating."""

from __future__ import annotations

import math
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from host.settings import Settings
from jobs.fleet.worker_registry import WorkerInfo
from lab.errors import UserError
from lab.metrics.measure import measure
from lab.study import Study
from lab.study.parsing import study_from_dict
from warehouse.bundles.run_bundle import Bundle, find_bundles, read_bundle
from warehouse.bundles.store import local_job

#: The compared figures and their labels.
METRICS = {"output_tok_per_s": "output throughput", "tpot_p50_ms": "TPOT, median"}
FILE = "neighbours.json"
#: A run has neighbours if each of the other slots worked during this share of its window.
_BUSY = 0.9
#: Copies on each slot, so that its neighbours still work when it measures.
_BLOCKS_OF_A_SLOT = 2
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Round:
    """The jobs of one round."""

    alone: str
    beside: str


@dataclass(frozen=True)
class Ratio:
    """The ratio of a figure with neighbours to the figure alone, with its 95 % interval over rounds."""

    metric: str
    ratio: float
    low: float
    high: float


@dataclass(frozen=True)
class Neighbours:
    """The measured ratios; stored in neighbours.json of the home."""

    arm: str
    workload: str
    load: str
    slots: int
    rounds: tuple[Round, ...]
    runs_beside: int  # that had all neighbours
    ratios: tuple[Ratio, ...]


def slots_up(workers: Sequence[WorkerInfo]) -> int:
    """Return how many slots of this host have a worker. Raises UserError for fewer than two."""
    here = [worker for worker in workers if worker.host == platform.node() and worker.slot and not worker.is_away()]
    if len(here) < 2:
        raise UserError(
            "measuring neighbours needs a host that is up and divided into slots: set slots to 2 or more, and run "
            "`drafthouse up`"
        )
    return len(here)


def conditions(study: Study, slots: int) -> tuple[Study, Study]:
    """Return the study's first cell of the baseline arm, alone and on all slots. Raises StudyError."""
    arm = study.baseline.model_dump(mode="json") | {"baseline": True}
    cell = study.model_dump(mode="json", exclude={"tune", "budget_s"}) | {
        "arms": [arm],
        "workloads": [study.workloads[0].model_dump(mode="json")],
        "loads": [study.loads[0].model_dump(mode="json")],
        "order": "interleaved",
        "repeats_per_launch": 1,
    }
    alone = {"name": "neighbours: alone", "repeats": 1, "alone": True, "spread": False}
    beside = {"name": "neighbours: beside", "repeats": _BLOCKS_OF_A_SLOT * slots, "alone": False, "spread": True}
    return study_from_dict(cell | alone), study_from_dict(cell | beside)


def compared(settings: Settings, rounds: Sequence[Round], slots: int) -> Neighbours:
    """Compare the results of these rounds' jobs. Raises UserError if no run had all its neighbours."""
    jobs = {job_id for each in rounds for job_id in (each.alone, each.beside)}
    for job_id in jobs:
        local_job(settings, job_id)
    folders = [folder for folder in find_bundles(settings.bundles) if folder.parent.name in jobs]
    bundles = [bundle for folder in folders if (bundle := read_bundle(folder)).run.status == "completed"]
    if not bundles:
        raise UserError("no run was completed: `drafthouse jobs` shows why")
    cell = bundles[0].run
    busy = [bundle for bundle in bundles if _has_neighbours(bundle, slots)]
    ratios = tuple(ratio_of(metric, [_logs(metric, each, bundles, busy) for each in rounds]) for metric in METRICS)
    return Neighbours(cell.arm.name, cell.workload.name, cell.load.name, slots, tuple(rounds), len(busy), ratios)


def ratio_of(metric: str, rounds: Sequence[tuple[Sequence[float], Sequence[float]]]) -> Ratio:
    """Return the geometric mean of the rounds' ratios, with its t interval. Each round has the logarithms measured
    alone and with neighbours. Raises UserError with fewer than two rounds that have both.
    """
    from lab.comparison.spread import student  # noqa: PLC0415 - loads SciPy

    logs = [statistics.fmean(beside) - statistics.fmean(alone) for alone, beside in rounds if alone and beside]
    if len(logs) < 2:
        raise UserError(
            f"{len(logs)} of {len(rounds)} rounds have a run during which all other slots worked, and two are needed: "
            "use a load with a longer window, or more rounds"
        )
    reach = float(student(len(logs) - 1, _CONFIDENCE)) * statistics.stdev(logs) / math.sqrt(len(logs))
    middle = statistics.fmean(logs)
    return Ratio(metric, math.exp(middle), math.exp(middle - reach), math.exp(middle + reach))


def _has_neighbours(bundle: Bundle, slots: int) -> bool:
    """Return whether each of the other slots worked for its own job during the window."""
    run = bundle.run
    worked: Mapping[str, float] = {
        work.what: work.seconds for work in run.beside or () if work.kind == "job" and work.what.startswith(run.job_id)
    }
    most_s = _BUSY * (run.duration_s or 0.0)
    return sum(seconds >= most_s for seconds in worked.values()) >= slots - 1


def _logs(
    metric: str, of: Round, bundles: Sequence[Bundle], busy: Sequence[Bundle]
) -> tuple[Sequence[float], Sequence[float]]:
    alone = [_figure(metric, bundle) for bundle in bundles if bundle.run.job_id == of.alone]
    beside = [_figure(metric, bundle) for bundle in busy if bundle.run.job_id == of.beside]
    return [math.log(value) for value in alone if value], [math.log(value) for value in beside if value]


def _figure(metric: str, bundle: Bundle) -> float | None:
    value = measure(bundle.run, bundle.requests, bundle.telemetry)[metric]
    return float(value) if isinstance(value, (int, float)) else None
