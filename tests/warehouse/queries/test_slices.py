"""A slice is what a plain filter over all runs gives, whatever is asked for."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as with_settings
from hypothesis import strategies as st

from host.settings import Settings
from lab.cost import Price
from lab.errors import QueryError
from lab.metrics.histogram import quantile
from lab.study import Arm, Load, Speculation, Workload
from tests.actors import ADMIN
from tests.warehouse.runs import (
    BASELINE_ARM,
    DRAFT_ARM,
    circumstances,
    ingested,
    request,
    run_record,
    write_at_rate,
    write_run,
)
from warehouse.app_db import curated, price_book
from warehouse.app_db.engine import open_engine
from warehouse.bundles.run_bundle import write_bundle
from warehouse.ingest.service import ingest_all
from warehouse.queries import free_percentiles, slices
from warehouse.queries.comparing.comparisons import compare_study
from warehouse.queries.connect import open_warehouse
from warehouse.queries.slices import DIMENSIONS, VALIDITIES, Filters

NGRAM = Arm(name="n-gram", speculation=Speculation(method="ngram", num_speculative_tokens=5))
PLACES = [
    (arm, category, concurrency, day)
    for arm, day in ((BASELINE_ARM, 1), (DRAFT_ARM, 2), (NGRAM, 3))
    for category in ("code", None)
    for concurrency in (1, 2)
]


def write_all(settings: Settings) -> None:
    """Two jobs of runs that differ in much, one that failed, one on GPUs, and one whose hardware has a price."""
    for place, (arm, category, concurrency, day) in enumerate(PLACES):
        around = circumstances(
            hardware="H200" if place == 0 else "2-core processor",
            engine_version="0.32.0" if place % 2 else "0.33.0",
            gpus=("GPU-1", "GPU-2") if place == 0 else (),
        )
        record = run_record(
            run_id=f"run-{place}",
            job_id=f"job-{place % 2}",
            study_name="small",
            arm=arm,
            is_baseline=arm == BASELINE_ARM,
            workload=Workload(category=category, output_tokens=16),
            load=Load(max_concurrency=concurrency, num_prompts=2),
            started_at=f"2026-11-{day:02d}T23:59:00+00:00",
            status="failed" if place == len(PLACES) - 1 else "completed",
            error="it died" if place == len(PLACES) - 1 else None,
            circumstances=around,
        )
        # of a request that takes as long as its place says
        requests = [request(index=n, first_token_s=0.2 + 0.01 * place * n, chunk_tokens=None) for n in range(3)]
        write_bundle(settings.bundles, record, requests, (), None)


@pytest.fixture(scope="module")
def sliced(migrated: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    settings = Settings(home=tmp_path_factory.mktemp("sliced") / "home")
    shutil.copytree(migrated, settings.home)
    with open_engine(settings.app_database_url) as engine:
        price = {"hardware": "H200", "valid_from": date(2026, 1, 1), "currency": "EUR", "source": "a bill"}
        price_book.add(engine, Price.model_validate(price | {"rented_per_hour": 7.2}), actor=ADMIN)
    write_all(settings)
    ingest_all(settings)
    with closing(open_warehouse(settings.warehouse_file)) as connection:
        yield connection


def test_a_superseded_attempt_is_in_no_slice_that_leaves_out_invalid_runs(settings: Settings) -> None:
    for attempt in range(2):
        write_run(settings.bundles, run_id=f"attempt {attempt}", cell_key="same", attempt=attempt)
    ingest_all(settings)
    with duckdb.connect(settings.warehouse_file) as warehouse:
        warehouse.execute("UPDATE run_validity SET is_valid = true")
    measured = Filters(chosen=(("origin", ("measured",)),))
    with closing(open_warehouse(settings.warehouse_file)) as connection:
        assert slices.runs(connection, measured, ())["run_id"].tolist() == ["attempt 1"]
        assert slices.pooled_runs(connection, measured, "ttft", ["arm"])["runs"].tolist() == [1]
        assert slices.count(connection, replace(measured, validity="any")) == 2


def everything(con: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    runs = slices.runs(con, Filters(validity="any"), ())
    return [{str(name): value for name, value in row.items()} for row in runs.to_dict("records")]


@st.composite
def filters(draw: st.DrawFn) -> Filters:
    values = {
        "arm": ["no draft", "draft", "n-gram", "gone"],
        "category": ["code", "all", "unknown"],
        "concurrency": ["1", "2", "32"],
        "k": ["3", "5", "none"],
        "engine": ["vllm 0.32.0", "vllm 0.33.0", "vllm 0.12.0"],
        "origin": ["measured", "published"],
        "study": ["small · job-0", "small · job-1", "'; DROP TABLE runs; --"],
    }
    chosen = tuple(
        (name, tuple(draw(st.lists(st.sampled_from(options), unique=True, max_size=2))))
        for name, options in values.items()
    )
    days = st.none() | st.integers(1, 4).map(lambda day: date(2026, 11, day))
    return Filters(
        tuple(pair for pair in chosen if draw(st.booleans())),
        draw(st.sampled_from([(), ("published",)])),
        draw(days),
        draw(days),
        draw(st.sampled_from(VALIDITIES)),
    )


def is_in_slice(run: dict[str, Any], filters: Filters) -> bool:
    """The same in plain words."""
    for name, values in filters.chosen:
        beside = name == "study" and run["origin"] in filters.beside
        if values and run[name] not in values and not beside:
            return False
    valid = run["is_valid"]
    if {"not invalid": valid is False, "valid": valid is not True, "invalid": valid is not False, "any": False}[
        filters.validity
    ]:
        return False
    begun = run["started_at"]
    day = None if pd.isna(begun) else datetime.fromtimestamp(begun.timestamp(), UTC).date()
    if filters.begun_from is not None and (day is None or day < filters.begun_from):
        return False
    return filters.begun_to is None or (day is not None and day <= filters.begun_to)


@given(sliced_by=filters())
@with_settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_slice_is_what_a_plain_filter_gives(sliced: duckdb.DuckDBPyConnection, sliced_by: Filters) -> None:
    wanted = {run["run_id"] for run in everything(sliced) if is_in_slice(run, sliced_by)}
    runs = slices.runs(sliced, sliced_by, ["output_tok_per_s"])
    assert set(runs["run_id"]) == wanted
    assert slices.count(sliced, sliced_by) == len(wanted)


def test_options_count_each_completed_run_once_in_every_dimension(sliced: duckdb.DuckDBPyConnection) -> None:
    options = slices.options(sliced)
    runs = options.groupby("dimension")["runs"].sum()
    assert set(runs.index) == {*DIMENSIONS, "context"}  # a turn is that of a session, and these are single prompts
    assert set(runs[list(DIMENSIONS)]) == {len(everything(sliced))}
    assert set(options.loc[options["dimension"] == "origin", "value"]) == {"measured", "published"}


def test_options_of_a_slice_are_those_of_its_runs_alone(sliced: duckdb.DuckDBPyConnection) -> None:
    of_one = Filters((("study", ("small · job-0",)),), validity="any")
    options = slices.options(sliced, of_one)
    assert options.loc[options["dimension"] == "study", ["value", "runs"]].to_numpy().tolist() == [
        ["small · job-0", slices.count(sliced, of_one)]
    ]


def test_a_tag_counts_each_run_once_whatever_contexts_are_chosen(settings: Settings) -> None:
    write_run(settings.bundles, (request(), request(index=1, prompt_tokens=400)))
    with open_engine(settings.app_database_url) as engine, curated.changing(engine) as connection:
        curated.store(connection, curated.Curated("job-1", tags=("prod",)))
    ingest_all(settings)
    with closing(open_warehouse(settings.warehouse_file)) as connection:
        options = slices.options(connection, Filters((("context", ("256", "512")),), validity="any"))
    of_tags = options.loc[options["dimension"] == "tag", ["value", "runs"]]
    assert of_tags.to_numpy().tolist() == [["prod", 1]]


def test_what_others_found_is_of_the_methods_asked_for(sliced: duckdb.DuckDBPyConnection) -> None:
    found = slices.speedups_of_others(sliced, ("eagle3",))
    assert set(found["method"]) == {"eagle3"}
    assert set(found["source"]) == {"eagle3-blackwell-2026-02", "redhat-moe-2026"}
    assert found["speedup"].between(0.6, 1.3).all()
    assert slices.speedups_of_others(sliced, ("ngram",)).empty


def test_no_percentile_is_of_the_known_requests_alone(settings: Settings) -> None:
    """An answer of one token has no time per token; one whose tokens are unknown has an unknown one."""
    for run_id, tokens in (("single", 1), ("unknown", None)):
        requests = (request(), request(index=1, completion_tokens=tokens, chunk_tokens=None))
        write_run(settings.bundles, requests, run_id=run_id)
    with ingested(settings) as connection:
        measured = Filters((("origin", ("measured",)),), validity="any")
        runs = slices.runs(connection, measured, ["tpot_p50_ms", "tpot_p75_ms", "ttft_p75_ms"])
    single, unknown = runs.sort_values("run_id").to_dict("records")
    assert (single["tpot_p50_ms"], single["tpot_p75_ms"]) == pytest.approx((100.0, 100.0))
    assert np.isnan([unknown["tpot_p50_ms"], unknown["tpot_p75_ms"]]).all()
    assert runs["ttft_p75_ms"].notna().all()


def test_a_speed_up_is_to_the_baseline_of_the_same_host(settings: Settings) -> None:
    """The second repeat moved: its baseline was measured again elsewhere, and its draft was not."""
    for repeat, arm, host in ((0, "base", "h1"), (0, "draft", "h1"), (1, "base", "h2"), (1, "draft", "h1")):
        speed = {"base": 100, "draft": 150}[arm]
        write_at_rate(settings, arm, repeat, speed, circumstances=circumstances(host=host))
    with ingested(settings) as connection:
        runs = slices.runs(connection, Filters(validity="any", chosen=(("arm", ("draft",)),)), ["speedup"])
        (pair,) = compare_study(connection, "job-1").pairs
    assert runs.sort_values("repeat")["speedup"].tolist() == [1.5, pytest.approx(float("nan"), nan_ok=True)]
    assert pair.comparison.repeats == 1


def test_the_filter_that_excludes_everything_is_named(sliced: duckdb.DuckDBPyConnection) -> None:
    filters = Filters(
        (("study", ("small · job-0", "small · job-1")), ("arm", ("n-gram",)), ("k", ("3",))), validity="any"
    )
    assert slices.count(sliced, filters) == 0
    assert dict(slices.filters_excluding_everything(sliced, filters)) == {"arm": 4, "k": 3}


def test_derived_numbers_follow_from_metrics_and_the_unknown_is_null(
    sliced: duckdb.DuckDBPyConnection,
) -> None:
    names = ["output_tok_per_s", "tpot_p50_ms", *slices.DERIVED, "cost_per_million_output_tokens"]
    runs = slices.runs(sliced, Filters(validity="any"), names).set_index("run_id")
    first, other = runs.loc["run-0"], runs.loc["run-1"]
    assert first["tok_per_s_per_gpu"] == pytest.approx(first["output_tok_per_s"] / 2)
    assert first["tok_per_s_per_user"] == pytest.approx(1000 / first["tpot_p50_ms"])
    assert first["cost_per_million_output_tokens"] == pytest.approx(7.2 / 3600 / first["output_tok_per_s"] * 1e6)
    assert first["currency"] == "EUR"
    assert np.isnan(other["tok_per_s_per_gpu"])
    assert np.isnan(other["cost_per_million_output_tokens"])
    published = runs[runs["origin"] == "published"]
    assert published["tok_per_s_per_gpu"].isna().all()
    assert "friday-night-2025-12" in set(published["source"])


def test_pooled_percentiles_are_those_of_all_requests_together(sliced: duckdb.DuckDBPyConnection) -> None:
    filters = Filters((("study", ("small · job-0", "small · job-1")),), validity="any")
    pooled = slices.pooled(sliced, filters, "ttft", ["arm"])
    runs = slices.pooled_runs(sliced, filters, "ttft", ["arm"]).set_index("arm")["runs"]
    for arm, group in pooled.groupby("arm"):
        exact = np.array(
            [
                ms
                for (ms,) in sliced.execute(
                    "select ttft_ms from requests join runs using (run_id) where runs.arm = ? and status = 'completed'",
                    [arm],
                ).fetchall()
            ]
        )
        counts = dict(zip(group["bucket"].tolist(), group["count"].tolist(), strict=True))
        assert sum(counts.values()) == exact.size == 3 * runs[arm]
        for q in (0.5, 0.9, 0.95, 0.99):
            assert quantile(counts, q) == pytest.approx(np.quantile(exact, q), rel=0.01)


@pytest.mark.parametrize(
    "question",
    [
        lambda con: slices.runs(con, Filters(), ["run_id"]),
        lambda con: slices.runs(con, Filters((("run_id; --", ("x",)),)), []),
        lambda con: slices.pooled(con, Filters(), "charm", ["arm"]),
        lambda con: slices.pooled(con, Filters(), "ttft", ["run_id"]),
    ],
)
def test_what_is_no_column_of_a_slice_is_refused(sliced: duckdb.DuckDBPyConnection, question: Any) -> None:
    with pytest.raises(QueryError):
        question(sliced)


@pytest.mark.parametrize(("latency", "rel"), [("ttft", 1e-12), ("tpot", 1e-12), ("e2e", 1e-12), ("icl", 0.006)])
def test_any_percentile_is_computed_as_those_that_are_metrics(
    sliced: duckdb.DuckDBPyConnection, latency: str, rel: float
) -> None:
    known = [f"{latency}_p{percent}_ms" for percent in (50, 95)]
    runs = slices.runs(sliced, Filters(validity="any"), [*known, f"{latency}_p72.5_ms"])
    assert (runs[known[0]] <= runs[f"{latency}_p72.5_ms"] * (1 + rel)).sum() == runs[known[0]].notna().sum() > 0
    for percent, name in zip((50, 95), known, strict=True):
        free = free_percentiles.of_runs(sliced, runs["run_id"].tolist(), name)
        expected = dict(zip(runs["run_id"], runs[name], strict=True))
        assert free.to_dict() == pytest.approx({run_id: expected[run_id] for run_id in free.index}, rel=rel), percent
    assert free_percentiles.is_free(f"{latency}_p72.5_ms")
    assert not free_percentiles.is_free(f"{latency}_p95_ms")
    with pytest.raises(QueryError, match="not a number of a run"):
        slices.runs(sliced, Filters(), ["ttft_p5'_ms"])
