"""`drafthouse acceptance`: how many drafted tokens each arm accepted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from cli.arguments import AsJson, StudyId, only_one_of
from cli.output import figure, print_json, print_literally, print_table, print_text
from cli.results import results_of
from lab.comparison.acceptance import FALSE_ALARMS, LEAST_CHANGE, LEAST_RUNS, RULE, MatrixCell, RankCorrelation
from lab.errors import UserError
from lab.metrics.number_format import percentage
from lab.published.golden import GoldenLength, golden_text
from warehouse.queries import matrix as queries
from warehouse.queries.acceptance import ArmAcceptance, History, histories, study_acceptance

Matrix = Annotated[bool, typer.Option("--matrix", help="Only acceptance lengths by arm and category, with intervals.")]
Beside = Annotated[
    list[str] | None,
    typer.Option("--beside", metavar="STUDY", help="With --matrix: also this study's arms, of any target."),
]
Golden = Annotated[
    bool, typer.Option("--golden", help="Print the lengths in the form of InferenceX's golden files (YAML).")
]


def acceptance(
    study: StudyId,
    *,
    matrix: Matrix = False,
    beside: Beside = None,
    golden: Golden = False,
    as_json: AsJson = False,
) -> None:
    """Show how many drafted tokens each arm accepted, and where.

    By position, category and request, and over time.
    """
    if beside and not matrix:
        raise UserError("--beside adds a study to the table of --matrix: give both")
    only_one_of(golden=golden, matrix=matrix)
    only_one_of(golden=golden, as_json=as_json)
    with results_of(study) as con:
        if matrix:
            studies = (study, *(beside or ()))
            _print_matrix([cell for each in studies for cell in queries.acceptance_matrix(con, each)], as_json=as_json)
            return
        if golden:
            _print_golden(study, queries.acceptance_of_arms(con, study))
            return
        arms, over_time = study_acceptance(con, study), histories(con, study)
    if as_json:
        print_json({"arms": [_as_dict(arm) for arm in arms], "drift": _drift_dict(over_time)})
        return
    cell = ("workload", "pattern", "arm")
    columns = ("k", "rate", "length", "by position", "conditional", "length with smaller k (estimate)", "from")
    print_table((*cell, *columns), [_row(arm) for arm in arms])
    print_literally()
    rows = [row for arm in arms for row in _category_rows(arm)]
    print_table((*cell, "category", "rate", "length", "rounds"), rows)
    print_text("\nRequests that accept more tokens per round, against their latency (Spearman's rho, 95 % interval):")
    print_table((*cell, "TPOT", "E2E", "prompts"), [_latency_row(arm) for arm in arms])
    print_text("\nOver time, every valid run of the same cell in any study:")
    for history in over_time:
        print_text(f"{history.arm} on {history.cell.workload}, {history.cell.pattern}: {_drift_sentence(history)}")
    print_text(RULE)


def _print_matrix(cells: Sequence[MatrixCell], *, as_json: bool) -> None:
    if as_json:
        print_json([asdict(cell) for cell in cells])
        return
    columns = ("target", "arm", "k", "category", "length", "95 % from", "to", "prompts", "rounds")
    print_table(columns, [_matrix_row(cell) for cell in cells])


def _matrix_row(cell: MatrixCell) -> tuple[object, ...]:
    of, k = (cell.target, cell.arm, cell.num_speculative_tokens), cell.length
    return (*of, cell.category, figure(k.value), figure(k.low), figure(k.high), cell.prompts, cell.rounds)


def _print_golden(study: str, cells: Sequence[MatrixCell]) -> None:
    """Print one file for each arm, because the form does not distinguish arms with as many drafted tokens."""
    for arm in dict.fromkeys(cell.arm for cell in cells):
        own = [cell for cell in cells if cell.arm == arm]
        about = [f"Measured by Drafthouse in the study {study}: acceptance length (AL) of {arm}"]
        about += ["AL = 1 + accepted draft tokens / verification rounds; key = num_speculative_tokens"]
        lengths = [
            GoldenLength(cell.target, queries.MEASURED_MODE, cell.num_speculative_tokens, cell.length.value)
            for cell in own
        ]
        print_literally(golden_text(lengths, about))


def _row(arm: ArmAcceptance) -> tuple[object, ...]:
    acceptance = arm.acceptance
    fewer = ", ".join(f"k={k}: {figure(estimate.length)}" for k, estimate in arm.fewer.items())
    positions = (_shares(acceptance.per_position), _shares(acceptance.conditional))
    cell = (arm.cell.workload, arm.cell.pattern, arm.arm, arm.num_speculative_tokens)
    return (*cell, _share(acceptance.rate), figure(acceptance.length), *positions, fewer, arm.source)


def _category_rows(arm: ArmAcceptance) -> list[tuple[object, ...]]:
    cell = (arm.cell.workload, arm.cell.pattern, arm.arm)
    return [
        (*cell, category, _share(acceptance.rate), figure(acceptance.length), acceptance.drafts)
        for category, acceptance in arm.categories.items()
    ]


def _latency_row(arm: ArmAcceptance) -> tuple[object, ...]:
    counts = [correlation.requests for correlation in arm.against.values() if correlation is not None]
    against = (_correlation(arm.against["tpot_ms"]), _correlation(arm.against["e2e_ms"]))
    return (arm.cell.workload, arm.cell.pattern, arm.arm, *against, max(counts, default=""))


def _drift_sentence(history: History) -> str:
    """Describe the state of the last run, or every change in the history."""
    last, when = history.moments[-1], history.sources[-1].started_at
    if not history.changes:
        count = "1 run" if len(history.moments) == 1 else f"{len(history.moments)} runs"
        runs = f"{count} until {when:%Y-%m-%d}, the last {last.value:.3f}"
        return f"{last.state}, {runs}{_limits(last.low, last.high)}"
    changes = (
        f"{source.started_at:%Y-%m-%d} from about {moment.expected:.3f}{_limits(moment.low, moment.high)} "
        f"to {moment.value:.3f} (run {moment.run_id})"
        for moment, source in history.changes
    )
    return f"changed on {'; on '.join(changes)}"


def _limits(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f", limits {low:.3f} to {high:.3f}"


def _correlation(correlation: RankCorrelation | None) -> str:
    if correlation is None:
        return ""
    low, high = correlation.rho.low, correlation.rho.high
    return f"{correlation.rho.value:+.2f}" + ("" if low is None or high is None else f" ({low:+.2f} to {high:+.2f})")


def _shares(rates: Sequence[float | None] | None) -> str:
    return "" if rates is None else " ".join("-" if rate is None else f"{rate:.2f}" for rate in rates)


def _share(rate: float | None) -> str:
    return "" if rate is None else percentage(rate, 1)


def _as_dict(arm: ArmAcceptance) -> dict[str, object]:
    return {
        "workload": arm.cell.workload,
        "pattern": arm.cell.pattern,
        "concurrency": arm.cell.concurrency,
        "arm": arm.arm,
        "method": arm.method,
        "draft_model": arm.draft_model,
        "num_speculative_tokens": arm.num_speculative_tokens,
        **asdict(arm.acceptance),
        "source": arm.source,
        "with_fewer_tokens": [{"num_speculative_tokens": k} | asdict(e) for k, e in arm.fewer.items()],
        "by_category": {category: asdict(acceptance) for category, acceptance in arm.categories.items()},
        "against_latency": {
            name: None if correlation is None else asdict(correlation) for name, correlation in arm.against.items()
        },
        "run_ids": arm.run_ids,
    }


def _drift_dict(over_time: Sequence[History]) -> dict[str, object]:
    return {
        "rule": RULE,
        "false_alarms": FALSE_ALARMS,
        "least_change": LEAST_CHANGE,
        "least_runs": LEAST_RUNS,
        "histories": [
            {
                "workload": history.cell.workload,
                "pattern": history.cell.pattern,
                "concurrency": history.cell.concurrency,
                "arm": history.arm,
                "changed": bool(history.changes),
                "runs": [
                    asdict(moment) | asdict(source)
                    for moment, source in zip(history.moments, history.sources, strict=True)
                ],
            }
            for history in over_time
        ],
    }
