"""`drafthouse compare`, as a person or a program types it: metrics, tables and exit status."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from host.settings import Settings
from lab.metrics.records import Identity
from tests.cli.homes import Home, home_with_databases
from tests.interchange.sample_files import DETAILED
from tests.warehouse.studies import ROUNDS, RunSpec, write
from warehouse.ingest.service import ingest_all
from warehouse.queries.comparing.across_studies import UNPAIRED

PLACES = 4


def answer_of(home: Home, *arguments: str) -> Any:
    answer = home.ask("compare", "small", *arguments, "--json")
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def pairs(home: Home, metric: str, *arguments: str) -> dict[str, list[dict[str, Any]]]:
    """By candidate arm, one a place."""
    by_arm: dict[str, list[dict[str, Any]]] = {}
    for pair in answer_of(home, "--metric", metric, *arguments)["pairs"]:
        by_arm.setdefault(pair["arm"], []).append(pair)
    return by_arm


@pytest.mark.parametrize(
    ("metric", "full_name", "unit"),
    [
        ("throughput", "output_tok_per_s", "tok/s"),
        ("ttft", "ttft_p50_ms", "ms"),
        ("tpot", "tpot_p50_ms", "ms"),
        ("e2e", "e2e_p50_ms", "ms"),
        ("energy", "energy_j_per_output_token", "J/token"),
    ],
)
def test_a_metrics_short_name_compares_it_with_ratio_difference_and_interval(
    studied: Home, metric: str, full_name: str, unit: str
) -> None:
    printed = answer_of(studied, "--metric", metric)
    assert (printed["metric"], printed["unit"]) == (full_name, unit)
    for pair in printed["pairs"]:
        assert pair["ratio"]["low"] <= pair["ratio"]["value"] <= pair["ratio"]["high"]
        assert pair["difference"]["low"] <= pair["difference"]["value"] <= pair["difference"]["high"]


def test_for_cost_and_energy_lower_is_better(studied: Home) -> None:
    for compared in (pairs(studied, "cost", "--price-per-hour", "3.6"), pairs(studied, "energy")):
        for pair in compared["drafted well"]:
            assert pair["ratio"]["value"] < 1
            assert pair["verdict"]["word"] == "faster"


def test_a_cost_is_price_over_throughput_and_its_ratio_mirrors_it(studied: Home) -> None:
    cost, speed = (pairs(studied, metric, "--price-per-hour", "3.6") for metric in ("cost", "throughput"))
    for cheaper, faster in zip(cost["drafted well"], speed["drafted well"], strict=True):
        assert cheaper["ratio"]["value"] == pytest.approx(1 / faster["ratio"]["value"])
        assert cheaper["ratio"]["low"] == pytest.approx(1 / faster["ratio"]["high"])
        assert (cheaper["basis"], cheaper["verdict"]["word"]) == (faster["basis"], faster["verdict"]["word"])
    assert answer_of(studied, "--metric", "cost", "--price-per-hour", "3.6")["unit"] == "USD/10^6 output tokens"
    dearer = pairs(studied, "cost", "--price-per-hour", "7.2")["drafted well"][0]["difference"]["value"]
    assert dearer == pytest.approx(2 * cost["drafted well"][0]["difference"]["value"])


def test_hardware_used_half_of_the_time_costs_twice_as_much_a_token(studied: Home) -> None:
    def costs(*utilisation: str) -> list[float]:
        answer = studied.ask("cost", "small", "--price-per-hour", "3.6", *utilisation, "--json")
        return [arm_cost["per_million_output_tokens"] for arm_cost in json.loads(answer.stdout)]

    assert costs("--utilisation", "0.5") == pytest.approx([2 * usd for usd in costs()])


@pytest.mark.parametrize("share", ["60", "0", "-0.5", "nan"])
def test_a_utilisation_that_is_no_share_is_refused(studied: Home, share: str) -> None:
    refusal = studied.refusal("cost", "small", "--price-per-hour", "3.6", "--utilisation", share)
    assert "is not a share above 0 and at most 1: 0.6 means 60 % busy" in refusal


def test_a_cost_needs_a_price(studied: Home) -> None:
    assert "no price is recorded for 'NVIDIA H200'" in studied.refusal("compare", "small", "--metric", "cost")


def test_acceptance_is_compared_between_arms_that_speculate(studied: Home) -> None:
    refused = studied.ask("compare", "small", "--metric", "acceptance")
    assert refused.returncode == 2
    assert (
        "'plain' has no acceptance_length: choose a --baseline that has it, one of 'drafted well', 'drafted'"
        in refused.stderr
    )
    for pair in pairs(studied, "acceptance", "--baseline", "drafted")["drafted well"]:
        assert pair["ratio"]["value"] > 1.1
        assert pair["verdict"]["word"] == "faster"


def test_a_table_has_ratios_marks_intervals_and_geometric_means(studied: Home) -> None:
    answer = studied.ask("compare", "small", "--table")
    assert answer.returncode == 0, answer.stderr
    assert "+ faster, - slower, = no difference, ? inconclusive" in answer.stdout
    lines = answer.stdout.splitlines()
    start = lines.index("drafted well: workload by load")
    assert lines[start + 1].split() == ["workload", "c2", "c4", "geometric", "mean"]
    assert lines[start + 2].startswith("mixed.jsonl/all/64")
    assert lines[start + 2].count("× + [") == 2
    assert lines[start + 4].startswith("geometric mean")
    assert lines[start + 5].startswith("whole sweep: ")
    assert "faster, from 3 repeats, " in lines[start + 5]


def test_a_table_says_the_same_as_the_comparison_it_is_made_of(studied: Home) -> None:
    tables = {table["arm"]: table for table in answer_of(studied, "--table")["tables"]}
    for arm, expected in pairs(studied, "throughput").items():
        cells = {(cell["row"], cell["column"]): cell for cell in tables[arm]["cells"]}
        assert len(cells) == PLACES
        for pair in expected:
            cell = cells[pair["workload"], pair["pattern"]]
            assert (cell["ratio"], cell["verdict"]) == (pair["ratio"], pair["verdict"])
            assert (cell["repeats"], cell["independent_repeats"]) == (3, 3)
        assert tables[arm]["sweep"]["ratio"]["value"] == pytest.approx(tables[arm]["gmean"])
        for row, mean in tables[arm]["gmeans_by_row"].items():
            assert tables[arm]["sweeps_by_row"][row]["ratio"]["value"] == pytest.approx(mean)


def test_places_that_fall_into_one_cell_are_a_sweep(studied: Home) -> None:
    by_load = {table["arm"]: table for table in answer_of(studied, "--table")["tables"]}
    printed = answer_of(studied, "--table", "--rows", "dataset", "--columns", "category")
    for table in printed["tables"]:
        cells = {cell["row"]: cell for cell in table["cells"]}
        assert list(cells) == ["mixed.jsonl", "other.jsonl"]
        for row, mean in by_load[table["arm"]]["gmeans_by_row"].items():
            assert cells[row.split("/")[0]]["ratio"]["value"] == pytest.approx(mean)
            assert cells[row.split("/")[0]]["basis"].startswith("3 repeats, ")


def test_rows_and_columns_that_are_not_there_are_named(studied: Home) -> None:
    for sides in (("--rows", "arm"), ("--rows", "load")):
        refused = studied.ask("compare", "small", "--table", *sides)
        assert refused.returncode == 2
        assert "must be two of workload, dataset, category, load, concurrency" in refused.stderr


def test_a_table_fails_for_ci_as_the_comparison_does(studied: Home) -> None:
    limit = ("--fail-if-slower", "5%")
    for table in ((), ("--table",)):
        assert studied.ask("compare", "small", *table, *limit).returncode == 0
        assert studied.ask("compare", "small", "--baseline", "drafted well", *table, *limit).returncode == 1


def test_a_verdict_names_its_reading_and_a_gate_is_strict(studied: Home) -> None:
    usual = "verdicts: on average at most 5 % of the calls in a table are false (Benjamini-Hochberg)"
    strict = "verdicts: with 95 % confidence no call in the table is false (Holm)"
    for arguments, line in (((), usual), (("--table", "--strict"), strict), (("--fail-if-slower", "5%"), strict)):
        assert line in studied.ask("compare", "small", *arguments).stdout.splitlines()
    assert (answer_of(studied)["strict"], answer_of(studied, "--strict")["strict"]) == (False, True)


def test_an_arm_that_is_the_baseline_again_is_shown_as_a_control(tmp_path: Path) -> None:
    home = home_with_databases(tmp_path)
    settings = Settings(home=home.folder)
    for repeat in range(3):
        for arm, pace in (("plain", 1.0), ("plain again", 1.01 + 0.01 * repeat), ("drafted", 0.5)):
            identity = Identity(cell_id=arm, arm_id=arm.removesuffix(" again"), workload_id="w", load_id="l")
            spec = RunSpec(arm, repeat, pace, ROUNDS if arm == "drafted" else None)
            write(settings, spec, identity=identity)
    ingest_all(settings)
    words = "identical to the baseline: differs by 2.0 %, as runs of this study do"
    for table in ((), ("--table",)):
        assert f"plain again is a control, {words}" in home.ask("compare", "small", *table).stdout.splitlines()
    assert "? inconclusive, * control" in home.ask("compare", "small", "--table").stdout
    printed = answer_of(home)
    assert printed["controls"] == {"plain again": words}
    assert [pair["verdict"]["word"] for pair in printed["pairs"] if pair["arm"] == "plain again"] == ["control"]


def test_beside_each_ratio_stands_whether_the_outputs_are_the_same_or_loops(tmp_path: Path) -> None:
    home = home_with_databases(tmp_path)
    settings = Settings(home=home.folder)
    for repeat in range(2):
        write(settings, RunSpec("plain", repeat))
        write(settings, RunSpec("other", repeat, 0.5, ending="." * 32))
    ingest_all(settings)
    (line,) = (line for line in home.ask("compare", "small").stdout.splitlines() if line.startswith("other  "))
    assert "0 %, else from about token 57  0 % / 0 %" in line
    (pair,) = answer_of(home)["pairs"]
    assert pair["same_output_share"]["value"] == 0
    assert pair["outputs"]["median_estimated_first_differing_token"] == 56
    assert (pair["outputs"]["prompts"], pair["outputs"]["candidate_degenerate_share"]) == (48, 0)


def test_arms_are_compared_by_context_and_turns_need_sessions(studied: Home) -> None:
    groups = json.loads(studied.ask("compare", "small", "--by", "context", "--json").stdout)
    assert {group["context_tokens"] for group in groups} == {256}
    drafted = [group for group in groups if group["arm"] == "drafted well"]
    assert {group["word"] for group in drafted} == {"faster"}
    assert all(group["ratio"]["value"] < 1 for group in drafted)  # of times
    head, *lines = studied.ask("compare", "small", "--by", "context", "--metric", "e2e_mean_ms").stdout.splitlines()
    assert head.split()[:6] == ["workload", "pattern", "context", "arm", "requests", "e2e_mean_ms"]
    assert len(lines) == len(groups)
    for option in (("--by", "context"), ("--judge-again",)):  # CI would take their exit status 0 for an answer
        refusal = studied.refusal("compare", "small", *option, "--fail-if-slower", "5%")
        assert f"--fail-if-slower and {option[0]} do not go together" in refusal
    refusal = studied.refusal("compare", "small", "--by", "turn")
    assert "small has no numbers by turn" in " ".join(refusal.split())
    refusal = studied.refusal("compare", "small", "--by", "context", "--baseline", "nobody")
    assert "no arm 'nobody' has numbers by context: the arms that have are " in " ".join(refusal.split())


def test_arms_of_an_imported_study_stand_beside_ones_own_without_verdicts(tmp_path: Path) -> None:
    home = home_with_databases(tmp_path)
    settings = Settings(home=home.folder)
    for repeat, pace in enumerate((1.0, 1.004)):
        write(settings, RunSpec("plain", repeat, pace, None, load="c4"))
    ingest_all(settings)
    assert home.ask("import", str(DETAILED), "--label", "study=theirs", "--label", "arm=spec").returncode == 0
    answer = home.ask("compare", "small", "--with", "theirs")
    assert answer.returncode == 0, answer.stderr
    assert UNPAIRED in answer.stdout
    assert re.search(r"spec · theirs +[\d.]+× +no interval: one run of the other arm +concurrency 4", answer.stdout)
    assert re.search(r"differs +client +Drafthouse +vllm-bench-serve +spec · theirs", answer.stdout)
    assert re.search(r"unknown on one side +hardware .* unknown +spec · theirs", answer.stdout)
    found = json.loads(home.ask("compare", "small", "--with", "theirs", "--json").stdout)
    assert found["pairs"][0]["ratio"]["value"] == pytest.approx(
        found["pairs"][0]["value"] / found["pairs"][0]["baseline_value"]
    )
    run_id = found["pairs"][0]["run_ids"][0]
    assert "all valid runs are of 'theirs'" in home.ask("compare", "small", "--with", "theirs", "--run", run_id).stderr
    for option in (["--table"], ["--fail-if-slower", "5%"]):
        assert (
            f"{option[0]} and --with do not go together" in home.ask("compare", "small", "--with", "x", *option).stderr
        )
    assert "belong to --with" in home.ask("compare", "small", "--any-workload").stderr
