"""The selection that a link of the Compare page describes, with defaults for what it leaves out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pandas as pd

from lab.comparison import verdict
from lab.metrics.catalogue import BY_NAME, COST
from lab.metrics.definition import Metric
from warehouse.queries.comparing.comparisons import Pair, StudyComparison
from warehouse.queries.comparing.stored import FIRST
from webapp.charts import panels, results
from webapp.shared import published_data, url_params
from webapp.shared.url_params import Param, View
from webapp.shared.verdicts import standing

#: Metrics for comparing arms: the metrics of the Results page, acceptance, energy and cost.
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


@dataclass(frozen=True)
class Selection:
    """The compared arms and metric, from the link. An empty `chosen` stands for all candidates.

    Verdicts are corrected for the whole study, whichever candidates are chosen.
    """

    job_id: str
    baseline: str
    metric: str = MEASURES[0].label
    reading: str = next(iter(READINGS))
    chosen: tuple[str, ...] = ()
    heat_rows: str = HEAT_ROWS[0]
    workload: str = ""
    load: str = ""
    judgement: str = FIRST

    @property
    def measure(self) -> Metric:
        return BY_LABEL[self.metric]

    @cached_property
    def comparison(self) -> StudyComparison:
        """The study's comparison. Raises UserError where nothing can be compared."""
        return published_data.compared(
            self.job_id, self.measure.name, self.baseline, strict=READINGS[self.reading], judgement=self.judgement
        )

    @cached_property
    def candidates(self) -> tuple[str, ...]:
        """The chosen candidates in the study's order."""
        every = candidates(self.comparison, list(published_data.arms(self.job_id)))
        return tuple(arm for arm in every if arm in self.chosen) or every

    @property
    def pairs(self) -> tuple[Pair, ...]:
        return tuple(pair for pair in self.comparison.pairs if pair.candidate.arm in self.candidates)

    @property
    def here(self) -> tuple[Pair, ...]:
        """The pairs at the chosen workload and load."""
        return tuple(p for p in self.pairs if (p.cell.workload, p.cell.pattern) == (self.workload, self.load))

    @property
    def workloads(self) -> list[str]:
        return list(dict.fromkeys(pair.cell.workload for pair in self.pairs))

    @property
    def loads(self) -> list[str]:
        """The loads of the chosen workload."""
        return list(dict.fromkeys(pair.cell.pattern for pair in self.pairs if pair.cell.workload == self.workload))

    @property
    def view(self) -> View:
        """The link that describes this selection."""
        values: dict[Param, tuple[str, ...]] = {
            url_params.JOB: (self.job_id,),
            url_params.BASELINE: (self.baseline,),
            url_params.METRIC: (self.metric,),
            url_params.READING: (self.reading,),
            url_params.HEAT_ROWS: () if self.heat_rows == HEAT_ROWS[0] else (self.heat_rows,),
            url_params.CANDIDATES: self.chosen,
            url_params.AT_WORKLOAD: (self.workload,) if self.workload else (),
            url_params.AT_LOAD: (self.load,) if self.load else (),
        }
        chosen = {param.key: value for param, value in values.items() if value}
        return View("compare", chosen | standing.link(self.job_id, self.judgement))

    def only(self, *fields: str) -> Selection:
        """Return the selection with defaults, except for study, judgement, chosen candidates and the named fields."""
        default = Selection(self.job_id, baselines(self.job_id)[0], chosen=self.chosen, judgement=self.judgement)
        return replace(default, **{name: getattr(self, name) for name in fields})


def parse(parameters: Mapping[str, Sequence[str]]) -> Selection:
    """Read the parameters of a link; a value that does not exist gives way to the default.

    Raises KeyError without a study, UserError where nothing can be compared.
    """

    def one(param: Param, options: Sequence[str]) -> str:
        value = url_params.first(parameters, param)
        return value if value in options else next(iter(options), "")

    job_id = url_params.job_id_of(parameters[url_params.JOB.key][0])
    selection = Selection(
        job_id,
        one(url_params.BASELINE, baselines(job_id)),
        one(url_params.METRIC, list(BY_LABEL)),
        one(url_params.READING, list(READINGS)),
        tuple(parameters.get(url_params.CANDIDATES.key, ())),
        one(url_params.HEAT_ROWS, HEAT_ROWS),
        judgement=standing.of_link(job_id, parameters),
    )
    selection = replace(selection, workload=one(url_params.AT_WORKLOAD, selection.workloads))
    return replace(selection, load=one(url_params.AT_LOAD, selection.loads))


@published_data.cached_by_publication()
def baselines(job_id: str) -> tuple[str, ...]:
    """Return every arm that was measured, the study's own baseline first."""
    runs = published_data.results(job_id)
    arms = panels.arms_of(runs, [arm for arm in published_data.arms(job_id) if arm in set(runs["arm"])])
    declared = set(runs.loc[runs["is_baseline"].eq(True) & ~pd.isna(runs["is_baseline"]), "arm"])
    return tuple(sorted((arm for arm in arms if isinstance(arm, str)), key=lambda arm: arm not in declared))


def candidates(comparison: StudyComparison, order: Sequence[str]) -> tuple[str, ...]:
    """Return the compared arms in this order, then the others."""
    arms = list(dict.fromkeys(pair.candidate.arm for pair in comparison.pairs))
    return tuple(sorted(arms, key=lambda arm: order.index(arm) if arm in order else len(order)))
