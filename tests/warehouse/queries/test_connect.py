"""A warehouse of another revision, or none, is refused; as of a moment only what had ended by then can be queried."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest

from host.settings import Settings
from lab.errors import RevisionError, UserError
from tests.lab.studies import study, study_dict
from tests.webapp.homes import make_home
from tests.webapp.measured import START, measure_study
from warehouse.queries import results as queries
from warehouse.queries.comparing.comparisons import compare_study, compute_study
from warehouse.queries.connect import open_warehouse
from warehouse.queries.point_in_time import as_of, seen_as_of
from warehouse.sandbox.runner import run_sql
from warehouse.schema.tables import WAREHOUSE

#: The second launch begins a minute after the first, whose runs take seconds.
BETWEEN = START + timedelta(seconds=59)
LATER = START + timedelta(days=1)


@pytest.mark.parametrize(
    ("revision", "sentence"),
    [
        ("warehouse_9999", "upgrade Drafthouse"),
        ("warehouse_0001", "before the first release .*`drafthouse import FOLDER --as-measured`"),
    ],
)
def test_a_warehouse_of_another_revision_is_refused(settings: Settings, revision: str, sentence: str) -> None:
    with duckdb.connect(settings.warehouse_file) as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", [revision])
    with pytest.raises(RevisionError, match=sentence):
        open_warehouse(settings.warehouse_file)


def test_a_home_without_a_warehouse_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no warehouse in .* yet: run `drafthouse migrate`"):
        open_warehouse(Settings(home=tmp_path).warehouse_file)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Settings, str]:
    settings = make_home(tmp_path_factory.mktemp("as_of"))
    arms = [*study_dict()["arms"], {"name": "broken", "speculation": {"method": "ngram", "num_speculative_tokens": 2}}]
    return settings, measure_study(settings, study(arms=arms, repeats=2), failing="broken")


def counted(settings: Settings, sql: str) -> int:
    (row,) = run_sql(settings, sql).rows()
    return int(str(row[0]))


def test_every_table_of_runs_has_only_those_that_had_ended(measured: tuple[Settings, str]) -> None:
    settings, job_id = measured
    with as_of(BETWEEN), closing(open_warehouse(settings.warehouse_file)) as connection:
        runs = set(queries.results(connection, job_id)["run_id"])
        ended = queries.frame(connection, "SELECT run_id, started_at, window_s FROM runs")
        for name in WAREHOUSE.tables:
            rows = queries.frame(connection, f'SELECT * FROM "{name}"')
            if "run_id" in rows and not name.startswith("published_"):
                assert set(rows["run_id"]) <= runs, name
        assert len(queries.frame(connection, "SELECT * FROM requests")) > 0
    with closing(open_warehouse(settings.warehouse_file)) as connection:
        now = set(queries.results(connection, job_id)["run_id"])
    assert runs < now
    assert len(runs) > 0
    assert (ended["started_at"] <= BETWEEN).all()


def test_a_point_in_time_shows_the_runs_ended_by_then(measured: tuple[Settings, str]) -> None:
    settings, job_id = measured
    with as_of(START - timedelta(seconds=1)), closing(open_warehouse(settings.warehouse_file)) as connection:
        assert queries.jobs_with_results(connection).empty
    with as_of(LATER), closing(open_warehouse(settings.warehouse_file)) as connection:
        then = queries.acceptance_per_position(connection, job_id)
    with closing(open_warehouse(settings.warehouse_file)) as connection:
        assert then.equals(queries.acceptance_per_position(connection, job_id))


def test_comparisons_are_of_the_runs_of_then(measured: tuple[Settings, str]) -> None:
    settings, job_id = measured
    with as_of(LATER), closing(open_warehouse(settings.warehouse_file)) as connection:
        then = compare_study(connection, job_id, "output_tok_per_s")
    with closing(open_warehouse(settings.warehouse_file)) as connection:
        assert str(then.pairs) == str(compute_study(connection, [job_id], "output_tok_per_s").pairs)
    assert then.pairs


@pytest.mark.parametrize("name", ["runs", "main.runs", "warehouse.runs", "warehouse.main.runs"])
def test_a_readers_own_sql_sees_no_more_by_any_name(measured: tuple[Settings, str], name: str) -> None:
    settings, _ = measured
    everything = counted(settings, f"SELECT count(*) FROM {name}")
    with as_of(BETWEEN):
        assert 0 < counted(settings, f"SELECT count(*) FROM {name}") < everything


def test_the_moment_holds_within_and_no_longer() -> None:
    with as_of(BETWEEN.astimezone(UTC)):
        assert seen_as_of() == BETWEEN
        with as_of(None):
            assert seen_as_of() is None
        assert seen_as_of() == BETWEEN
    assert seen_as_of() is None


def test_a_moment_without_a_time_zone_is_refused() -> None:
    with pytest.raises(UserError, match="has no time zone"), as_of(datetime(2026, 11, 21)):  # noqa: DTZ001 - on purpose
        pass
