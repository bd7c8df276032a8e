"""What the pages read is cached for all visitors, by the publication and the arguments."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import duckdb
import pandas as pd
import pytest
import sqlalchemy as sa
import streamlit as st

from host.settings import Settings
from lab.errors import RevisionError, UserError
from tests.migrated import copy_migrated
from warehouse.app_db import curated
from webapp.shared import published_data
from webapp.shared.published_data import cached_by_publication, cached_figures, published_query


@pytest.fixture
def warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The published file of a home without any run."""
    settings = Settings(home=tmp_path / "home")
    copy_migrated(settings.home)
    monkeypatch.setattr(published_data, "settings", lambda: settings)
    yield settings.warehouse_file
    st.cache_resource.clear()


@pytest.mark.usefixtures("warehouse")
def test_a_database_that_a_newer_drafthouse_migrates_under_open_pages_is_refused() -> None:
    with published_data.engine().begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = 'app_9999'"))
    published_data._refuse_newer.clear()  # as after ten seconds
    with pytest.raises(RevisionError, match="written by a newer Drafthouse"):
        published_data.engine()


@pytest.mark.usefixtures("warehouse")
def test_each_caller_has_a_table_of_its_own_that_is_queried_once() -> None:
    queried = []

    @cached_by_publication(4)
    def frame(of: str) -> pd.DataFrame:
        queried.append(of)
        return pd.DataFrame({"value": [1, 2]})

    first = frame("a")
    first.loc[0, "value"] = 7
    first["more"] = 0
    assert frame("a").to_dict("list") == {"value": [1, 2]}
    assert frame("b").to_dict("list") == {"value": [1, 2]}
    assert queried == ["a", "b"]


def test_a_new_publication_is_queried_anew(warehouse: Path) -> None:
    queried = []

    @cached_by_publication()
    def answer() -> int:
        queried.append(1)
        return len(queried)

    assert [answer(), answer()] == [1, 1]
    os.utime(warehouse, ns=(1, 1))
    assert [answer(), answer()] == [2, 2]


@pytest.mark.usefixtures("warehouse")
def test_a_query_is_cached_by_the_arguments_without_underscore() -> None:
    queried = []

    @published_query()
    def answer(connection: duckdb.DuckDBPyConnection, number: int, _more: list[int]) -> int:
        queried.append(number)
        (total,) = connection.execute("SELECT ? + ?", [number, sum(_more)]).fetchall()[0]
        return int(total)

    assert [answer(1, [1]), answer(1, [5]), answer(2, [5])] == [2, 2, 7]
    assert queried == [1, 2]


@pytest.mark.usefixtures("warehouse")
def test_queries_of_a_page_share_a_connection_that_ends_with_it() -> None:
    @published_query()
    def connection_for(connection: duckdb.DuckDBPyConnection, question: int) -> duckdb.DuckDBPyConnection:
        assert connection.execute("select ?", [question]).fetchone() == (question,)
        return connection

    with published_data.one_drawing():
        first, second = connection_for(1), connection_for(2)
        assert first is second
        assert connection_for(3).execute("select 1").fetchone() == (1,)
    for connection in (first, connection_for(4)):
        with pytest.raises(duckdb.ConnectionException, match="closed"):
            connection.execute("select 1")


def test_an_error_is_not_cached(warehouse: Path) -> None:
    @published_query()
    def answer(connection: duckdb.DuckDBPyConnection) -> object:
        return connection.execute("SELECT 1").fetchall()

    moved = warehouse.rename(warehouse.with_suffix(".away"))
    with pytest.raises(UserError):
        answer()
    moved.rename(warehouse)
    assert answer() == [(1,)]


@pytest.mark.usefixtures("warehouse")
def test_figures_are_drawn_once_for_the_same_link_and_mode() -> None:
    drawn = []

    @cached_figures
    def figures(parameters: object, mode: str) -> str:
        drawn.append(mode)
        return f"{parameters} {mode}"

    figures({"job": ["a"], "metric": ("b",)}, "light")
    figures({"metric": ["b"], "job": ("a",)}, "light")
    figures({"metric": ["b"], "job": ("a",)}, "dark")
    assert drawn == ["light", "dark"]


@pytest.mark.usefixtures("warehouse")
def test_a_drawing_asks_the_app_database_once_and_the_next_one_anew() -> None:
    engine = published_data.engine()
    with published_data.one_drawing():
        assert published_data.curated_studies(engine) == []
        curated.note_import(engine, ["of-ann"], "ann")
        assert published_data.curated_studies(engine) == []
    for drawing in (nullcontext(), published_data.one_drawing()):
        with drawing:
            assert [study.owner for study in published_data.curated_studies(engine)] == ["ann"]
