"""A small version of every part that measures: it runs to its end and prints what the whole one prints.

The parts that only compute, and those on a synthetic warehouse, have theirs in the other files here; pages has it among
the tests of the browser, and presets is what the tests of the whole way measure with.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import beside, progress, rate, slots, sweep, truth, windows
from benchmarks.client import STUDY, Sides
from benchmarks.processes import own_home
from benchmarks.reading.filling import Size, fill
from benchmarks.storing import idle, publish
from host.settings import Settings
from lab.errors import EngineError
from lab.study import Load, Workload
from services.verifying.pace import beside_steady_server
from services.verifying.processes import vllm_environment
from services.verifying.rival import write_dataset
from tests.workers.homes import Home, link_reference_models, new_home

pytestmark = pytest.mark.engine

#: Of an answer that takes most of a second: a client that waits for a processor for less sees its chunks one by one.
TOKENS = 40
TRIES = 10
TINY = Size(jobs=1, requests_per_run=20)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, migrated: Path) -> Iterator[Home]:
    """With the reference models, and an engine that starts at once and takes vLLM's flags."""
    with new_home(tmp_path_factory.mktemp("bench"), migrated) as made:
        link_reference_models(made)
        with made.settings.engines_file.open("a") as file:
            file.write('TAKES_ANY_FLAG = "1"\n')
        yield made


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("prompts") / "prompts.jsonl", rate.prompts(2))


@pytest.fixture
def vllm(home: Home) -> Settings:
    """The real vLLM, in the home of these tests."""
    real = Settings()
    return home.settings.model_copy(update={"engines_file": real.engines_file, "engines_dir": real.engines_dir})


def test_parts_client_and_rate_measure_one_server_with_both_clients(vllm: Settings, dataset: Path) -> None:
    def both(base_url: str) -> tuple[float, float]:
        sides = Sides(vllm, base_url, vllm_environment(vllm, STUDY, STUDY.arms[0]))
        ours, theirs = sides.ours(dataset, 2, TOKENS), sides.theirs(dataset, 2, TOKENS)
        for side in (ours, theirs):
            assert side.cpu_s > 0
            most = 2 * TOKENS / ((TOKENS - 1) * 0.019)  # the server's tick is 20 ms
            assert 0 < side.figures.output_tok_per_s < most
        return ours.figures.gap_p99_ms, theirs.figures.gap_p99_ms

    (ours_ms, theirs_ms), written = beside_steady_server(both, rate.TICK_S)
    assert min(ours_ms, theirs_ms, written["gap_p99_ms"]) > 15


def test_part_rate_has_our_loops_lag_and_the_servers_gaps(dataset: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ours = rate.by_us(dataset, streams=2, tokens=8)
    assert ours.lag_p99_ms is not None
    rate.show_rate(2, [ours], [ours])
    printed = capsys.readouterr().out
    assert "loop lag p99 ms" in printed
    assert "gap p99 beyond the server's ms" in printed


def test_part_client_compares_clients_with_what_the_server_wrote(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    truth.measure(tmp_path, {"ours": truth.ours, "raw sockets": truth.raw}, 2, tick_s=0.02, repeats=1, tokens=8)
    lines = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()]
    assert [line[:2] for line in lines] == [["2", "ours"], ["2", "raw sockets"]]
    for _, _, throughput, late_ms, tpot, cpu_us in lines:
        assert 0 < float(throughput.split()[0]) <= 1  # no client can read before the server has written
        assert float(late_ms.split()[0]) >= 0
        assert min(float(tpot.split()[0]), float(cpu_us)) > 0


def test_part_windows_compares_short_windows_with_a_long_one(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    windows.measure_steady(home.settings, 2, 1, tick_s=0.004)
    printed = capsys.readouterr().out
    assert "4 windows, steady server, 2 streams" in printed
    assert re.search(r"all streams busy: ratio \d+\.\d+, 95 % interval", printed)


def test_part_progress_compares_the_window_with_and_without_observers(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    progress.run(home.settings, 1)
    assert "own CPU, % of the machine" in capsys.readouterr().out


def test_part_sweep_measures_its_study(home: Home) -> None:
    with own_home(home.settings) as own:
        assert sweep.ours_s(own, sweep.STUDY) > 0


def test_part_slots_measures_a_study_on_one_slot_and_on_two(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    load, workload = Load(max_concurrency=2, num_prompts=2), Workload(output_tokens=32)
    for _ in range(TRIES):
        try:
            slots.measure(home.settings, 1, slots=2, blocks=3, load=load, workload=workload)
        except EngineError as late:  # a worker that a busy machine holds up finds that the other measured everything
            if "measured something" not in str(late):
                raise
        else:
            break
    title, _head, wall, *runs = capsys.readouterr().out.strip().splitlines()
    assert title.startswith("Slots: 3 blocks of 2 arms on 2 slots")
    assert re.match(r"wall s +\d", wall)
    assert len(runs) == 2


def test_part_beside_measures_a_server_alone_and_with_everything_at_work(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure(base_url: str) -> None:
        load, workload = Load(max_concurrency=2, num_prompts=4), Workload(output_tokens=16)
        beside.measure(home.settings, base_url, "steady", 1, size=TINY, load=load, workload=workload)

    beside_steady_server(measure, rate.TICK_S)
    printed = capsys.readouterr().out
    assert "nothing beside it" in printed
    assert printed.count("95 % interval") == 3
    assert "seconds of other work within each window" in printed


def test_part_publish_counts_the_seconds_and_bytes_of_one_more_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(publish, "RESTS_FOR_S", 1.5)
    settings = Settings(home=tmp_path)
    fill(settings, TINY)
    publish.measure(settings, 1, "tiny", requests=20)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in lines if line.startswith("seconds until a run is visible")] == [
        f"seconds until a run is visible{when}" for when in ("", ", first after a file was opened", ", second")
    ]
    assert float(lines[-1].split(": ")[1].split(",")[0]) > 1  # each run is written at least once


def test_part_idle_counts_the_ingesters_cost_at_rest_and_after_a_change(
    home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(publish, "RESTS_FOR_S", 1.5)
    idle.run(home.settings, 1, bundles=100, for_s=1.0)
    printed = capsys.readouterr().out
    assert "The ingester at rest: 100 bundles in 1 jobs" in printed
    assert "ms of processor a second" in printed
    assert re.search(r"a job's change of state: seen after \d+\.\d\d s, for \d+\.\d\d s of processor", printed)
