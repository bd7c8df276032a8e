"""Arms of several studies, own or imported, beside each other: ratios at the same load, and everything that differs.

Their runs were not alternated, so there is no verdict, and an interval only as `lab.comparison.unpaired` gives it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import PurePath
from typing import Any, Literal

import duckdb

from lab.comparison.effect import Interval
from lab.comparison.unpaired import unpaired
from lab.errors import QueryError
from lab.metrics.catalogue import BY_NAME, SHORT_NAMES
from lab.validity.words import listed
from warehouse.queries.comparing.paired_runs import jobs_of, metric_names
from warehouse.queries.comparing.study_cells import (
    DETAILS,
    OF_WORKLOAD,
    PRICE,
    Cell,
    StudyArm,
    read_cells,
)
from warehouse.queries.prices import COSTS

#: What every reader of such ratios must know.
UNPAIRED = (
    "Runs of different studies were not alternated, so there is no verdict: an interval holds only the scatter within "
    "each study, and whatever differs between the studies may be the whole difference."
)
_WORDS = ("differs", "unknown on one side", "unknown on both sides")


@dataclass(frozen=True)
class Beside:
    """A candidate's cell and the baseline's at the same load. `why` says why there is no ratio, or no interval."""

    baseline: Cell
    candidate: Cell
    ratio: Interval | None
    why: str
    basis: str = ""

    @property
    def load(self) -> str:
        return self.candidate.load or ""


@dataclass(frozen=True)
class Difference:
    """What differs between the baseline and some arms, or is unknown (None) on a side."""

    what: str
    baseline: str | None
    other: str | None
    arms: tuple[str, ...]

    @property
    def word(self) -> Literal["differs", "unknown on one side", "unknown on both sides"]:
        if self.baseline is not None and self.other is not None:
            return "differs"
        return "unknown on both sides" if self.baseline == self.other else "unknown on one side"


@dataclass(frozen=True)
class AcrossStudies:
    """Arms of other studies against one arm. `names` are short and distinct; `left_out` has a sentence for everything
    that is not compared.
    """

    metric: str
    unit: str
    baseline: StudyArm
    names: Mapping[StudyArm, str]  # of every arm of these studies
    pairs: tuple[Beside, ...]
    differences: tuple[Difference, ...]
    left_out: tuple[str, ...]


def compare_across(
    con: duckdb.DuckDBPyConnection,
    studies: Sequence[str],
    metric: str = "output_tok_per_s",
    *,
    baseline: str | None = None,
    runs: Sequence[str] = (),
    any_workload: bool = False,
    price_usd_per_hour: float | None = None,
) -> AcrossStudies:
    """Compare the arms of other studies with one of the first, at the same load and, where it is known, workload.

    `studies` as `jobs_of` takes them. `runs`: only these. `any_workload`: at the same load, whatever the workload.
    Raises QueryError for unknown studies, arms and metrics, and where all runs are of one study.
    """
    jobs = [jobs_of(con, study) for study in studies]
    metric = _known(metric)
    every = list(dict.fromkeys(job for of_study in jobs for job in of_study))
    cells, left_out = read_cells(con, every, metric, runs, price_usd_per_hour)
    if len({cell.of.job_id for cell in cells}) < 2:
        one = repr(cells[0].of.study) if cells else "none of these studies"
        raise QueryError(
            f"all valid runs are of {one}: choose another study as well; arms of one are compared in pairs"
        )
    base = _baseline([cell for cell in cells if cell.of.job_id in jobs[0]], baseline)
    ours = [cell for cell in cells if cell.of == base]
    theirs = [cell for cell in cells if cell.of.job_id != base.job_id]
    pairs = [
        _pair(own, other, metric)
        for other in theirs
        for own in ours
        if other.load is not None and other.load == own.load and (any_workload or _same_workload(own, other))
    ]
    names = _names(cells)
    if in_pairs := sorted({cell.of.arm for cell in cells if cell.of.job_id == base.job_id} - {base.arm}):
        left_out.append(f"{', '.join(in_pairs)} of {base.study}: compared with {base.arm} in pairs, within that study")
    left_out += _unmatched(ours, theirs, pairs, names)
    return AcrossStudies(
        metric, _unit(metric, pairs), base, names, tuple(pairs), tuple(_differences(pairs, names)), tuple(left_out)
    )


def _known(metric: str) -> str:
    metric, names = SHORT_NAMES.get(metric, metric), (*metric_names(), *COSTS)
    if metric not in names:
        raise QueryError(f"{metric!r} cannot be compared between studies: use one of {', '.join(names)}")
    return metric


def _baseline(cells: Sequence[Cell], name: str | None) -> StudyArm:
    """Return the named arm of the first study, else the one that it declares, else its only one."""
    arms = list(dict.fromkeys(cell.of for cell in cells))
    declared = [cell.of for cell in cells if cell.is_baseline]
    found = [arm for arm in arms if arm.arm == name] if name is not None else (declared or arms[: len(arms) == 1])
    if not found:
        named = ", ".join(arm.arm for arm in arms) or "none"
        what = "it declares no baseline" if name is None else f"it has no valid run of an arm {name!r}"
        raise QueryError(f"the baseline is an arm of the first study, but {what}: its arms with valid runs are {named}")
    return found[-1]


def _same_workload(ours: Cell, theirs: Cell) -> bool:
    """Return whether nothing that is known of both workloads differs."""
    both = ((_plain(ours.facts[name]), _plain(theirs.facts[name])) for name in OF_WORKLOAD)
    return all(own is None or other is None or own == other for own, other in both)


def _plain(text: str | None) -> str | None:
    """Return a name as it is compared: tools write the name of one dataset a little differently."""
    return None if text is None else PurePath(text).stem.lower().replace("-", "_").removesuffix("_sample")


def _pair(ours: Cell, theirs: Cell, metric: str) -> Beside:
    for cell, whose in ((ours, " of the baseline"), (theirs, "")):
        if cell.is_unknown:
            because = f": {cell.why_unknown}" if cell.why_unknown else ""
            return Beside(ours, theirs, None, f"no ratio: {BY_NAME[metric].label}{whose} is unknown{because}")
    if ours.definition is None or ours.definition != theirs.definition:
        words = [cell.definition or "unknown" for cell in (ours, theirs)]
        return Beside(ours, theirs, None, f"no ratio: defined otherwise: baseline {words[0]}, here {words[1]}")
    found = unpaired(ours.runs, theirs.runs)
    return Beside(ours, theirs, found.ratio, found.why, found.basis)


def _unit(metric: str, pairs: Sequence[Beside]) -> str:
    """Return the metric's unit; that of a cost with its currency, if all have the same."""
    prices = {cell.facts.get(PRICE) for pair in pairs for cell in (pair.baseline, pair.candidate)}
    currencies = {price.rpartition(" ")[2] for price in prices if price is not None}
    unit = BY_NAME[metric].unit
    return unit.replace("currency", currencies.pop()) if len(currencies) == 1 else unit


def _names(cells: Iterable[Cell]) -> dict[StudyArm, str]:
    """Name each arm with its study, and with its job where another job has that study's name."""
    arms = list(dict.fromkeys(cell.of for cell in cells))
    jobs: dict[str, set[str]] = {}
    for arm in arms:
        jobs.setdefault(arm.study, set()).add(arm.job_id)
    return {arm: arm.label if len(jobs[arm.study]) > 1 else f"{arm.arm} · {arm.study}" for arm in arms}


def _unmatched(
    ours: Sequence[Cell], theirs: Sequence[Cell], pairs: Sequence[Beside], names: Mapping[StudyArm, str]
) -> list[str]:
    """Return a sentence for each arm and reason, with the loads of its cells that have no counterpart."""
    paired = {id(cell) for pair in pairs for cell in (pair.baseline, pair.candidate)}
    loads = [{cell.load for cell in cells} for cells in (ours, theirs)]
    found: dict[tuple[str, str], list[str]] = {}
    for cells, others, whose in ((theirs, loads[0], "the baseline"), (ours, loads[1], "the others")):
        for cell in cells:
            if id(cell) in paired:
                continue
            if cell.load is None:
                why = "neither a concurrency nor a request rate is known, so they match nothing"
            elif cell.load in others:
                why = f"another workload than that of {whose} at this load"
            else:
                why = f"no run of {whose} at this load"
            found.setdefault((names[cell.of], why), []).append(f"{cell.load or 'unknown load'} on {cell.workload}")
    return [f"{name}, {_listed(where)}: {why}" for (name, why), where in found.items()]


def _differences(pairs: Sequence[Beside], names: Mapping[StudyArm, str]) -> list[Difference]:
    """Return what differs in some pair, or is unknown, each with the arms that it is about; differences first."""
    sides: dict[tuple[str, str], tuple[list[str | None], list[str | None]]] = {}
    for pair in pairs:
        for what, own in pair.baseline.facts.items():
            other = pair.candidate.facts[what]
            is_known = own is not None and other is not None
            if own != other if is_known else what not in DETAILS:
                found = sides.setdefault((what, names[pair.candidate.of]), ([], []))
                found[0].append(own)
                found[1].append(other)
    grouped: dict[tuple[str, str | None, str | None], list[str]] = {}
    for (what, name), (own_values, other_values) in sides.items():
        grouped.setdefault((what, _listed(own_values), _listed(other_values)), []).append(name)
    differences = [Difference(*key, tuple(arms)) for key, arms in grouped.items()]
    order = list(pairs[0].baseline.facts) if pairs else []
    return sorted(differences, key=lambda found: (_WORDS.index(found.word), order.index(found.what)))


def _listed(values: Sequence[str | None]) -> str | None:
    """Return distinct values in one text; None if none is known."""
    known = list(dict.fromkeys(value for value in values if value is not None))
    return f"{listed(known)}{', unknown of some' if None in values else ''}" if known else None


def across_document(found: AcrossStudies) -> dict[str, Any]:
    """Return the comparison as a JSON document, the same from the command and from the API."""
    return {
        "metric": found.metric,
        "unit": found.unit,
        "baseline": asdict(found.baseline),
        "sentence": UNPAIRED,
        "pairs": [
            {
                **asdict(pair.candidate.of),
                "note": pair.candidate.note,
                "load": pair.load,
                "workload": pair.candidate.workload,
                "baseline_workload": pair.baseline.workload,
                "value": pair.candidate.value,
                "baseline_value": pair.baseline.value,
                "ratio": None if pair.ratio is None else asdict(pair.ratio),
                "why": pair.why,
                "basis": pair.basis,
                "run_ids": [run.run_id for run in pair.candidate.runs],
                "baseline_run_ids": [run.run_id for run in pair.baseline.runs],
            }
            for pair in found.pairs
        ],
        "differences": [asdict(difference) | {"word": difference.word} for difference in found.differences],
        "left_out": found.left_out,
    }
