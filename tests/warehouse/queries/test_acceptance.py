"""From bundles to acceptance: pooled, by kind of text, against latency, with fewer tokens, and over time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import pytest
from scipy import stats

from lab.errors import QueryError
from lab.metrics.records import ServerCounters
from lab.study import Workload
from tests.warehouse.runs import cell
from tests.warehouse.studies import POSITIONS, REQUESTS, ROUNDS, TOKENS, RunSpec, write
from warehouse.ingest.service import ingest_all
from warehouse.queries.acceptance import ArmAcceptance, History, histories, study_acceptance
from warehouse.queries.connect import open_warehouse
from warehouse.settings import Settings

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
    ingest_all(shared)
    with open_warehouse(shared.warehouse_file) as connection:
        yield connection


def only(con: duckdb.DuckDBPyConnection) -> ArmAcceptance:
    (found,) = study_acceptance(con, "small")
    return found


def asked(settings: Settings, *runs: tuple[RunSpec, dict[str, Any]]) -> ArmAcceptance:
    for made, changes in runs:
        write(settings, made, **changes)
    ingest_all(settings)
    with open_warehouse(settings.warehouse_file) as con:
        return only(con)


def test_repeats_are_pooled_by_the_servers_counters(con: duckdb.DuckDBPyConnection) -> None:
    found = only(con)
    drafts, accepted = sum(DRAFTS.values()), REQUESTS * TOKENS - sum(DRAFTS.values())
    assert (found.arm, found.num_speculative_tokens, found.source) == ("drafted", 3, "the server's counters")
    assert (found.acceptance.drafts, found.run_ids) == (2 * drafts, ("drafted-mixed-c4-0", "drafted-mixed-c4-1"))
    assert found.acceptance.rate == pytest.approx(accepted / (3 * drafts))
    assert found.acceptance.length == pytest.approx(1 + accepted / drafts)
    assert found.acceptance.per_position == pytest.approx([share * accepted / drafts for share in POSITIONS])
    assert found.acceptance.conditional == pytest.approx([0.6 * accepted / drafts, 1 / 2, 1 / 3])


def test_a_smaller_number_of_tokens_is_an_estimate_from_the_first_positions(con: duckdb.DuckDBPyConnection) -> None:
    found = only(con)
    assert found.acceptance.per_position is not None
    assert list(found.fewer) == [1, 2]
    assert all(estimate.is_estimate for estimate in found.fewer.values())
    assert found.fewer[2].length == pytest.approx(1 + sum(found.acceptance.per_position[:2]))


def test_each_kind_of_text_is_told_by_its_requests(con: duckdb.DuckDBPyConnection) -> None:
    found = only(con).categories
    assert {kind: each.drafts for kind, each in found.items()} == {kind: 2 * count for kind, count in DRAFTS.items()}
    assert {kind: each.length for kind, each in found.items()} == pytest.approx(LENGTH)


def test_requests_that_accept_more_are_answered_sooner(con: duckdb.DuckDBPyConnection) -> None:
    found = only(con).against["tpot_ms"]
    assert found is not None
    assert found.requests == REQUESTS  # a prompt counts once, whatever the repeats
    rows = con.execute(_BY_PROMPT).fetchall()
    lengths, latencies = [row[0] for row in rows], [row[1] for row in rows]
    assert found.rho.value == pytest.approx(stats.spearmanr(lengths, latencies).statistic, abs=0.01)
    assert found.rho.high is not None
    assert found.rho.high < -0.9


def test_without_counters_the_requests_tell_and_positions_are_unknown(settings: Settings) -> None:
    blind = {"counters_before": ServerCounters(), "counters_after": ServerCounters()}
    found = asked(settings, (DRAFTED, blind))
    assert (found.source, found.acceptance.drafts) == ("its requests", sum(DRAFTS.values()))
    assert found.acceptance.length == pytest.approx(REQUESTS * TOKENS / sum(DRAFTS.values()))
    assert (found.acceptance.per_position, found.fewer) == (None, {})


def test_a_workload_of_one_kind_of_text_is_that_kind_where_requests_tell_nothing(settings: Settings) -> None:
    workload = Workload(dataset="one.jsonl", category="code", output_tokens=TOKENS)
    found = asked(settings, (RunSpec("drafted", 0, rounds=ROUNDS, reports_acceptance=False), {"workload": workload}))
    assert found.categories == {"code": found.acceptance}
    assert found.against == {"tpot_ms": None, "e2e_ms": None}


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
    ingest_all(settings)
    with open_warehouse(settings.warehouse_file) as con:
        return histories(con, study)


def test_acceptance_that_fell_is_found_among_the_same_cells_of_all_jobs(settings: Settings) -> None:
    measured_over_time(settings, 0, 0, 0, 0, 6)
    (found,) = over_time(settings, "job-4")
    assert [moment.state for moment in found.moments] == ["too little history"] * 3 + ["steady", "changed"]
    ((changed, source),) = found.changes
    assert changed.run_id == "same-4"
    assert changed.expected is not None
    assert changed.value < changed.expected
    assert (source.job_id, f"{source.started_at:%m-%d}") == ("job-4", "11-05")
    assert [each.job_id for each in found.sources] == [f"job-{day}" for day in range(5)]


def test_other_cells_are_another_history(settings: Settings) -> None:
    measured_over_time(settings, 0, 0, 0, cell_id="one")
    measured_over_time(settings, 6, 6, 6, 6, cell_id="other")
    found = over_time(settings, "job-0")
    assert [len(history.moments) for history in found] == [3, 4]
    assert not any(history.changes for history in found)
    (late,) = over_time(settings, "job-3")
    assert late.moments[-1].state == "steady"
