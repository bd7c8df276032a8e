"""The benchmarks print what they measured."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from benchmarks.__main__ import measure_all
from benchmarks.sweep import STUDY, arm_parameters
from benchmarks.table import Row, show
from host.settings import Settings
from lab.errors import EngineError
from services.verifying.our_client import figures, measured
from services.verifying.rival import write_dataset
from tests.workers.load.behaviours import BEHAVIOURS
from tests.workers.load.builders import prompts
from tests.workers.load.openai_server import serve


def test_the_ratio_is_the_median_of_the_pairs() -> None:
    row = Row("output tok/s", [1.0, 4.0, 9.0], [2.0, 4.0, 3.0], "0.98 .. 1.02")
    assert row.cells() == ("output tok/s", "4.00", "3.00", "1.000", "0.500 .. 3.000", "0.98 .. 1.02")


def test_a_part_that_ends_in_an_error_costs_no_other_part(capsys: pytest.CaptureFixture[str]) -> None:
    def lacks_a_model(_settings: Settings, _repeats: int) -> None:
        raise EngineError("no model 'reference'")

    def is_broken(_settings: Settings, _repeats: int) -> None:
        raise TypeError("an unexpected keyword")

    def measures(_settings: Settings, repeats: int) -> None:
        print(f"measured {repeats} times")

    parts = {"sweep": lacks_a_model, "rate": is_broken, "idle": measures}
    assert measure_all(parts, 3) == 1
    printed = capsys.readouterr()
    assert printed.out == "measured 3 times\n"
    assert "part sweep: no model 'reference'" in printed.err
    assert "not measured: sweep, rate" in printed.err
    assert measure_all({"idle": measures}, 1) == 0


def test_sides_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        Row("x", [1.0], [1.0, 2.0], "").cells()


def test_the_table_names_the_rival_and_lines_up(capsys: pytest.CaptureFixture[str]) -> None:
    show("Client", "vllm bench serve", [Row("client CPU s", [1.0], [4.0], "0.25 at most")])
    title, head, line = capsys.readouterr().out.strip().splitlines()
    assert title.startswith("Client (load average of this machine")
    assert head.split("  ")[-1].strip() == "aim"
    assert len(head) == len(line)
    assert "0.250" in line


async def test_our_figures_are_those_of_the_requests(tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path / "prompts.jsonl", prompts(6))
    async with serve(BEHAVIOURS) as server:
        result = await measured(server.base_url, "normal", str(dataset), output_tokens=9, concurrency=2)
    got = figures(result)
    assert got.output_tok_per_s == pytest.approx(6 * 9 / result.duration_s)
    ttfts = [((r.first_token_s or 0.0) - (r.sent_s or 0.0)) * 1000 for r in result.requests]
    assert got.ttft_ms == pytest.approx(statistics.median(ttfts))
    assert got.tpot_ms >= 0


async def test_figures_of_failed_requests_are_refused(tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path / "prompts.jsonl", prompts(2))
    async with serve(BEHAVIOURS) as server:
        result = await measured(server.base_url, "dies", str(dataset), output_tokens=9, concurrency=1)
    with pytest.raises(EngineError, match="2 requests failed: the connection broke"):
        figures(result)


def test_the_rival_gets_the_speculation_of_an_arm_as_vllm_takes_it() -> None:
    plain, draft = (arm_parameters(Settings(), arm) for arm in STUDY.arms)
    assert plain == {"_benchmark_name": "plain"}
    config = draft["speculative-config"]
    assert isinstance(config, dict)
    assert set(config) == {"method", "model", "num_speculative_tokens"}  # a key `options` would be refused
