"""Home, Results, Cost and the command say the same of a study with failed, invalid, repeated and imported runs."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from host.settings import Settings
from interchange.store import import_paths
from lab.metrics import number_format
from lab.study.plan import plan
from tests.actors import ADMIN
from tests.cli.homes import Home, new_home
from tests.interchange.sample_files import SAMPLES
from tests.lab.studies import study
from tests.warehouse.asking import ask
from tests.webapp.conftest import OpenPage
from tests.webapp.homes import claimed_job, finish
from tests.webapp.measured import write_run
from tests.webapp.page_text import words
from warehouse.ingest.service import ingest_all

OUTPUT_COST = "per_million_output_tokens"
BY_HAND = """
    SELECT exp(avg(ln(d.output_tok_per_s / b.output_tok_per_s))) FROM valid_latest_runs AS d JOIN valid_latest_runs AS b
        USING (job_id, concurrency, repeat)
    WHERE d.arm = 'draft' AND b.arm = 'no draft' AND concurrency = 1
"""
MEAN_COST = """
    SELECT avg(7.2 / 3600 / output_tok_per_s * 1e6) FROM valid_latest_runs WHERE arm = 'draft' AND concurrency = 1
"""


def measure(settings: Settings) -> str:
    """Four repeats of two arms at two loads. What became of the sixteen runs:

    the draft's third at c4 failed; the baseline's first at c4 is invalid; "Run all again" measured the draft's first at
    c1 once more, twice as slow, and made up for the baseline's second at c1, which had been invalid, and its third,
    which had failed.
    """
    everything = study(name="everything", repeats=4, price_usd_per_hour=7.2)
    job_id = claimed_job(settings, everything)
    for launch in plan(everything):
        for run in launch.runs:
            place = (run.arm.name, run.load.max_concurrency, run.repeat)
            again = place in (("draft", 1, 0), ("no draft", 1, 1), ("no draft", 1, 2))
            failed = place in (("draft", 4, 2), ("no draft", 1, 2))
            invalid = place in (("no draft", 4, 0), ("no draft", 1, 1))
            write_run(settings, everything, run, job_id, launch.index, failed=failed, miscounted=invalid)
            if again:
                slower = 2.0 if place[0] == "draft" else 1.0
                write_run(settings, everything, run, job_id, launch.index, attempt=1, slower=slower)
    finish(settings, job_id, "done")
    import_paths(settings, [SAMPLES / "vllm-bench" / "spec-code-c4.json"], actor=ADMIN)
    ingest_all(settings)
    return job_id


def printed(home: Home, verb: str, *arguments: str) -> Any:
    answer = home.ask(verb, *arguments, "--json")
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


@pytest.fixture
def job_id(settings: Settings) -> str:
    return measure(settings)


def test_counts_ratios_and_costs_are_the_same_everywhere(job_id: str, settings: Settings, open_page: OpenPage) -> None:
    home = new_home(settings.home)
    front, results, costs = open_page("home"), open_page("results", job=job_id), open_page("cost", job=job_id)
    ended = front.dataframe[0].value.set_index("study")
    cells = results.dataframe[0].value.set_index(["arm", "concurrency"])
    priced = costs.dataframe[0].value.set_index(["arm", "concurrency"])
    compared = {pair["concurrency"]: pair for pair in printed(home, "compare", job_id)["pairs"]}
    cost = {(row["arm"], row["cell"]["concurrency"]): row for row in printed(home, "cost", job_id)}

    # Runs: fifteen of sixteen completed, one of them invalid, one failed; the imported one is nowhere among them.
    measured = "Measured here: 15 runs in 1 study of 1 target; 1 failed, 1 invalid; besides, 1 imported run."
    assert measured in words(front)
    assert ended.loc["everything", "runs"] == "15 of 16, 1 failed, 1 invalid"
    assert "15 of 16" in [header.value for header in results.header]
    assert "1 failed, 1 invalid, " in words(results)
    assert "1 of 16 runs failed, 1 invalid. Charts and comparisons leave them out." in words(results)
    assert cells["repeats"].to_dict() == {("no draft", 1): 4, ("no draft", 4): 3, ("draft", 1): 4, ("draft", 4): 3}

    # Ratios: the geometric mean over the repeats that both arms have, the last completed attempt of each.
    for concurrency, pair in compared.items():
        row = cells.loc[("draft", concurrency)]
        assert row[["ratio", "low", "high"]].tolist() == [pair["ratio"][name] for name in ("value", "low", "high")]
    assert cells.loc[("draft", 1), "ratio"] == pytest.approx(ask(settings, BY_HAND)[0][0])
    whole = printed(home, "compare", job_id, "--table", "--strict")["tables"][0]["sweep"]["ratio"]
    assert number_format.times(**whole) in words(results)

    # Costs: of a million output tokens in USD, the mean of the repeats' costs.
    for place, row in cost.items():
        assert priced.loc[place, OUTPUT_COST] == pytest.approx(row[OUTPUT_COST], rel=1e-12)  # summed in any order
        assert priced.loc[place, "saving"] == pytest.approx(
            math.nan if row["saving"] is None else 100 * row["saving"], nan_ok=True
        )
        assert row["currency"] == priced.loc[place, "currency"] == "USD"
    assert cost["draft", 1]["saving"] == pytest.approx(1 - 1 / compared[1]["ratio"]["value"])
    (mean,) = ask(settings, MEAN_COST)
    assert cost["draft", 1][OUTPUT_COST] == pytest.approx(mean[0])
    columns = json.loads(costs.dataframe[0].proto.columns)
    assert columns[OUTPUT_COST]["label"] == "Per 10⁶ output (USD)"
    assert "per 10^6 output tokens" in home.ask("cost", job_id).stdout
