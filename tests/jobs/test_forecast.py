"""How long a study will take, by the runs in the published warehouse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from host.settings import Settings
from jobs import forecast
from jobs.engines.hardware import hardware_name
from jobs.forecast import forecast_study, plan_document
from lab.estimate import WITHOUT_GPU
from lab.study import Study
from lab.study.parsing import study_from_dict
from tests.jobs.datasets.rows import write_rows
from tests.warehouse.runs import BASELINE_ARM, circumstances, request, write_run
from tests.workers.homes import Home
from warehouse.ingest.service import ingest_all
from warehouse.queries.connect import open_warehouse


def small(**changes: Any) -> Study:
    """One arm, one load, twice: two launches and two runs."""
    data = {
        "name": "small",
        "target": "reference",
        "arms": [{"name": "plain"}],
        "workloads": [{"category": "code", "output_tokens": 16}],
        "loads": [{"max_concurrency": 1, "num_prompts": 2}],
        "repeats": 2,
    }
    return study_from_dict(data | changes)


@pytest.fixture
def measured(home: Home) -> Home:
    """Each of its runs took 2 s of window and 1 s of warm-up here, after a start of 30 s; elsewhere 200 s."""
    one = {"arm": BASELINE_ARM, "warmup_s": 1.0, "load": {"max_concurrency": 1, "num_prompts": 2}}
    requests = (request(), request(index=1))
    for number in range(2):
        here = circumstances(hardware=hardware_name())
        write_run(home.settings.bundles, requests, run_id=f"here-{number}", circumstances=here, **one)
    machine = circumstances(hardware="NVIDIA H200", start_s=100.0)
    write_run(
        home.settings.bundles,
        requests,
        run_id="there",
        circumstances=machine,
        **(one | {"duration_s": 200.0, "warmup_s": 0.0}),
    )
    ingest_all(home.settings)
    return home


def seconds(settings: Settings, **changes: Any) -> tuple[float, int]:
    forecast = forecast_study(settings, small(**changes))
    return forecast.seconds, forecast.runs_from_history


def test_a_study_is_forecast_by_what_this_host_took(measured: Home) -> None:
    assert seconds(measured.settings) == (2 * 30.0 + 2 * 3.0, 2)
    forecast = forecast_study(measured.settings, small())
    assert (forecast.launches, forecast.runs, forecast.requests, forecast.starts_s) == (2, 2, 4, 2 * 30.0)


def test_hardware_that_the_study_names_is_forecast_by_its_own_runs(measured: Home) -> None:
    assert seconds(measured.settings, hardware="h200") == (2 * 100.0 + 2 * 200.0, 2)


@pytest.mark.parametrize(
    ("slots", "rounds", "words"), [(1, 5, ""), (2, 3, "; shared by 2 slots"), (8, 1, "by 5 slots")]
)
def test_a_spread_study_takes_as_long_as_its_busiest_slot(measured: Home, slots: int, rounds: int, words: str) -> None:
    settings = measured.settings.model_copy(update={"slots": slots})
    forecast = forecast_study(settings, small(repeats=5, spread=True))
    assert forecast.seconds == 5 * 33.0
    assert forecast.wall_s == pytest.approx(rounds * 33.0)
    assert forecast.basis.endswith(words)
    assert forecast_study(settings, small(repeats=5)).wall_s == 5 * 33.0
    planned = plan_document(settings, small(repeats=5, spread=True), [])
    assert planned["estimated_s"] == pytest.approx(rounds * 33.0)


@pytest.mark.parametrize("changes", [{"target": "owner/other"}, {"hardware": "T4"}])
def test_another_target_or_hardware_has_no_history(measured: Home, changes: dict[str, Any]) -> None:
    assert seconds(measured.settings, **changes)[1] == 0


def test_an_unmeasured_arm_is_assumed_and_its_engines_start_is_not(measured: Home) -> None:
    arms = [{"name": "plain"}, {"name": "drafted", "speculation": {"method": "ngram", "num_speculative_tokens": 3}}]
    forecast = forecast_study(measured.settings, small(arms=arms))
    assert (forecast.launches_from_history, forecast.runs_from_history, forecast.runs) == (4, 2, 4)


def test_without_a_warehouse_everything_is_assumed(home: Home) -> None:
    nowhere = home.settings.model_copy(update={"home": home.folder / "nowhere"})
    assert seconds(nowhere)[1] == 0


def test_the_turns_and_waits_of_a_session_are_those_of_its_dataset(home: Home) -> None:
    said = [{"role": role, "content": "again"} for role in ("user", "assistant", "user", "assistant", "user")]
    rows = [{"messages": [said[0], *({**message, "wait_s": 5.0} for message in said[1:])], "category": "talk"}] * 4
    file = home.folder / "talks.jsonl"
    write_rows(file, rows)

    def forecast(**sessions: Any) -> tuple[int, float]:
        workload = {"dataset": str(file), "output_tokens": 16} | ({"sessions": sessions} if sessions else {})
        found = forecast_study(home.settings, small(workloads=[workload], repeats=1))
        return found.requests, found.seconds

    single, single_s = forecast()
    requests, seconds = forecast(answers="own")
    assert (single, requests) == (2, 6)
    later_turns_s = 2 * 2 * (5.0 + 16 * WITHOUT_GPU.token_s + 200 * WITHOUT_GPU.prompt_token_s)
    assert seconds == pytest.approx(single_s + later_turns_s)
    assert forecast(answers="own", max_turns=2)[0] == 4


def test_history_is_read_once_per_publication_however_many_studies_wait(
    measured: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, opened = measured.settings, []

    def opening(file: Path) -> duckdb.DuckDBPyConnection:
        opened.append(file)
        return open_warehouse(file)

    monkeypatch.setattr(forecast, "open_warehouse", opening)
    for target in ("reference", "owner/other", "owner/another"):
        seconds(settings, target=target)
    seconds(settings, hardware="h200")
    assert opened == [settings.warehouse_file]
    assert seconds(settings, repeats=1) == (30.0 + 3.0, 1)
    write_run(settings.bundles, (request(),), run_id="newer")
    ingest_all(settings)
    assert seconds(settings)[1] == 2
    assert len(opened) == 2
