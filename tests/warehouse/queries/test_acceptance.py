"""From bundles to acceptance: pooled, by kind of text, against latency, with fewer tokens, and over time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import pytest
from scipy import stats

from host.settings import Settings
from lab.errors import QueryError
from lab.metrics.records import ServerCounters
from lab.study import Workload
from lab.study.workload import NO_TEXT
from tests.warehouse.runs import cell, counters, ingested, request, write_run
from tests.warehouse.studies import POSITIONS, REQUESTS, ROUNDS, TOKENS, RunSpec, write
from warehouse.ingest.service import ingest_all
from warehouse.queries.acceptance import ArmAcceptance, History, histories, study_acceptance
from warehouse.queries.connect import open_warehouse

DRAFTED = RunSpec("drafted", 0, rounds=ROUNDS)
#: Each request takes 0, 1 or 2 rounds more than its kind of text.
DRAFTS = {kind: REQUESTS // 2 * (rounds + 1) for kind, rounds in ROUNDS.items()}
LENGTH = {kind: TOKENS * REQUESTS / 2 / drafts for kind, drafts in DRAFTS.items()}

_BY_PROMPT = """
    SELECT avg(1 + spec_accepted_tokens / spec_drafts), avg(tpot_ms) FROM requests WHERE arm = 'drafted'
    GROUP BY prompt_id
"""


@pytest.fixture(scope="module")
def con(shared: Settings) -> Iterator[duckdb.DuckDBPyConnection]:
    """Two repeats of an arm that drafts, beside one that does not."""
    for repeat, pace in enumerate((1.0, 1.01)):
        write(shared, RunSpec("plain", repeat, pace))
        write(shared, RunSpec("drafted", repeat, pace, ROUNDS))
    with ingested(shared) as connection:
        yield connection


def only(con: duckdb.DuckDBPyConnection) -> ArmAcceptance:
    (acceptance,) = study_acceptance(con, "small")
    return acceptance


def acceptance_of(settings: Settings, *runs: tuple[RunSpec, dict[str, Any]]) -> ArmAcceptance:
    for made, changes in runs:
        write(settings, made, **changes)
    with ingested(settings) as con:
        return only(con)


def test_repeats_are_pooled_by_the_servers_counters(con: duckdb.DuckDBPyConnection) -> None:
    acceptance = only(con)
    drafts, accepted = sum(DRAFTS.values()), REQUESTS * TOKENS - sum(DRAFTS.values())
    assert (acceptance.arm, acceptance.num_speculative_tokens, acceptance.source) == (
        "drafted",
        3,
        "the server's counters",
    )
    assert (acceptance.acceptance.drafts, acceptance.run_ids) == (
        2 * drafts,
        ("drafted-mixed-c4-0", "drafted-mixed-c4-1"),
    )
    assert acceptance.acceptance.rate == pytest.approx(accepted / (3 * drafts))
    assert acceptance.acceptance.length == pytest.approx(1 + accepted / drafts)
    assert acceptance.acceptance.per_position == pytest.approx([share * accepted / drafts for share in POSITIONS])
    assert acceptance.acceptance.conditional == pytest.approx([0.6 * accepted / drafts, 1 / 2, 1 / 3])


def test_each_kind_of_text_is_told_by_its_requests(con: duckdb.DuckDBPyConnection) -> None:
    categories = only(con).categories
    assert {kind: category.drafts for kind, category in categories.items()} == {
        kind: 2 * count for kind, count in DRAFTS.items()
    }
    assert {kind: category.length for kind, category in categories.items()} == pytest.approx(LENGTH)


def test_requests_that_accept_more_are_answered_sooner(con: duckdb.DuckDBPyConnection) -> None:
    correlation = only(con).against["tpot_ms"]
    assert correlation is not None
    assert correlation.requests == REQUESTS  # a prompt counts once, whatever the repeats
    rows = con.execute(_BY_PROMPT).fetchall()
    lengths, latencies = [row[0] for row in rows], [row[1] for row in rows]
    assert correlation.rho.value == pytest.approx(stats.spearmanr(lengths, latencies).statistic, abs=0.01)
    assert correlation.rho.high is not None
    assert correlation.rho.high < -0.9


def test_without_counters_the_requests_tell_and_positions_are_unknown(settings: Settings) -> None:
    blind = {"counters_before": ServerCounters(), "counters_after": ServerCounters()}
    acceptance = acceptance_of(settings, (DRAFTED, blind))
    assert (acceptance.source, acceptance.acceptance.drafts) == ("its requests", sum(DRAFTS.values()))
    assert acceptance.acceptance.length == pytest.approx(REQUESTS * TOKENS / sum(DRAFTS.values()))
    assert (acceptance.acceptance.per_position, acceptance.fewer) == (None, {})


def test_a_workload_of_one_category_has_it_without_requests(settings: Settings) -> None:
    workload = Workload(dataset="one.jsonl", category="code", output_tokens=TOKENS)
    acceptance = acceptance_of(
        settings, (RunSpec("drafted", 0, rounds=ROUNDS, reports_acceptance=False), {"workload": workload})
    )
    assert acceptance.categories == {"code": acceptance.acceptance}
    assert acceptance.against == {"tpot_ms": None, "e2e_ms": None}


def test_random_tokens_in_place_of_texts_have_no_acceptance(settings: Settings) -> None:
    counted = {"num_drafts": 2.0, "num_draft_tokens": 6.0, "num_accepted_tokens": 2.0, "generation_tokens": 4.0}
    told = {"spec_drafts": 2, "spec_draft_tokens": 6, "spec_accepted_tokens": 2, "requested_output_tokens": 4}
    readings = {"counters_before": counters(), "counters_after": counters(**counted)}
    write_run(settings.bundles, (request(category=NO_TEXT, **told),), **readings)
    with ingested(settings) as con:
        assert (only(con).acceptance.length, only(con).acceptance.rate) == (None, None)


def test_a_study_without_speculation_has_no_acceptance(settings: Settings) -> None:
    write(settings, RunSpec("plain", 0))
    ingest_all(settings)
    with (
        open_warehouse(settings.warehouse_file) as con,
        pytest.raises(QueryError, match="no valid run of 'small' speculates"),
    ):
        study_acceptance(con, "small")


def measured_over_time(settings: Settings, *lengthenings: int, cell_id: str = "same") -> None:
    """One job a day, whose requests take so many rounds more than usual."""
    for day, more in enumerate(lengthenings):
        rounds = {kind: count + more for kind, count in ROUNDS.items()}
        run_id = f"{cell_id}-{day}"
        write(
            settings,
            RunSpec("drafted", 0, rounds=rounds),
            run_id=run_id,
            job_id=f"job-{day}",
            cell_key=cell_id,
            identity=cell(cell_id),
            started_at=(datetime(2026, 11, 1, tzinfo=UTC) + timedelta(days=day)).isoformat(),
        )


def over_time(settings: Settings, study: str) -> list[History]:
    with ingested(settings) as con:
        return histories(con, study)


def test_acceptance_that_fell_is_found_among_the_same_cells_of_all_jobs(settings: Settings) -> None:
    measured_over_time(settings, 0, 0, 0, 0, 6)
    (history,) = over_time(settings, "job-4")
    assert [moment.state for moment in history.moments] == ["too little history"] * 3 + ["steady", "changed"]
    ((changed, source),) = history.changes
    assert changed.run_id == "same-4"
    assert changed.expected is not None
    assert changed.value < changed.expected
    assert (source.job_id, f"{source.started_at:%m-%d}") == ("job-4", "11-05")
    assert [origin.job_id for origin in history.sources] == [f"job-{day}" for day in range(5)]


def test_other_cells_are_another_history(settings: Settings) -> None:
    measured_over_time(settings, 0, 0, 0, cell_id="one")
    measured_over_time(settings, 6, 6, 6, 6, cell_id="other")
    every = over_time(settings, "job-0")
    assert [len(history.moments) for history in every] == [3, 4]
    assert not any(history.changes for history in every)
    (late,) = over_time(settings, "job-3")
    assert late.moments[-1].state == "steady"
