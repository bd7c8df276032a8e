"""Verbs that judge: what the checks are, whether an arm is faster, what its draft guessed right, what a study advises,
what its tokens cost.

What they print is made in files of their own, which are imported when they are asked for: SciPy would cost every other
command a second.
"""

# ruff: noqa: PLC0415 - see above
from __future__ import annotations

from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
StudyId = Annotated[str, typer.Argument(help="A job's id, the beginning of a study's digest, or a study's name.")]
Baseline = Annotated[str | None, typer.Option(help="An arm; by default the study's own baseline.")]
Metric = Annotated[
    str,
    typer.Option(
        help="throughput, ttft, tpot, e2e, acceptance, cost, energy, or a column of results that is better higher or "
        "lower."
    ),
]
AsTable = Annotated[
    bool, typer.Option("--table", help="A table of ratios for each arm, with geometric means, and its whole sweep.")
]
Side = Annotated[str, typer.Option(help="Of the table: workload, dataset, category, load or concurrency.")]
Limit = Annotated[
    str | None, typer.Option(help="Exit 1 if an arm is surely slower by more than this (5%), 3 if it cannot be told.")
]
Utilisation = Annotated[
    float | None, typer.Option(help="Share of the hours paid for in which the hardware works, above 0 to 1.")
]
PerHour = Annotated[float | None, typer.Option(help="USD an hour, instead of the study's or the book's.")]

DraftCost = Annotated[
    float | None,
    typer.Option(help="Time of a draft step over that of a target step; by default what the runs themselves tell."),
]


def checks(*, as_json: AsJson = False) -> None:
    """List the checks that every run is judged by: what each looks at, its threshold and why."""
    from cli.checks import show_checks

    show_checks(as_json=as_json)


def compare(
    study: StudyId,
    *,
    baseline: Baseline = None,
    metric: Metric = "output_tok_per_s",
    table: AsTable = False,
    rows: Side = "workload",
    columns: Side = "load",
    price_per_hour: PerHour = None,
    fail_if_slower: Limit = None,
    as_json: AsJson = False,
) -> None:
    """Say of every arm whether it is faster than the baseline, and how sure that is."""
    from cli.compare import Question, show_comparison, show_table

    question = Question(study, metric, baseline, price_per_hour)
    if table:
        status = show_table(question, (rows, columns), fail_if_slower=fail_if_slower, as_json=as_json)
    else:
        status = show_comparison(question, fail_if_slower=fail_if_slower, as_json=as_json)
    raise SystemExit(status)


def acceptance(study: StudyId, *, as_json: AsJson = False) -> None:
    """Say how much of what was drafted each arm accepted: by position, by kind of text, by request and over time."""
    from cli.acceptance import show_acceptance

    show_acceptance(study, as_json=as_json)


def advise(study: StudyId, *, draft_cost: DraftCost = None, as_json: AsJson = False) -> None:
    """Say for each workload and concurrency whether to enable speculation, with evidence and what theory predicts."""
    from cli.advise import show_advice

    show_advice(study, draft_cost, as_json=as_json)


def cost(
    study: StudyId, *, price_per_hour: PerHour = None, utilisation: Utilisation = None, as_json: AsJson = False
) -> None:
    """Say what a million tokens cost with each arm, and what it saves against the baseline."""
    from cli.checks import show_costs

    show_costs(study, price_per_hour, utilisation, as_json=as_json)


VERBS = (checks, compare, acceptance, advise, cost)
