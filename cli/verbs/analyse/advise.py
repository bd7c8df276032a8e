"""`drafthouse advise`: the study's answer, a recommendation for each cell with its evidence, and each run beside its
prediction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Annotated

import typer

from cli.arguments import AsJson, StudyId
from cli.lab import the_lab
from cli.output import figure, print_json, print_table, print_text
from cli.results import results_of
from lab.advice.advise import FIRST_GAMMA, Advice, arm_with_k
from lab.advice.advise import advise as recommend
from lab.advice.answer_text import answer_lines
from lab.advice.prediction import Prediction, predictions
from lab.comparison import surface
from lab.errors import UserError
from warehouse.queries.advice_inputs import failed_arms, measured_arms, speculated_runs
from warehouse.queries.comparing.answers import metric_answers, provenance, study_answer
from warehouse.queries.comparing.by_group import several_contexts
from warehouse.queries.comparing.comparisons import compare_study
from warehouse.queries.comparing.documents import answer_document, contexts_document
from warehouse.queries.comparing.tunings import answered

DraftCost = Annotated[
    float | None,
    typer.Option(help="Time of a draft step over that of a target step; default: estimated."),
]


def advise(study: StudyId, *, draft_cost: DraftCost = None, as_json: AsJson = False) -> None:
    """Recommend for each workload and load whether to enable speculation, and why.

    It begins with the study's answer, and ends with what theory predicts for each run.
    """
    if draft_cost is not None and not draft_cost >= 0:
        raise UserError(f"--draft-cost {draft_cost} is below 0: it is the time of a draft step over a target step")
    here = the_lab()
    with results_of(study, here.warehouse_file) as con:
        comparison = compare_study(con, study)
        answer, by_metric = study_answer(answered(con, comparison)), metric_answers(con, study)
        advice = recommend(measured_arms(con, comparison), failed_arms(con, comparison))
        predicted = predictions(speculated_runs(con, comparison), draft_cost)
        by_context = several_contexts(con, study)
        lost = provenance(con, comparison).lost
    follow_up_s = here.follow_up_seconds(comparison.jobs[-1], answer)
    if as_json:
        cells = [
            asdict(suggestion) | {"runs": [_as_dict(prediction) for prediction in _of(suggestion, predicted)]}
            for suggestion in advice
        ]
        contexts, foretold = contexts_document(by_context), surface.prediction_sentences(by_context)
        document = answer_document(answer, by_metric, follow_up_s)
        print_json({"answer": document, "by_context": contexts, "foretold": foretold, "advice": cells})
        return
    print_text("\n".join(answer_lines(answer, by_metric, follow_up_s)), end="\n\n")
    if lost:
        print_text(f"lost runs: {lost}\n")
    for arm, found in by_context.items():
        print_text(f"{arm}, by length of context, in time per token: {surface.sentence(found)}.\n")
    for sentence in surface.prediction_sentences(by_context):
        print_text(f"{sentence}\n")
    for suggestion in advice:
        which = f" {arm_with_k(suggestion.arm, suggestion.gamma)}" if suggestion.arm else ""
        print_text(
            f"{suggestion.workload}, {suggestion.pattern} (concurrency {suggestion.concurrency}): "
            f"{suggestion.action}{which}"
        )
        for line in suggestion.reasons:
            print_text(f"  {line.basis}: {line.text}")
    if advice:
        _show_predictions(predicted)
    else:
        print_text(
            "No speculating arm has a valid run beside the baseline: "
            f"measure one with {FIRST_GAMMA} drafted tokens next (rule of thumb)."
        )


def _of(advice: Advice, predicted: Sequence[Prediction]) -> list[Prediction]:
    cell = (advice.workload, advice.pattern, advice.concurrency)
    return [
        prediction
        for prediction in predicted
        if (prediction.run.workload, prediction.run.pattern, prediction.run.concurrency) == cell
    ]


def _show_predictions(predicted: Sequence[Prediction]) -> None:
    print_text("\nEach run beside what theory predicts from the acceptance of its first position (alpha):")
    lengths = ("alpha", "alpha to break even", "length predicted", "measured", "best k by theory")
    speeds = ("speed-up predicted", "measured", "assuming a draft cost of", "from", "implied cost")
    print_table(
        ("run", "workload", "pattern", "arm", "k", *lengths, *speeds), [_row(prediction) for prediction in predicted]
    )


def _row(prediction: Prediction) -> tuple[object, ...]:
    run = prediction.run
    about = (run.run_id, run.workload, run.pattern, run.arm, run.gamma)
    numbers = (prediction.alpha, prediction.break_even_alpha, prediction.predicted_length, run.acceptance_length)
    speeds = (prediction.predicted_speedup, run.speedup, prediction.draft_cost)
    ends = (*map(figure, speeds), prediction.draft_cost_from, figure(prediction.implied_draft_cost))
    return (*about, *map(figure, numbers), prediction.best_gamma, *ends)


def _as_dict(prediction: Prediction) -> dict[str, object]:
    """Return the run's measurements and its prediction in one flat dictionary."""
    predicted = {field.name: getattr(prediction, field.name) for field in fields(prediction) if field.name != "run"}
    return {**asdict(prediction.run), **predicted}
