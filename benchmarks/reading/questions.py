"""Part questions: how long the queries of pages take on a warehouse of ten million requests in five thousand runs.

Each query runs as on its page, opening the published file included. Aim: 200 ms (median, warm). In addition one slice
over all requests, from our aggregates against pandas (all rows in memory); its results must be within 1 %
of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import duckdb

from benchmarks.reading import slices
from benchmarks.reading.filling import Size, filled_home
from benchmarks.table import Row, show, wall_ms
from host.settings import Settings
from lab.advice.advise import Advice, advise
from lab.metrics import histogram
from warehouse.queries import cell_queries, published
from warehouse.queries import results as queries
from warehouse.queries.acceptance import histories, study_acceptance
from warehouse.queries.advice_inputs import failed_arms, measured_arms, speculated_runs
from warehouse.queries.comparing.answers import headlines
from warehouse.queries.comparing.comparisons import StudyComparison, agreements, break_evens, compare_study
from warehouse.queries.comparing.ratio_tables import arm_tables, cell_values
from warehouse.queries.connect import open_warehouse
from warehouse.queries.costs import study_costs

AIM_MS = 200.0
_PRICE_USD_PER_HOUR = 2.0
Question = Callable[[duckdb.DuckDBPyConnection], object]


@dataclass(frozen=True)
class Asked:
    """The parameters of the queries: a job in the middle, one of its runs, and its comparison, which pages cache."""

    job: str
    run: str
    compared: StudyComparison


def run(settings: Settings, repeats: int, size: Size | None = None) -> None:
    """Fill a warehouse in a home of its own, run the queries, and print."""
    size = size or Size()
    with filled_home(settings, size) as own:
        gigabytes = own.warehouse_file.stat().st_size / 1e9
        about = f"{size.requests:,} requests in {size.runs:,} runs ({gigabytes:.2f} GB)"
        rows = [
            Row(f"{name} ms", milliseconds, [AIM_MS] * len(milliseconds), "1 at most")
            for name, milliseconds in ask_all(own, max(repeats, 3))
        ]
        show(f"Questions: {about}", "aim", rows)
        slices.run(own, repeats, about)


def ask_all(settings: Settings, repeats: int) -> list[tuple[str, Sequence[float]]]:
    """Return each query with the milliseconds of its warm repeats."""
    with open_warehouse(settings.warehouse_file) as connection:
        subjects = _asked(connection)
    questions = _queries(subjects) | _judgements(subjects)
    return [(name, _repeated(settings, question, repeats)) for name, question in questions.items()]


def _asked(connection: duckdb.DuckDBPyConnection) -> Asked:
    jobs = connection.execute("SELECT DISTINCT job_id FROM runs ORDER BY job_id").fetchall()
    job = jobs[len(jobs) // 2][0]
    (run_id,) = connection.execute("SELECT min(run_id) FROM runs WHERE job_id = ?", [job]).fetchone() or ("",)
    return Asked(job, run_id, compare_study(connection, job))


def _queries(subjects: Asked) -> dict[str, Question]:
    return {
        "jobs_with_results": queries.jobs_with_results,
        "headlines of targets": headlines,
        "results of a job": lambda con: queries.results(con, subjects.job),
        "values of cells": lambda con: cell_values(con, subjects.job, "output_tok_per_s"),
        "acceptance_per_position": lambda con: queries.acceptance_per_position(con, subjects.job),
        "failed_runs": lambda con: queries.failed_runs(con, subjects.job),
        "findings": lambda con: queries.findings(con, subjects.job),
        "run_seconds": queries.run_seconds,
        "percentiles of a cell": lambda con: _percentiles(con, subjects.compared),
        "a run": lambda con: queries.run(con, subjects.run),
        "findings of a run": lambda con: queries.run_findings(con, subjects.run),
        "requests of a run": lambda con: queries.requests_of(con, subjects.run),
        "requests of a run, whole": lambda con: queries.whole_requests(con, subjects.run),
        "texts of a request": lambda con: queries.request_texts(con, subjects.run, 0),
        "telemetry of a run": lambda con: queries.telemetry(con, subjects.run),
        "published sources": published.sources,
        "published figures": published.figures,
    }


def _judgements(subjects: Asked) -> dict[str, Question]:
    def compare(metric: str) -> Question:
        return lambda con: compare_study(con, subjects.job, metric, price_usd_per_hour=_PRICE_USD_PER_HOUR)

    return {
        "compare_study, tok/s": compare("output_tok_per_s"),
        "compare_study, p95 TTFT": compare("ttft_p95_ms"),
        "compare_study, cost": compare("cost_per_million_output_tokens"),
        "compare_study, break-even": lambda con: break_evens(compare_study(con, subjects.job)),
        "ratio tables": lambda con: arm_tables(con, subjects.compared),
        "agreement of a pair": lambda con: agreements(
            con, replace(subjects.compared, pairs=subjects.compared.pairs[:1])
        ),
        "advice": lambda con: _advice(con, subjects.job),
        "predicted, measured": lambda con: (
            measured_arms(con, subjects.compared),
            speculated_runs(con, subjects.compared),
        ),
        "study_acceptance": lambda con: study_acceptance(con, subjects.job),
        "acceptance over time": lambda con: histories(con, subjects.job),
        "study_costs": lambda con: study_costs(con, subjects.job, _PRICE_USD_PER_HOUR),
    }


def _advice(con: duckdb.DuckDBPyConnection, job: str) -> list[Advice]:
    comparison = compare_study(con, job)
    return advise(measured_arms(con, comparison), failed_arms(con, comparison))


def _percentiles(con: duckdb.DuckDBPyConnection, compared: StudyComparison) -> list[float | None]:
    """Query p50, p95 and p99 of the TTFT of a pair's two arms, over their pooled repeats."""
    pair = compared.pairs[0]
    arms = {arm.arm: [run.run_id for run in arm.runs] for arm in (pair.baseline, pair.candidate)}
    counts = cell_queries.histograms(con, arms, ["ttft"])
    return [
        histogram.quantile(dict(zip(group["bucket"], group["count"], strict=True)), q)
        for _, group in counts.groupby("arm")
        for q in (0.5, 0.95, 0.99)
    ]


def _repeated(settings: Settings, question: Question, repeats: int) -> list[float]:
    def once() -> None:
        with open_warehouse(settings.warehouse_file) as connection:
            question(connection)

    once()  # the first time reads from disk
    return [wall_ms(once) for _ in range(repeats)]
