"""`drafthouse acceptance`: how many drafted tokens each arm accepted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from cli.arguments import AsJson, StudyId
from cli.home import ready_settings
from cli.output import print_json, print_table
from cli.results import results_of
from lab.comparison.acceptance import FALSE_ALARMS, LEAST_CHANGE, LEAST_RUNS, RULE, RankCorrelation
from warehouse.queries.acceptance import ArmAcceptance, History, histories, study_acceptance


def acceptance(study: StudyId, *, as_json: AsJson = False) -> None:
    """Show how many drafted tokens each arm accepted, and where.

    By position, by category, by request, and over time: every valid run of the same cell in any study.
    """
    with results_of(study, ready_settings().warehouse_file) as con:
        arms, over_time = study_acceptance(con, study), histories(con, study)
    if as_json:
        print_json({"arms": [_as_dict(each) for each in arms], "drift": _drift_dict(over_time)})
        return
    cell = ("workload", "pattern", "arm")
    columns = ("k", "rate", "length", "by position", "conditional", "length with smaller k (estimate)", "from")
    print_table((*cell, *columns), [_row(each) for each in arms])
    print()
    rows = [row for each in arms for row in _category_rows(each)]
    print_table((*cell, "category", "rate", "length", "rounds"), rows)
    print("\nRequests that accept more tokens per round, against their latency (Spearman's rho, 95 % interval):")
    print_table((*cell, "TPOT", "E2E", "prompts"), [_latency_row(each) for each in arms])
    print("\nOver time, every valid run of the same cell in any study:")
    for history in over_time:
        print(f"{history.arm} on {history.cell.workload}, {history.cell.pattern}: {_drift_sentence(history)}")
    print(RULE)


def _row(each: ArmAcceptance) -> tuple[object, ...]:
    found, place = each.acceptance, each.cell
    fewer = ", ".join(f"k={k}: {_number(estimate.length)}" for k, estimate in each.fewer.items())
    positions = (_shares(found.per_position), _shares(found.conditional))
    cell = (place.workload, place.pattern, each.arm, each.num_speculative_tokens)
    return (*cell, _share(found.rate), _number(found.length), *positions, fewer, each.source)


def _category_rows(each: ArmAcceptance) -> list[tuple[object, ...]]:
    cell = (each.cell.workload, each.cell.pattern, each.arm)
    return [
        (*cell, category, _share(found.rate), _number(found.length), found.drafts)
        for category, found in each.categories.items()
    ]


def _latency_row(each: ArmAcceptance) -> tuple[object, ...]:
    known = [found.requests for found in each.against.values() if found is not None]
    against = (_correlation(each.against["tpot_ms"]), _correlation(each.against["e2e_ms"]))
    return (each.cell.workload, each.cell.pattern, each.arm, *against, max(known, default=""))


def _drift_sentence(history: History) -> str:
    """The state of the last run, or every change in the history."""
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


def _correlation(found: RankCorrelation | None) -> str:
    if found is None:
        return ""
    low, high = found.rho.low, found.rho.high
    return f"{found.rho.value:+.2f}" + ("" if low is None or high is None else f" ({low:+.2f} to {high:+.2f})")


def _shares(rates: Sequence[float | None] | None) -> str:
    return "" if rates is None else " ".join("-" if rate is None else f"{rate:.2f}" for rate in rates)


def _share(rate: float | None) -> str:
    return "" if rate is None else f"{rate:.1%}"


def _number(length: float | None) -> str:
    return "" if length is None else f"{length:.3f}"


def _as_dict(each: ArmAcceptance) -> dict[str, object]:
    return {
        "workload": each.cell.workload,
        "pattern": each.cell.pattern,
        "concurrency": each.cell.concurrency,
        "arm": each.arm,
        "method": each.method,
        "draft_model": each.draft_model,
        "num_speculative_tokens": each.num_speculative_tokens,
        **asdict(each.acceptance),
        "source": each.source,
        "with_fewer_tokens": [{"num_speculative_tokens": k} | asdict(e) for k, e in each.fewer.items()],
        "by_category": {category: asdict(found) for category, found in each.categories.items()},
        "against_latency": {name: None if found is None else asdict(found) for name, found in each.against.items()},
        "run_ids": each.run_ids,
    }


def _drift_dict(over_time: Sequence[History]) -> dict[str, object]:
    return {
        "rule": RULE,
        "false_alarms": FALSE_ALARMS,
        "least_change": LEAST_CHANGE,
        "least_runs": LEAST_RUNS,
        "histories": [
            {
                "workload": each.cell.workload,
                "pattern": each.cell.pattern,
                "concurrency": each.cell.concurrency,
                "arm": each.arm,
                "changed": bool(each.changes),
                "runs": [
                    asdict(moment) | asdict(source) for moment, source in zip(each.moments, each.sources, strict=True)
                ],
            }
            for each in over_time
        ],
    }
