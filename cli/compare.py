"""What `drafthouse compare` prints: each arm's ratio, how sure it is, and whether it wrote the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import duckdb
import pandas as pd

from cli.output import print_json, print_table
from cli.ratio_table import print_tables_json, show_tables
from lab.comparison.agreement import Agreement
from lab.comparison.effect import Interval
from lab.errors import UserError
from warehouse.queries import results
from warehouse.queries.comparisons import Pair, StudyComparison, agreements, break_evens, compare_study
from warehouse.queries.connect import open_warehouse
from warehouse.queries.paired_runs import ArmRuns
from warehouse.queries.ratio_tables import arm_tables
from warehouse.settings import load_settings

_SLOWER, _UNDECIDED = 1, 3


@dataclass(frozen=True)
class Question:
    """What is compared; the price counts for costs only."""

    study: str
    metric: str
    baseline: str | None
    price_usd_per_hour: float | None

    def ask(self, con: duckdb.DuckDBPyConnection) -> StudyComparison:
        """Raises UserError, also where the baseline cannot have the metric and others have it."""
        found = compare_study(
            con, self.study, self.metric, baseline=self.baseline, price_usd_per_hour=self.price_usd_per_hour
        )
        having = [pair.candidate.arm for pair in found.pairs if _has_values(pair.candidate)]
        if having and not any(_has_values(pair.baseline) for pair in found.pairs):
            named = ", ".join(map(repr, dict.fromkeys(having)))
            raise UserError(f"{found.baseline!r} has no {found.metric}: choose a --baseline that has it, of {named}")
        return found


def show_comparison(question: Question, *, fail_if_slower: str | None, as_json: bool) -> int:
    """The exit status. Raises UserError."""
    limit = None if fail_if_slower is None else _share(fail_if_slower)
    with open_warehouse(load_settings().warehouse_file) as con:
        found = question.ask(con)
        together = _of_all_runs(con, found)
        agreed = [each for _, each in agreements(con, found)]
    if as_json:
        print_json(_as_dict(found, agreed) | {"findings": together})
    else:
        _show(found, agreed)
        for finding in together:
            print(f"{finding['severity']}: {finding['sentence']} {finding['advice']}")
    return 0 if limit is None else exit_status(found, limit)


def show_table(question: Question, sides: tuple[str, str], *, fail_if_slower: str | None, as_json: bool) -> int:
    """The exit status, which is that of the comparison without a table. Raises UserError."""
    limit = None if fail_if_slower is None else _share(fail_if_slower)
    with open_warehouse(load_settings().warehouse_file) as con:
        found = question.ask(con)
        tables = arm_tables(con, found, *sides)
    (print_tables_json if as_json else show_tables)(found, tables, sides)
    return 0 if limit is None else exit_status(found, limit)


def exit_status(found: StudyComparison, limit: float) -> int:
    """1 where an arm's whole interval lies beyond the limit; else 3 where one reaches beyond it, or has no interval."""
    gains = [pair.comparison.gain for pair in found.pairs]
    worst = 1 - limit
    if any(gain is not None and gain.high is not None and gain.high < worst for gain in gains):
        return _SLOWER
    decided = all(gain is not None and gain.low is not None and gain.low >= worst for gain in gains)
    return 0 if decided and gains else _UNDECIDED


def _has_values(arm: ArmRuns) -> bool:
    return any(run.value is not None for run in arm.runs)


def _of_all_runs(con: duckdb.DuckDBPyConnection, found: StudyComparison) -> list[dict[str, str]]:
    """What the checks say of each job as a whole."""
    every = pd.concat([results.findings(con, job_id) for job_id in found.jobs])
    chosen = every[every["run_id"].isna()][["severity", "check_name", "sentence", "advice"]]
    return [{str(name): str(value) for name, value in row.items()} for row in chosen.to_dict("records")]


def _share(text: str) -> float:
    try:
        share = float(text.removesuffix("%")) / 100 if text.endswith("%") else float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise UserError(f"--fail-if-slower {text!r} is no share: write 5% or 0.05")
    return share


def _show(found: StudyComparison, agreed: Sequence[Agreement]) -> None:
    print(f"{found.metric}, each arm against {found.baseline!r} ({', '.join(found.jobs)})\n")
    columns = ("workload", "pattern", "arm", "ratio", "95 % interval", "verdict", "same output", "degenerate", "from")
    print_table(columns, [_row(pair, each) for pair, each in zip(found.pairs, agreed, strict=True)])
    for (arm, workload), even in break_evens(found).items():
        at = ", ".join(f"{crossing.concurrency:.1f}" for crossing in even.crossings)
        where = f"crosses 1 at concurrency {at}" if at else even.answer
        print(f"{arm} on {workload}: {where}{'' if even.sure else ' (not sure)'}")


def _row(pair: Pair, agreed: Agreement) -> tuple[str, ...]:
    ratio = pair.comparison.ratio
    more = pair.verdict.more_repeats
    word = pair.verdict.word + (f" ({more} more repeats)" if more else "")
    shown = "" if ratio is None else f"{ratio.value:.3f}"
    place = pair.place
    figures = (shown, _bounds(ratio), word, _same(agreed), _degenerate(agreed), pair.comparison.basis)
    return (place.workload, place.pattern, pair.candidate.arm, *figures)


def _same(agreed: Agreement) -> str:
    """The share, and where those that differ begin to; tokens count from 1 for people."""
    if agreed.same_share is None:
        return ""
    exact, estimated = agreed.median_first_differing_token, agreed.median_estimated_first_differing_token
    at = "" if estimated is None else f", else from {'' if exact is not None else 'about '}token {estimated + 1:.0f}"
    return f"{agreed.same_share.value:.0%}{at}"


def _degenerate(agreed: Agreement) -> str:
    """Of the baseline's outputs and of the arm's."""
    shares = (agreed.baseline_degenerate_share, agreed.candidate_degenerate_share)
    return "" if None in shares else " / ".join(f"{share:.0%}" for share in shares)


def _bounds(ratio: Interval | None) -> str:
    return "" if ratio is None or ratio.low is None or ratio.high is None else f"{ratio.low:.3f} to {ratio.high:.3f}"


def _as_dict(found: StudyComparison, agreed: Sequence[Agreement]) -> dict[str, object]:
    return {
        "jobs": found.jobs,
        "metric": found.metric,
        "unit": found.unit,
        "baseline": found.baseline,
        "pairs": [
            {
                "workload": pair.place.workload,
                "pattern": pair.place.pattern,
                "concurrency": pair.place.concurrency,
                "arm": pair.candidate.arm,
                "ratio": None if pair.comparison.ratio is None else pair.comparison.ratio.__dict__,
                "difference": None if pair.comparison.difference is None else pair.comparison.difference.__dict__,
                "verdict": pair.verdict.__dict__,
                "basis": pair.comparison.basis,
                "same_output_share": None if each.same_share is None else each.same_share.__dict__,
                "outputs": _outputs_dict(each),
                "run_ids": [run.run_id for run in (*pair.baseline.runs, *pair.candidate.runs)],
            }
            for pair, each in zip(found.pairs, agreed, strict=True)
        ],
        "break_even": [
            {"arm": arm, "workload": workload, "answer": even.answer, "sure": even.sure}
            | {"crossings": [crossing.__dict__ for crossing in even.crossings]}
            for (arm, workload), even in break_evens(found).items()
        ],
    }


def _outputs_dict(agreed: Agreement) -> dict[str, object]:
    """All but the single prompts; positions count from 0."""
    told = {field.name: getattr(agreed, field.name) for field in fields(agreed) if field.name != "pairs"}
    del told["same_share"]
    return {"prompts": len(agreed.pairs), "same": agreed.same, **told}
