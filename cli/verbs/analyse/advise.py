"""`drafthouse advise`: the study's answer, a recommendation for each cell with its evidence, and each run beside its
prediction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Annotated

import typer

from cli.arguments import AsJson, StudyId
from cli.home import ready_settings
from cli.output import print_json, print_table
from cli.results import results_of
from jobs.forecast import repeat_seconds
from lab.advice import FIRST_GAMMA, Advice
from lab.advice import advise as recommend
from lab.advice.answer import Answer, JudgedPair
from lab.advice.answer_text import sentences
from lab.advice.prediction import Prediction, predictions
from lab.errors import UserError
from warehouse.queries.advice_inputs import failed_arms, measured_arms, speculated_runs
from warehouse.queries.comparing.answers import study_answer
from warehouse.queries.comparing.comparisons import compare_study

#: The pairs of a `Choice`.
_GROUPS = ("best", "behind", "rejected", "open")

DraftCost = Annotated[
    float | None,
    typer.Option(help="Time of a draft step divided by that of a target step; by default estimated from the runs."),
]


def advise(study: StudyId, *, draft_cost: DraftCost = None, as_json: AsJson = False) -> None:
    """Recommend for each workload and load whether to enable speculation, and why.

    It begins with the study's answer: what to enable where, how sure that is, and what is open. Below the
    recommendations each run stands beside what theory predicts for it.
    """
    if draft_cost is not None and not draft_cost >= 0:
        raise UserError(f"--draft-cost {draft_cost} is below 0: it is the time of a draft step over a target step")
    settings = ready_settings()
    with results_of(study, settings.warehouse_file) as con:
        found = compare_study(con, study)
        advice = recommend(measured_arms(con, found), failed_arms(con, found))
        predicted = predictions(speculated_runs(con, found), draft_cost)
    repeat_s = repeat_seconds(settings.app_database_url, settings.warehouse_file, settings.models_dir, found.jobs[-1])
    answer = study_answer(found, repeat_s)
    if as_json:
        cells = [asdict(one) | {"runs": [_as_dict(each) for each in _of(one, predicted)]} for one in advice]
        print_json({"answer": _answer_dict(answer), "advice": cells})
        return
    print("\n".join(sentences(answer).lines), end="\n\n")
    for one in advice:
        which = f" {one.arm} (k = {one.gamma})" if one.arm else ""
        print(f"{one.workload}, {one.pattern} (concurrency {one.concurrency}): {one.action}{which}")
        for line in one.reasons:
            print(f"  {line.basis}: {line.text}")
    if advice:
        _show_predictions(predicted)
    else:
        print(f"No arm of {study} speculates: measure one with {FIRST_GAMMA} drafted tokens next (rule of thumb).")


def _answer_dict(answer: Answer) -> dict[str, object]:
    return {
        "sentences": sentences(answer).lines,
        "metric": answer.metric,
        "baseline": answer.baseline,
        "strict": answer.strict,
        "headline": None if answer.headline is None else _pair_dict(answer.headline),
        "choices": [
            {"workload": one.workload, "pattern": one.load, "concurrency": one.concurrency, "action": one.action}
            | {name: [_pair_dict(pair) for pair in getattr(one, name)] for name in _GROUPS}
            for one in answer.choices
        ],
        "open": None if answer.open is None else asdict(answer.open),
    }


def _pair_dict(pair: JudgedPair) -> dict[str, object]:
    ratio = pair.comparison.ratio
    return {
        "workload": pair.workload,
        "pattern": pair.load,
        "concurrency": pair.concurrency,
        "arm": pair.arm,
        "ratio": None if ratio is None else asdict(ratio),
        "verdict": asdict(pair.verdict),
        "strict_verdict": asdict(pair.strict),
        "basis": pair.comparison.basis,
    }


def _of(advice: Advice, predicted: Sequence[Prediction]) -> list[Prediction]:
    place = (advice.workload, advice.pattern, advice.concurrency)
    return [each for each in predicted if (each.run.workload, each.run.pattern, each.run.concurrency) == place]


def _show_predictions(predicted: Sequence[Prediction]) -> None:
    print("\nEach run beside what theory predicts from the acceptance of its first position (alpha):")
    lengths = ("alpha", "alpha to break even", "length predicted", "measured", "best k by theory")
    speeds = ("speed-up predicted", "measured", "assuming a draft cost of", "from", "implied cost")
    print_table(("run", "workload", "pattern", "arm", "k", *lengths, *speeds), [_row(each) for each in predicted])


def _row(each: Prediction) -> tuple[object, ...]:
    run = each.run
    about = (run.run_id, run.workload, run.pattern, run.arm, run.gamma)
    numbers = (each.alpha, each.break_even_alpha, each.predicted_length, run.acceptance_length)
    speeds = (each.predicted_speedup, run.speedup, each.draft_cost)
    ends = (*map(_number, speeds), each.draft_cost_from, _number(each.implied_draft_cost))
    return (*about, *map(_number, numbers), each.best_gamma, *ends)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _as_dict(each: Prediction) -> dict[str, object]:
    """The run's measurements and its prediction in one flat dictionary."""
    predicted = {field.name: getattr(each, field.name) for field in fields(each) if field.name != "run"}
    return {**asdict(each.run), **predicted}
