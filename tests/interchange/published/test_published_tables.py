"""The published figures are in the warehouse, once, and change nothing of what was measured."""

from __future__ import annotations

import duckdb
import pytest

from host.settings import Settings
from lab.metrics.catalogue import METRICS
from lab.published import book
from tests.warehouse.asking import ask, contents
from tests.warehouse.runs import write_run
from warehouse.ingest.master import connect_master, refresh
from warehouse.ingest.rebuild import rebuild
from warehouse.ingest.service import ingest_all
from warehouse.migrate import migrate
from warehouse.queries.connect import open_warehouse


def test_every_figure_is_there_as_it_was_printed(settings: Settings) -> None:
    rows = ask(settings, "select printed, value, unit, scale from published_results order by number")
    assert rows == [(figure.printed, figure.value, figure.unit, figure.scale) for figure in book.figures()]


def test_absolute_figures_of_one_setting_are_runs_in_results(settings: Settings) -> None:
    query = """
        select output_tok_per_s, ttft_mean_ms, acceptance_length, concurrency, hardware, engine_version, origin,
            is_valid
        from results where draft_model like '%throughput' and num_speculative_tokens = 1 and ttft_mean_ms is not null
    """
    [(speed, ttft, length, *rest)] = ask(settings, query)
    assert speed == 180.67
    assert ttft is not None
    assert length == 1.71
    assert rest == [1, "RTX PRO 6000 Blackwell Max-Q", "0.14.1", "published", None]


def test_relative_figures_are_never_made_absolute(settings: Settings) -> None:
    query = "select count(*), count(run_id), count(ratio_to_baseline) from published_results where scale <> 'absolute'"
    assert ask(settings, query) == [(81, 0, 81)]
    metrics = ", ".join(f'"{metric.name}"' for metric in METRICS if "tok_per_s" in metric.name)
    rows = ask(settings, f"select {metrics} from results where study_name like '%experiment-3%'")
    assert {value for row in rows for value in row} == {None}


def test_what_did_not_start_is_a_failed_run(settings: Settings) -> None:
    rows = ask(settings, "select engine, error, output_tok_per_s from results where status = 'failed' order by 1")
    assert rows == [("sglang", "it did not start", None), ("vllm", "it did not start", None)]


def test_doubts_name_the_figures_and_runs_that_they_are_about(settings: Settings) -> None:
    query = """
        select distinct r.output_tok_per_s from published_doubts as d, results as r
        where check_name = 'contradictions' and list_contains(d.run_ids, r.run_id) order by all
    """
    assert ask(settings, query) == [(37.0,), (158.0,)]


def test_loading_again_and_rebuilding_change_nothing(settings: Settings) -> None:
    write_run(settings.bundles)
    ingest_all(settings)
    before = contents(settings)
    migrate(settings)
    rebuild(settings)
    assert contents(settings) == before


def test_figures_that_were_changed_or_lost_are_loaded_anew(settings: Settings) -> None:
    before = contents(settings)
    with connect_master(settings.master_file) as connection:
        connection.execute("delete from published_runs")
        connection.execute("update published_results set value = 0")
        refresh(connection)
    migrate(settings)
    assert contents(settings) == before


def test_published_runs_are_no_jobs_and_no_measurements(settings: Settings) -> None:
    assert ask(settings, "select count(*) from runs") == [(0,)]
    assert ask(settings, "select count(*) from study_validity") == [(0,)]


def test_the_published_file_takes_no_writes(settings: Settings) -> None:
    with open_warehouse(settings.warehouse_file) as connection, pytest.raises(duckdb.InvalidInputException):
        connection.execute("delete from published_runs")
