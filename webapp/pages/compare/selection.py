"""The selection that a link of the Compare page describes, with defaults for what it leaves out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from lab.comparison import verdict
from lab.metrics.catalogue import BY_NAME, COST
from lab.metrics.definition import Metric
from warehouse.queries.comparing.comparisons import Pair, StudyComparison
from webapp.charts import panels, results
from webapp.shared import published_data, url_params
from webapp.shared.url_params import Param

#: The metrics that arms can be compared by: those of the Results page, acceptance, energy and cost.
MEASURES = (
    *results.MEASURES,
    *(BY_NAME[name] for name in ("acceptance_length", "acceptance_rate", "energy_j_per_output_token")),
    COST,
)
BY_LABEL = {metric.label: metric for metric in MEASURES}
#: Whether the verdicts are read strictly, by the words of the choice.
READINGS = {words: strict for strict, words in verdict.READINGS.items()}
#: Rows of the heat map.
HEAT_ROWS = ("workload", "dataset", "category")


@dataclass(frozen=True, eq=False)
class Choice:
    """What is compared. Verdicts are corrected for the whole study, whichever candidates are chosen."""

    job_id: str
    measure: Metric
    comparison: StudyComparison
    candidates: tuple[str, ...]
    heat_rows: str
    workload: str
    load: str

    @property
    def pairs(self) -> tuple[Pair, ...]:
        return tuple(pair for pair in self.comparison.pairs if pair.candidate.arm in self.candidates)

    @property
    def here(self) -> tuple[Pair, ...]:
        """The pairs at the chosen workload and load."""
        return tuple(p for p in self.pairs if (p.cell.workload, p.cell.pattern) == (self.workload, self.load))


def parse(parameters: Mapping[str, Sequence[str]]) -> Choice:
    """Raises KeyError without a study or for an unknown metric, UserError where nothing can be compared."""
    job_id = url_params.job_id_of(parameters[url_params.JOB.key][0])
    measure = BY_LABEL[_one(parameters, url_params.METRIC, list(BY_LABEL))]
    baseline = _one(parameters, url_params.BASELINE, baselines(job_id))
    strict = READINGS[_one(parameters, url_params.READING, list(READINGS))]
    comparison = published_data.compared(job_id, measure.name, baseline, strict=strict)
    named = parameters.get(url_params.CANDIDATES.key, ())
    every = candidates(comparison)
    chosen = [arm for arm in every if arm in named] or every
    workload = _one(parameters, url_params.AT_WORKLOAD, workloads(comparison, chosen))
    load = _one(parameters, url_params.AT_LOAD, loads(comparison, chosen, workload))
    rows = _one(parameters, url_params.HEAT_ROWS, HEAT_ROWS)
    return Choice(job_id, measure, comparison, tuple(chosen), rows, workload, load)


def _one(parameters: Mapping[str, Sequence[str]], param: Param, options: Sequence[str]) -> str:
    """The value in the link if it is an option, else the first option; empty without options."""
    value = parameters.get(param.key, [""])[0]
    return value if value in options else next(iter(options), "")


@published_data.cached_by_publication()
def baselines(job_id: str) -> tuple[str, ...]:
    """Every arm that was measured, the study's own baseline first."""
    runs = published_data.results(job_id)
    arms = panels.arms_of(runs, [arm for arm in published_data.arms(job_id) if arm in set(runs["arm"])])
    declared = set(runs.loc[runs["is_baseline"].eq(True) & ~pd.isna(runs["is_baseline"]), "arm"])
    return tuple(sorted((arm for arm in arms if isinstance(arm, str)), key=lambda arm: arm not in declared))


def candidates(comparison: StudyComparison) -> list[str]:
    arms = list(dict.fromkeys(pair.candidate.arm for pair in comparison.pairs))
    order = published_data.arms(comparison.jobs[0])
    return sorted(arms, key=lambda arm: order.index(arm) if arm in order else len(order))


def workloads(comparison: StudyComparison, arms: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(pair.cell.workload for pair in comparison.pairs if pair.candidate.arm in arms))


def loads(comparison: StudyComparison, arms: Sequence[str], workload: str) -> list[str]:
    pairs = (pair for pair in comparison.pairs if pair.candidate.arm in arms and pair.cell.workload == workload)
    return list(dict.fromkeys(pair.cell.pattern for pair in pairs))
