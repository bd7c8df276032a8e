"""`drafthouse compare`: each arm's ratio to the baseline, as a list or (`--table`) as a table of cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal

import typer

from cli.arguments import AsJson, PricePerHour, StudyId, share
from cli.lab import the_lab
from cli.output import figure, print_json, print_table, print_text
from cli.results import results_of
from cli.verbs.analyse.across import show_across
from lab.advice.gate import gate
from lab.comparison import breakeven
from lab.comparison.agreement import Agreement
from lab.comparison.compare import Comparison
from lab.comparison.effect import Interval
from lab.comparison.tables import RatioTable
from lab.comparison.verdict import READING_WORDS, Judged
from lab.errors import UserError
from lab.metrics.catalogue import SHORT_NAMES
from lab.metrics.number_format import bounds, percentage, ratio, times
from warehouse.queries.comparing.answers import provenance
from warehouse.queries.comparing.by_group import METRICS, Group, by_group
from warehouse.queries.comparing.comparisons import (
    Pair,
    StudyComparison,
    agreements,
    break_evens,
    compare_study,
    controls,
)
from warehouse.queries.comparing.documents import (
    comparison_document,
    quality_document,
    standing_document,
    study_findings,
)
from warehouse.queries.comparing.paired_runs import ArmRuns
from warehouse.queries.comparing.quality import qualities, sentences_of
from warehouse.queries.comparing.ratio_tables import ArmTable, arm_tables
from warehouse.queries.comparing.stored import multiplicity

_SLOWER, _INCONCLUSIVE = 1, 3
_THROUGHPUT = "output_tok_per_s"
#: Of the earlier jobs that inform the noise.
_MOST_NAMED = 5
_MARKS = {"faster": "+", "slower": "-", "no difference": "=", "inconclusive": "?", "control": "*"}

Baseline = Annotated[str | None, typer.Option(help="An arm; default: the study's own baseline.")]
Metric = Annotated[
    str,
    typer.Option(help=f"{', '.join(SHORT_NAMES)}, or a column of `results` with a better direction."),
]
AsTable = Annotated[bool, typer.Option("--table", help="Print a table of ratios per arm, with geometric means.")]
Side = Annotated[str, typer.Option(help="With --table: workload, dataset, category, load, concurrency.")]
By = Annotated[
    Literal["turn", "context"] | None,
    typer.Option(
        help=f"Each arm by turn or length of context, in {METRICS[0]}; with --metric in {' or '.join(METRICS[1:])}."
    ),
]
Strict = Annotated[
    bool,
    typer.Option("--strict", help="No false call in the whole table (Holm)."),
]
Limit = Annotated[
    str | None,
    typer.Option(help="For CI, like 5%: exit 1 if an arm is certainly slower by more, 3 if inconclusive."),
]

Judgement = Annotated[
    str | None,
    typer.Option(help="Show the verdicts of this judgement."),
]
Again = Annotated[
    bool,
    typer.Option("--judge-again", help="Store verdicts with today's history and analysis beside the first."),
]
Others = Annotated[
    list[str] | None,
    typer.Option(
        "--with",
        metavar="STUDY",
        help="Compare this study's arms with the first one's baseline. Repeatable.",
    ),
]
Runs = Annotated[list[str] | None, typer.Option("--run", metavar="ID", help="With --with: only this run. Repeatable.")]
AnyWorkload = Annotated[bool, typer.Option("--any-workload", help="With --with: whatever the workload.")]


def compare(
    study: StudyId,
    *,
    others: Others = None,
    runs: Runs = None,
    any_workload: AnyWorkload = False,
    baseline: Baseline = None,
    metric: Metric = _THROUGHPUT,
    table: AsTable = False,
    rows: Side = "workload",
    columns: Side = "load",
    by: By = None,
    price_per_hour: PricePerHour = None,
    strict: Strict = False,
    fail_if_slower: Limit = None,
    judgement: Judgement = None,
    judge_again: Again = False,
    as_json: AsJson = False,
) -> None:
    """Compare each arm with the baseline: ratio, 95 % interval and verdict.

    Verdicts are those stored when the study ended.
    """
    if others:
        paired_only = {"--table": table, "--by": by, "--strict": strict, "--fail-if-slower": fail_if_slower}
        _refuse_options("--with", paired_only | {"--judgement": judgement, "--judge-again": judge_again})
        show_across(
            [study, *others], metric, baseline, runs or (), price_per_hour, any_workload=any_workload, as_json=as_json
        )
        return
    if runs or any_workload:
        raise UserError("--run and --any-workload belong to --with: arms of one study are compared with all their runs")
    if judge_again:
        _refuse_options("--judge-again", {"--fail-if-slower": fail_if_slower, "--json": as_json})
        judged = the_lab().judge_again(study)
        print_text(f"Judged again: as soon as it is published, --judgement {judged} shows it beside the first.")
        return
    if by is not None:
        _refuse_options("--by", {"--fail-if-slower": fail_if_slower, "--table": table, "--strict": strict})
        compare_groups(study, by, metric, baseline, as_json=as_json)
        return
    limit = None if fail_if_slower is None else share(fail_if_slower)
    strict = strict or limit is not None
    with results_of(study) as con:
        comparison = compare_study(
            con,
            study,
            metric,
            baseline=baseline,
            price_usd_per_hour=price_per_hour,
            strict=strict,
            judgement=judgement,
        )
        refuse_empty_baseline(comparison)
        lost = provenance(con, comparison).lost
        if lost and not as_json:
            print_text(f"lost runs: {lost}")
        if table:
            tables = arm_tables(con, comparison, rows, columns)
            (_print_tables_json if as_json else _show_tables)(comparison, tables, (rows, columns))
        else:
            agreed = [agreement for _, agreement in agreements(con, comparison)]
            findings, found = study_findings(con, comparison), qualities(con, comparison)
            if as_json:
                more = {"quality": quality_document(found), "findings": findings}
                print_json(comparison_document(comparison, agreed) | more)
            else:
                _show(comparison, agreed, findings)
                for each in found:
                    for sentence in sentences_of(each):
                        print_text(f"quality of {each.arm} on {each.workload}: {sentence}")
    raise SystemExit(0 if limit is None else exit_status(comparison, limit))


def _refuse_options(option: str, given: Mapping[str, object]) -> None:
    if named := [name for name, value in given.items() if value]:
        raise UserError(f"{named[0]} and {option} do not go together: leave out one of them")


def compare_groups(
    study: str, by: Literal["turn", "context"], metric: str, baseline: str | None, *, as_json: bool
) -> None:
    """Print every arm at every turn or context. Raises UserError where the study has no such numbers."""
    of: Any = METRICS[0] if metric == _THROUGHPUT else metric
    with results_of(study) as con:
        groups = by_group(con, study, by, of, baseline=baseline)
    if not groups:
        raise UserError(
            f"{study} has no numbers by {by}: only sessions have turns, and only measured requests have contexts"
        )
    arms = dict.fromkeys(group.arm for group in groups)
    if baseline is not None and baseline not in arms:
        raise UserError(f"no arm {baseline!r} has numbers by {by}: the arms that have are {', '.join(arms)}")
    if as_json:
        print_json([asdict(group) for group in groups])
        return
    head = ("workload", "pattern", by, "arm", "requests", of, "ratio", "verdict", "acceptance length")
    print_table(head, [_group_row(group) for group in groups])


def _group_row(group: Group) -> tuple[object, ...]:
    ratio_words = "" if group.ratio is None else ratio(group.ratio.value, group.ratio.low, group.ratio.high)
    length = None if group.length is None else group.length.value
    step = group.turn if group.context_tokens is None else group.context_tokens
    head = (group.workload, group.pattern, step, group.arm, group.requests)
    return (*head, figure(group.mean_ms), ratio_words, group.word, figure(length))


def exit_status(comparison: StudyComparison, limit: float) -> int:
    """Return 1 if an arm is certainly slower than the limit, 0 if certainly none is, 3 if that is inconclusive."""
    answer = gate([pair.comparison for pair in comparison.pairs], limit)
    return {"slower": _SLOWER, "not slower": 0, "inconclusive": _INCONCLUSIVE}[answer]


def refuse_empty_baseline(comparison: StudyComparison) -> None:
    """Raise UserError if the baseline lacks a metric that candidates have, such as acceptance."""
    having = [pair.candidate.arm for pair in comparison.pairs if _has_values(pair.candidate)]
    if having and not any(_has_values(pair.baseline) for pair in comparison.pairs):
        named = ", ".join(map(repr, dict.fromkeys(having)))
        raise UserError(
            f"{comparison.baseline!r} has no {comparison.metric}: choose a --baseline that has it, one of {named}"
        )


def _has_values(arm: ArmRuns) -> bool:
    return any(run.value is not None for run in arm.runs)


def _show(comparison: StudyComparison, agreed: Sequence[Agreement], findings: Sequence[dict[str, str]]) -> None:
    print_text(f"{comparison.metric}, each arm against {comparison.baseline!r} ({', '.join(comparison.jobs)})\n")
    columns = ("arm", "verdict", "ratio", "95 % interval", "workload", "pattern", "same output", "degenerate", "from")
    print_table(columns, [_row(pair, agreement) for pair, agreement in zip(comparison.pairs, agreed, strict=True)])
    _show_reading(comparison)
    for pair in comparison.pairs:
        if alone := pair.alone_sentence:
            print_text(f"{pair.candidate.arm} on {pair.cell.workload}, {pair.cell.pattern}: {alone}")
    for (arm, workload), even in break_evens(comparison).items():
        print_text(f"{arm} on {workload}: {breakeven.sentence(even)}")
    for finding in findings:
        print_text(f"{finding['severity']}: {finding['sentence']} {finding['advice']}")


def _show_reading(comparison: StudyComparison) -> None:
    """Print the reading of the verdicts, when they were stored, and how large the noise is by the controls."""
    print_text(f"verdicts: {READING_WORDS[comparison.strict]}")
    print_text(f"metrics: {multiplicity(strict=comparison.strict)}")
    print_text(f"standing: {comparison.standing}")
    if comparison.history_jobs:
        print_text(f"noise: informed by the earlier {_named(comparison.history_jobs)}")
    for judged in comparison.judged:
        if comparison.stored is None or judged != comparison.stored.judging:
            print_text(f"other verdicts: {judged.label}: --judgement {judged.judgement_id}")
    for arm, control in controls(comparison).items():
        print_text(f"{arm} is a control, {control.sentence}")


def _named(jobs: Sequence[str]) -> str:
    more = f" and {len(jobs) - _MOST_NAMED} more" if len(jobs) > _MOST_NAMED else ""
    return f"{'job' if len(jobs) == 1 else 'jobs'} {', '.join(jobs[:_MOST_NAMED])}{more}"


def _row(pair: Pair, agreed: Agreement) -> tuple[str, ...]:
    ratio = pair.ratio
    needed = pair.verdict.would_decide
    word = f"{pair.verdict.word} ({needed})" if needed else pair.verdict.word
    shown = "" if ratio is None else times(ratio.value, ratio.low, ratio.high)
    outputs = (_same(agreed), _degenerate(agreed))
    return (
        pair.candidate.arm,
        word,
        shown,
        "" if ratio is None else bounds(ratio.value, ratio.low, ratio.high),
        pair.cell.workload,
        pair.cell.pattern,
        *outputs,
        pair.comparison.basis,
    )


def _same(agreed: Agreement) -> str:
    """Return the share of equal outputs, and the first token at which the others differ, counted from 1."""
    if agreed.same_share is None:
        return ""
    exact, estimated = agreed.median_first_differing_token, agreed.median_estimated_first_differing_token
    at = "" if estimated is None else f", else from {'' if exact is not None else 'about '}token {estimated + 1:.0f}"
    return f"{percentage(agreed.same_share.value)}{at}"


def _degenerate(agreed: Agreement) -> str:
    """Return the share of degenerate outputs, of the baseline and of the arm."""
    shares = (agreed.baseline_degenerate_share, agreed.candidate_degenerate_share)
    known = [percentage(share) for share in shares if share is not None]
    return " / ".join(known) if len(known) == len(shares) else ""


def _show_tables(comparison: StudyComparison, tables: Sequence[ArmTable], sides: tuple[str, str]) -> None:
    rows, columns = sides
    print_text(f"{comparison.metric}, ratio to {comparison.baseline!r} ({', '.join(comparison.jobs)})")
    marks = (f"{mark} {word}" for word, mark in _MARKS.items() if word != "control" or controls(comparison))
    print_text(f"{', '.join(marks)}; in brackets 95 % intervals")
    _show_reading(comparison)
    for arm_table in tables:
        table = arm_table.table
        print_text(f"\n{arm_table.arm}: {rows} by {columns}")
        lines = [_line(row, table, _mean_of(arm_table, row)) for row in table.rows]
        print_table((rows, *table.columns, "geometric mean"), [*lines, _last_line(arm_table)])
        print_text(_sweep_sentence(arm_table))


def _print_tables_json(comparison: StudyComparison, tables: Sequence[ArmTable], sides: tuple[str, str]) -> None:
    about = {
        "jobs": comparison.jobs,
        "metric": comparison.metric,
        "baseline": comparison.baseline,
        "strict": comparison.strict,
        "standing": standing_document(comparison),
        "controls": {arm: control.sentence for arm, control in controls(comparison).items()},
    }
    print_json(
        about | {"rows": sides[0], "columns": sides[1], "tables": [_table_dict(arm_table) for arm_table in tables]}
    )


def _mean_of(arm_table: ArmTable, row: str) -> Interval | None:
    """Return the mean of a row with its interval: a single row is the whole sweep, whose verdict has its own."""
    return arm_table.sweep.ratio if len(arm_table.table.rows) == 1 else arm_table.sweeps_by_row[row].ratio


def _line(row: str, table: RatioTable, within: Interval | None) -> list[str]:
    cells = [table.cells.get((row, column)) for column in table.columns]
    mean = table.gmeans_by_row[row] if within is None else within.value
    return [row, *(_cell(cell) for cell in cells), "" if mean is None else f"{times(mean)}{_in_brackets(within)}"]


def _last_line(arm_table: ArmTable) -> list[str]:
    table, sweep = arm_table.table, arm_table.sweep.ratio
    of_all = table.gmean if sweep is None else sweep.value
    means = [*(table.gmeans_by_column[column] for column in table.columns), of_all]
    return ["geometric mean", *("" if mean is None else times(mean) for mean in means)]


def _cell(cell: Judged | None) -> str:
    if cell is None or cell.ratio is None:
        return ""
    return f"{_times(cell.ratio)} {_MARKS[cell.verdict.word]}{_in_brackets(cell.ratio)}"


def _times(ratio: Interval) -> str:
    return times(ratio.value, ratio.low, ratio.high)


def _in_brackets(ratio: Interval | None) -> str:
    return "" if ratio is None else f" {bounds(ratio.value, ratio.low, ratio.high)}".rstrip()


def _sweep_sentence(arm_table: ArmTable) -> str:
    sweep = arm_table.sweep
    if sweep.ratio is None:
        return "whole sweep: no repeat has every cell of both arms"
    ratio = f"{_times(sweep.ratio)}{_in_brackets(sweep.ratio)}"
    return f"whole sweep: {ratio}, {sweep.verdict.word}, from {sweep.comparison.basis}"


def _table_dict(arm_table: ArmTable) -> dict[str, object]:
    table = arm_table.table
    return {
        "arm": arm_table.arm,
        "cells": [{"row": row, "column": column} | _cell_dict(cell) for (row, column), cell in table.cells.items()],
        "gmeans_by_row": table.gmeans_by_row,
        "gmeans_by_column": table.gmeans_by_column,
        "gmean": table.gmean,
        "sweep": _cell_dict(arm_table.sweep),
        "sweeps_by_row": {row: _comparison_dict(sweep) for row, sweep in arm_table.sweeps_by_row.items()},
    }


def _cell_dict(cell: Judged) -> dict[str, object]:
    ratio = None if cell.ratio is None else asdict(cell.ratio)
    return _comparison_dict(cell.comparison) | {"ratio": ratio, "verdict": asdict(cell.verdict)}


def _comparison_dict(comparison: Comparison) -> dict[str, object]:
    ratio = None if comparison.ratio is None else asdict(comparison.ratio)
    return {
        "ratio": ratio,
        "basis": comparison.basis,
        "repeats": comparison.repeats,
        "independent_repeats": comparison.blocks,
    }
