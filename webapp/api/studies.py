"""Studies: check, plan and submit them, and read their results."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query
from pydantic import BaseModel, Field, JsonValue

from jobs import curation, judging, queue
from jobs.forecast import follow_up_seconds, plan_document
from jobs.submission import Context, problems, unknown
from jobs.table import MAX_PRIORITY
from lab.advice.advise import advise as recommend
from lab.errors import StudyError
from lab.study import Study
from lab.study.parsing import study_from_dict, study_from_toml
from warehouse.app_db import curated
from warehouse.app_db.curated import Curated
from warehouse.queries.advice_inputs import failed_arms, measured_arms
from warehouse.queries.comparing.across_studies import across_document, compare_across
from warehouse.queries.comparing.answers import metric_answers, study_answer
from warehouse.queries.comparing.comparisons import agreements, compare_study
from warehouse.queries.comparing.documents import (
    answer_document,
    comparison_document,
    quality_document,
    study_findings,
)
from warehouse.queries.comparing.quality import qualities
from warehouse.queries.comparing.study_cells import MOST_RUNS
from warehouse.queries.comparing.tunings import answered
from warehouse.queries.connect import open_warehouse
from warehouse.queries.costs import study_costs
from webapp.api.calls import AuthorisedCall, Call
from webapp.api.limits import Operation, takes
from webapp.api.problems import FieldProblem

router = APIRouter(route_class=Operation, tags=["studies"])
#: A study as TOML has 200,000 characters; in JSON some of them are two bytes and more.
_MOST_BYTES = 500_000
_MOST_STUDIES = 20
Metric = Annotated[str, Query(max_length=200, description="A column of `results` for which higher or lower is better.")]
Baseline = Annotated[str | None, Query(max_length=200, description="An arm; by default the study's own baseline.")]

Judgement = Annotated[
    str | None,
    Query(max_length=200, description="A judgement of the study; by default that of when it ended, `first`."),
]
PricePerHour = Annotated[float | None, Query(gt=0, le=1e6, description="Instead of the price book's.")]
ShortText = Annotated[str, Field(max_length=200)]


class SentStudy(BaseModel):
    """A study: as TOML, or as an object with the same keys."""

    toml: str | None = Field(default=None, max_length=200_000)
    study: dict[str, JsonValue] | None = None
    priority: int = Field(
        default=0,
        ge=-MAX_PRIORITY,
        le=MAX_PRIORITY,
        description="Higher values run earlier; above 0 for administrators.",
    )

    def read(self) -> Study:
        """Return the validated study. Raises StudyError."""
        if (self.toml is None) == (self.study is None):
            raise StudyError([("", "send the study either as `toml` or as `study`")])
        return study_from_dict(self.study) if self.study is not None else study_from_toml(self.toml or "")


class Plan(BaseModel):
    """A study's cost in time, its probable verdicts, advice about its target, the problems that would refuse it, and
    what will stay unknown in its results.
    """

    study: str
    target: str
    arms: list[str]
    workloads: list[str]
    loads: list[str]
    repeats: int
    launches: int
    runs: int
    requests: int
    estimated_s: float
    estimated_by: str
    launches_from_history: int
    runs_from_history: int
    verdicts: dict[str, Any] | None
    advice: list[str]
    problems: list[FieldProblem]
    unknown: list[FieldProblem]


class Submitted(BaseModel):
    """The job of a study that was submitted."""

    job_id: str


@router.post("/studies/plan")
@takes(_MOST_BYTES)
def plan_study(call: AuthorisedCall, sent: Annotated[SentStudy, Body()]) -> Plan:
    """Check a study and estimate what it takes; nothing is stored."""
    settings, study = call.settings, sent.read()
    context = Context(settings, call.database)
    found = problems(context, study, call.actor.role, probe_engines=False)
    return Plan(**plan_document(settings, study, found, unknown(context, study)))


@router.post("/studies", status_code=201)
@takes(_MOST_BYTES)
def submit_study(call: AuthorisedCall, sent: Annotated[SentStudy, Body()]) -> Submitted:
    """Queue a study as a job."""
    return Submitted(job_id=queue.submit(call.settings, sent.read(), sent.priority, actor=call.actor))


class CuratedStudy(BaseModel):
    """What people added to a study. `name` is null if it has its first one; `depends` names what shows or rests on it,
    where one study is requested.
    """

    job_id: str
    name: str | None
    note: str
    tags: list[str]
    hidden_at: datetime | None
    deleted_at: datetime | None
    deleted_by: str | None
    called: str | None
    purged_at: datetime | None
    depends: list[str] | None = None


class StudyChange(BaseModel):
    """What to change of a study; what is missing stays. An empty name gives it its first one back."""

    name: str | None = Field(default=None, max_length=curation.MOST_NAME)
    note: str | None = Field(default=None, max_length=curation.MOST_NOTE)
    tags: list[ShortText] | None = Field(default=None, max_length=curation.MOST_TAGS)
    hidden: bool | None = None


@router.get("/studies")
def list_curated(call: AuthorisedCall) -> list[CuratedStudy]:
    """List the studies that somebody named, noted, tagged, hid or deleted; all others are in the view `results`."""
    return [_curated(one) for one in curated.all_curated(call.database)]


@router.get("/studies/{study}")
def show_study(call: AuthorisedCall, study: str) -> CuratedStudy:
    """Show what people added to a study, and what depends on it. The study is a name, a digest or a job's id."""
    job_id = _job(call, study)
    depends = curation.dependents(call.settings, call.database, job_id)
    return _curated(curated.find(call.database, job_id)).model_copy(update={"depends": depends})


@router.patch("/studies/{study}")
def change_study(call: AuthorisedCall, study: str, sent: Annotated[StudyChange, Body()]) -> CuratedStudy:
    """Rename, note, tag or hide a study. Nothing that is computed from it changes."""
    return _curated(curation.change(call.database, _job(call, study), actor=call.actor, **sent.model_dump()))


@router.delete("/studies/{study}")
def delete_study(call: AuthorisedCall, study: str) -> CuratedStudy:
    """Delete a study that has ended. It can be restored until its bundles are purged on the lab's host."""
    job_id = _job(call, study)
    curation.delete(call.settings, call.database, job_id, actor=call.actor)
    return _curated(curated.find(call.database, job_id))


@router.post("/studies/{study}/restore")
def restore_study(call: AuthorisedCall, study: str) -> CuratedStudy:
    """Restore a deleted study as it was, by its job's id or its name."""
    job_id = curation.restore(call.settings, call.database, study, actor=call.actor)
    return _curated(curated.find(call.database, job_id))


def _job(call: Call, study: str) -> str:
    return curation.study_of(call.settings, call.database, study)


def _curated(one: Curated) -> CuratedStudy:
    return CuratedStudy.model_validate(vars(one) | {"tags": list(one.tags)})


class JudgedAgain(BaseModel):
    """The judgement that was stored beside the first."""

    judgement: str


@router.post("/studies/{study}/judgements", status_code=201)
def judge_again(call: AuthorisedCall, study: str) -> JudgedAgain:
    """Judge a study again with the history and the analysis of today. The first verdicts stay those that are shown."""
    return JudgedAgain(judgement=judging.judge_again(call.settings, call.database, study, actor=call.actor))


@router.get("/studies/{study}/comparison")
def compare(
    call: AuthorisedCall,
    study: str,
    metric: Metric = "output_tok_per_s",
    baseline: Baseline = None,
    *,
    strict: bool = False,
    judgement: Judgement = None,
) -> dict[str, Any]:
    """Compare each arm with the baseline: ratio, interval and verdict. The study is a name, a digest or a job's id.

    Verdicts are those stored when the study ended; `standing` says when that was and what they rest on.
    """
    with open_warehouse(call.settings.warehouse_file) as con:
        comparison = compare_study(con, study, metric, baseline=baseline, strict=strict, judgement=judgement)
        agreed = [agreement for _, agreement in agreements(con, comparison)]
        more = {"quality": quality_document(qualities(con, comparison)), "findings": study_findings(con, comparison)}
        return comparison_document(comparison, agreed) | more


@router.get("/studies/{study}/comparison/across")
def compare_with_others(
    call: AuthorisedCall,
    study: str,
    *,
    others: Annotated[
        list[ShortText], Query(alias="with", max_length=_MOST_STUDIES, description="Other studies, own or imported.")
    ],
    metric: Metric = "output_tok_per_s",
    baseline: Baseline = None,
    runs: Annotated[
        list[ShortText] | None, Query(alias="run", max_length=MOST_RUNS, description="Only these runs.")
    ] = None,
    any_workload: bool = False,
    price_per_hour: PricePerHour = None,
) -> dict[str, Any]:
    """Compare arms of other studies with the baseline of this one at the same load: ratio, unpaired interval, and what
    differs between the studies or is unknown.
    """
    with open_warehouse(call.settings.warehouse_file) as con:
        found = compare_across(
            con,
            [study, *others],
            metric,
            baseline=baseline,
            runs=runs or (),
            any_workload=any_workload,
            price_usd_per_hour=price_per_hour,
        )
    return across_document(found)


@router.get("/studies/{study}/answer")
def answer(call: AuthorisedCall, study: str) -> dict[str, Any]:
    """Answer what to enable where, with what confidence, and what to measure next."""
    settings = call.settings
    with open_warehouse(settings.warehouse_file) as con:
        comparison = answered(con, compare_study(con, study))
        by_metric = metric_answers(con, study)
    found = study_answer(comparison)
    return answer_document(found, by_metric, follow_up_seconds(settings, call.database, comparison.jobs[-1], found))


@router.get("/studies/{study}/advice")
def advise(call: AuthorisedCall, study: str) -> list[dict[str, Any]]:
    """Advise for each workload and load whether to enable speculation, with evidence and rules."""
    with open_warehouse(call.settings.warehouse_file) as con:
        comparison = compare_study(con, study)
        return [asdict(found) for found in recommend(measured_arms(con, comparison), failed_arms(con, comparison))]


@router.get("/studies/{study}/costs")
def costs(
    call: AuthorisedCall,
    study: str,
    price_per_hour: PricePerHour = None,
    utilisation: Annotated[float | None, Query(gt=0, le=1)] = None,
) -> list[dict[str, Any]]:
    """Return what a million tokens cost with each arm, and what an arm saves."""
    with open_warehouse(call.settings.warehouse_file) as con:
        return [asdict(cost) for cost in study_costs(con, study, price_per_hour, utilisation)]
