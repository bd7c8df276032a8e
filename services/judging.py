"""What the judging verbs print: checks, verdicts on arms, advice, costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import duckdb
import pandas as pd

from lab import validity
from lab.advise import advise
from lab.comparison.effect import Interval
from lab.errors import UserError
from lab.validity.table import declarations
from services.ratio_table import print_tables_json, show_tables
from services.show import print_json, print_table
from warehouse import queries
from warehouse.comparisons import Pair, StudyComparison, agreements, break_evens, compare_study
from warehouse.database import open_warehouse
from warehouse.ratio_tables import arm_tables
from warehouse.samples import ArmRuns
from warehouse.settings import load_settings
from warehouse.study_advice import measured
from warehouse.study_costs import ArmCost, study_costs

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


def show_checks(*, as_json: bool) -> None:
    if as_json:
        print_json(declarations())
    else:
        rows = [(check.name, check.severity, check.threshold, check.advice) for check in validity.ALL]
        print_table(("check", "severity", "fires", "what to do"), rows)


def show_comparison(question: Question, *, fail_if_slower: str | None, as_json: bool) -> int:
    """The exit status. Raises UserError."""
    limit = None if fail_if_slower is None else _share(fail_if_slower)
    with open_warehouse(load_settings()) as con:
        found = question.ask(con)
        together = _of_all_runs(con, found)
        same = [agreed.same_share for _, agreed in agreements(con, found)]
    if as_json:
        print_json(_as_dict(found, same) | {"findings": together})
    else:
        _show(found, same)
        for finding in together:
            print(f"{finding['severity']}: {finding['sentence']} {finding['advice']}")
    return 0 if limit is None else exit_status(found, limit)


def show_table(question: Question, sides: tuple[str, str], *, fail_if_slower: str | None, as_json: bool) -> int:
    """The exit status, which is that of the comparison without a table. Raises UserError."""
    limit = None if fail_if_slower is None else _share(fail_if_slower)
    with open_warehouse(load_settings()) as con:
        found = question.ask(con)
        tables = arm_tables(con, found, *sides)
    (print_tables_json if as_json else show_tables)(found, tables, sides)
    return 0 if limit is None else exit_status(found, limit)


def show_advice(study: str, *, as_json: bool) -> None:
    with open_warehouse(load_settings()) as con:
        advice = advise(measured(con, study))
    if as_json:
        print_json([asdict(one) for one in advice])
        return
    for one in advice:
        which = f" {one.arm} (k = {one.gamma})" if one.arm else ""
        print(f"{one.workload}, concurrency {one.concurrency}: {one.action}{which}")
        for line in one.because:
            print(f"  {line.sureness}: {line.text}")


def show_costs(study: str, price_per_hour: float | None, *, as_json: bool) -> None:
    with open_warehouse(load_settings()) as con:
        found = study_costs(con, study, price_per_hour)
    if as_json:
        print_json([asdict(each) for each in found])
        return
    columns = ("workload", "pattern", "arm", "per 10^6 output tokens", "with start-up", "per request", "saving")
    print_table((*columns, "currency", "price from"), [_cost_row(each) for each in found])


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
    every = pd.concat([queries.findings(con, job_id) for job_id in found.jobs])
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


def _show(found: StudyComparison, same: Sequence[Interval | None]) -> None:
    print(f"{found.metric}, each arm against {found.baseline!r} ({', '.join(found.jobs)})\n")
    columns = ("workload", "pattern", "arm", "ratio", "95 % interval", "verdict", "same output", "from")
    print_table(columns, [_row(pair, share) for pair, share in zip(found.pairs, same, strict=True)])
    for (arm, workload), even in break_evens(found).items():
        at = ", ".join(f"{crossing.concurrency:.1f}" for crossing in even.crossings)
        where = f"crosses 1 at concurrency {at}" if at else even.answer
        print(f"{arm} on {workload}: {where}{'' if even.sure else ' (not sure)'}")


def _row(pair: Pair, same: Interval | None) -> tuple[str, ...]:
    ratio = pair.comparison.ratio
    more = pair.verdict.more_repeats
    word = pair.verdict.word + (f" ({more} more repeats)" if more else "")
    shown = "" if ratio is None else f"{ratio.value:.3f}"
    place = pair.place
    agree = "" if same is None else f"{same.value:.0%}"
    figures = (shown, _bounds(ratio), word, agree, pair.comparison.basis)
    return (place.workload, place.pattern, pair.candidate.arm, *figures)


def _cost_row(each: ArmCost) -> tuple[object, ...]:
    saved = "" if each.saving is None else f"{each.saving:.1%}"
    if each.saving_low is not None and each.saving_high is not None:
        saved += f" ({each.saving_low:.1%} to {each.saving_high:.1%})"
    figures = (each.per_million_output_tokens, each.with_start_up, each.per_request, saved)
    return (each.place.workload, each.place.pattern, each.arm, *figures, each.currency, each.price_source)


def _bounds(ratio: Interval | None) -> str:
    return "" if ratio is None or ratio.low is None or ratio.high is None else f"{ratio.low:.3f} to {ratio.high:.3f}"


def _as_dict(found: StudyComparison, same: Sequence[Interval | None]) -> dict[str, object]:
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
                "same_output_share": None if share is None else share.__dict__,
                "run_ids": [run.run_id for run in (*pair.baseline.runs, *pair.candidate.runs)],
            }
            for pair, share in zip(found.pairs, same, strict=True)
        ],
        "break_even": [
            {"arm": arm, "workload": workload, "answer": even.answer, "sure": even.sure}
            | {"crossings": [crossing.__dict__ for crossing in even.crossings]}
            for (arm, workload), even in break_evens(found).items()
        ],
    }
