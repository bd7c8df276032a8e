"""What a link to the page of comparisons asks for, with what stands in where it asks for nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from lab.metrics.definition import Metric
from warehouse.queries.comparisons import Pair, StudyComparison
from webapp.charts import panels
from webapp.pages.compare import measures as compare_measures
from webapp.shared import published_data, url_params
from webapp.shared.url_params import Param

#: What a row of the heat map is -> how the choice is called.
HEAT_ROWS = {"workload": "workload", "dataset": "dataset", "category": "category"}


@dataclass(frozen=True, eq=False)
class Choice:
    """`pairs`: those of the chosen candidates, with the verdicts of the whole study."""

    job_id: str
    measure: Metric
    found: StudyComparison
    candidates: tuple[str, ...]
    heat_rows: str
    workload: str
    load: str

    @property
    def pairs(self) -> tuple[Pair, ...]:
        return tuple(pair for pair in self.found.pairs if pair.candidate.arm in self.candidates)

    @property
    def here(self) -> tuple[Pair, ...]:
        """The pairs at the chosen workload and load."""
        return tuple(p for p in self.pairs if (p.cell.workload, p.cell.pattern) == (self.workload, self.load))


def of(parameters: Mapping[str, Sequence[str]]) -> Choice:
    """Raises KeyError where the parameters name no study or no metric that there is; UserError without a comparison."""
    job_id = url_params.job_id_of(parameters[url_params.JOB.key][0])
    measure = compare_measures.BY_LABEL[_one(parameters, url_params.METRIC, list(compare_measures.BY_LABEL))]
    found = published_data.compared(job_id, measure.name, _one(parameters, url_params.BASELINE, baselines(job_id)))
    named = parameters.get(url_params.CANDIDATES.key, ())
    every = candidates(found)
    there = [arm for arm in every if arm in named] or every
    workload = _one(parameters, url_params.AT_WORKLOAD, workloads(found, there))
    load = _one(parameters, url_params.AT_LOAD, loads(found, there, workload))
    rows = _one(parameters, url_params.HEAT_ROWS, list(HEAT_ROWS))
    return Choice(job_id, measure, found, tuple(there), rows, workload, load)


def _one(parameters: Mapping[str, Sequence[str]], param: Param, options: Sequence[str]) -> str:
    """What is asked for if it is there, else the first option; empty where there is no option."""
    asked = parameters.get(param.key, [""])[0]
    return asked if asked in options else next(iter(options), "")


@published_data.cached_by_publication()
def baselines(job_id: str) -> tuple[str, ...]:
    """Every arm that was measured, the study's own baseline first."""
    runs = published_data.results(job_id)
    arms = panels.arms_of(runs, [arm for arm in published_data.arms(job_id) if arm in set(runs["arm"])])
    declared = set(runs.loc[runs["is_baseline"].eq(True) & ~pd.isna(runs["is_baseline"]), "arm"])
    return tuple(sorted((arm for arm in arms if isinstance(arm, str)), key=lambda arm: arm not in declared))


def candidates(found: StudyComparison) -> list[str]:
    there = list(dict.fromkeys(pair.candidate.arm for pair in found.pairs))
    order = published_data.arms(found.jobs[0])
    return sorted(there, key=lambda arm: order.index(arm) if arm in order else len(order))


def workloads(found: StudyComparison, arms: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(pair.cell.workload for pair in found.pairs if pair.candidate.arm in arms))


def loads(found: StudyComparison, arms: Sequence[str], workload: str) -> list[str]:
    there = (pair for pair in found.pairs if pair.candidate.arm in arms and pair.cell.workload == workload)
    return list(dict.fromkeys(pair.cell.pattern for pair in there))
