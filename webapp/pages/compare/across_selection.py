"""The selection of several studies that a link of the Compare page describes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from lab.errors import UserError
from lab.metrics.definition import Metric
from warehouse.queries.comparing.across_studies import AcrossStudies, compare_across
from webapp.pages.compare.selection import BY_LABEL, baselines
from webapp.shared import published_data, url_params
from webapp.shared.url_params import Param, View

_across = published_data.published_query()(compare_across)


@dataclass(frozen=True)
class AcrossSelection:
    """The study of the page, the `others`, the baseline as `baseline_options` names it, and the chosen runs, if not
    all.
    """

    job_id: str
    others: tuple[str, ...]
    baseline: str
    metric: str
    runs: tuple[str, ...] = ()
    any_workload: bool = False

    @property
    def measure(self) -> Metric:
        return BY_LABEL[self.metric]

    @cached_property
    def found(self) -> AcrossStudies:
        """The comparison. Raises UserError where nothing can be compared."""
        options = baseline_options(self.job_id, self.others, self.runs)
        if self.baseline not in options:
            raise UserError("None of the chosen runs is of these studies: choose other runs, or all of them.")
        job_id, arm = options[self.baseline]
        jobs = (job_id, *(job for job in (self.job_id, *self.others) if job != job_id))
        return _across(jobs, self.measure.name, baseline=arm, runs=self.runs, any_workload=self.any_workload)

    @property
    def view(self) -> View:
        """The link that describes this selection."""
        values: dict[Param, tuple[str, ...]] = {
            url_params.JOB: (self.job_id,),
            url_params.WITH: self.others,
            url_params.BASELINE: (self.baseline,),
            url_params.METRIC: (self.metric,),
            url_params.RUNS: self.runs,
        }
        chosen = {param.key: value for param, value in values.items() if value}
        return View("compare", chosen | ({url_params.ANY_WORKLOAD: ("true",)} if self.any_workload else {}))


def parse(parameters: Mapping[str, Sequence[str]]) -> AcrossSelection:
    """Read the parameters of a link; a value that does not exist gives way to the default. Raises KeyError without a
    study.
    """
    job_id = url_params.job_id_of(parameters[url_params.JOB.key][0])
    others = tuple(url_params.job_id_of(label) for label in parameters[url_params.WITH.key])
    runs = tuple(parameters.get(url_params.RUNS.key, ()))
    options, metric = list(baseline_options(job_id, others, runs)), url_params.first(parameters, url_params.METRIC)
    baseline = url_params.first(parameters, url_params.BASELINE)
    return AcrossSelection(
        job_id,
        others,
        baseline if baseline in options else next(iter(options), ""),
        metric if metric in BY_LABEL else next(iter(BY_LABEL)),
        runs,
        url_params.first(parameters, url_params.ANY_WORKLOAD) == "true",
    )


def baseline_options(job_id: str, others: Sequence[str], runs: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return job and arm of every possible baseline by its name: an arm of the page's study by its own."""
    found: dict[str, tuple[str, str]] = {}
    for job in (job_id, *others):
        of_job = published_data.results(job)
        chosen = of_job[of_job["run_id"].isin(runs)] if runs else of_job
        for arm in baselines(job):
            if arm in set(chosen["arm"]):
                label = url_params.job_label(str(of_job["study_name"].iloc[0]), job)
                found[arm if job == job_id else url_params.job_label(arm, label)] = (job, arm)
    return found
