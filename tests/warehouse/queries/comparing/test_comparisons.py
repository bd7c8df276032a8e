"""From bundles to verdicts: what is kept out, what is compared with what, and what is advised."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import duckdb
import numpy as np
import pytest

from cli.verbs.analyse.compare import _same, exit_status
from host.settings import Settings
from lab.advice.advise import advise
from lab.comparison.agreement import Agreement
from lab.comparison.verdict import Control
from lab.errors import QueryError
from lab.metrics.records import Identity
from lab.study import Sampling
from tests.lab.validity.healthy import healthy
from tests.warehouse.queries.comparing.stretched_arms import write_arm
from tests.warehouse.runs import ingested
from tests.warehouse.studies import REQUESTS, TOKENS, RunSpec, write
from warehouse.bundles.run_bundle import write_bundle
from warehouse.ingest.rebuild import rebuild
from warehouse.ingest.service import ingest_all
from warehouse.queries import results as queries
from warehouse.queries.advice_inputs import failed_arms, measured_arms
from warehouse.queries.comparing import paired_runs
from warehouse.queries.comparing.comparisons import agreements, break_evens, compare_study, controls
from warehouse.queries.comparing.ratio_tables import arm_tables, cell_values
from warehouse.queries.connect import open_warehouse

#: How much longer each run takes than the healthy one; the repeats differ by a per cent or so.
SLOWER = {"plain": (1.0, 1.01, 0.995), "drafted": (0.5, 0.51, 0.497), "same": (1.001, 1.009, 0.996)}


@pytest.fixture(scope="module")
def con(shared: Settings) -> Iterator[duckdb.DuckDBPyConnection]:
    """Three repeats of a baseline, an arm twice as fast and an arm that is the same."""
    for arm, factors in SLOWER.items():
        for repeat, factor in enumerate(factors):
            write_arm(shared, arm, repeat, factor)
    with ingested(shared) as connection:
        yield connection


def test_an_arm_twice_as_fast_is_faster_and_an_equal_one_not(con: duckdb.DuckDBPyConnection) -> None:
    comparison = compare_study(con, "job-1")
    verdicts = {pair.candidate.arm: pair for pair in comparison.pairs}
    assert (comparison.baseline, set(verdicts)) == ("plain", {"drafted", "same"})
    ratio = verdicts["drafted"].comparison.ratio
    assert ratio is not None
    assert ratio.low is not None
    assert ratio.high is not None
    assert ratio.low < ratio.value < ratio.high
    assert verdicts["drafted"].verdict.word == "faster"
    assert verdicts["same"].verdict.word == "no difference"
    assert exit_status(comparison, 0.05) == 0


def test_for_a_latency_lower_is_faster(con: duckdb.DuckDBPyConnection) -> None:
    (drafted, _) = compare_study(con, "job-1", "e2e_p50_ms").pairs
    assert drafted.candidate.arm == "drafted"
    assert drafted.verdict.word == "faster"
    assert drafted.comparison.ratio is not None
    assert drafted.comparison.ratio.value < 1


def test_another_baseline_turns_the_verdict_and_the_exit_status(con: duckdb.DuckDBPyConnection) -> None:
    comparison = compare_study(con, "job-1", baseline="drafted")
    assert {pair.candidate.arm: pair.verdict.word for pair in comparison.pairs} == {"plain": "slower", "same": "slower"}
    assert exit_status(comparison, 0.05) == 1


def test_one_repeat_alone_decides_nothing(settings: Settings) -> None:
    write_arm(settings, "plain", 0, 1.0)
    write_arm(settings, "drafted", 0, 0.5)
    with ingested(settings) as con:
        comparison = compare_study(con, "job-1")
    (pair,) = comparison.pairs
    assert pair.verdict.word == "inconclusive"
    assert exit_status(comparison, 0.05) == 3


def test_one_engine_start_decides_only_with_earlier_scatter_of_starts(settings: Settings) -> None:
    for repeat in range(3):
        for arm, place in (("plain", 0), ("drafted", 1)):
            write_arm(settings, arm, repeat, SLOWER[arm][repeat], launch_index=place)
    with ingested(settings) as con:
        (pair,) = compare_study(con, "job-1").pairs
    assert (pair.comparison.blocks, pair.verdict.word) == (1, "inconclusive")
    assert pair.comparison.basis == "3 repeats on 1 engine start, which cannot show how much starts differ"
    for earlier in range(3):
        for repeat, factor in enumerate(SLOWER["plain"]):
            run, cell = f"earlier-{earlier}-{repeat}", Identity(cell_id="0" * 64, arm_id="", workload_id="", load_id="")
            of = {"run_id": run, "cell_key": run, "job_id": run[:-2], "identity": cell}
            write_arm(settings, "plain", repeat, factor, **of, started_at="2026-01-01T00:00:00+00:00")
    with ingested(settings) as con:
        (pair,) = compare_study(con, "job-1").pairs
    assert pair.verdict.word == "faster"
    assert "3 repeats on 1 engine start" in pair.comparison.basis
    assert pair.comparison.basis.endswith("with the scatter of 3 cells measured before")


def identity(arm: str) -> Identity:
    return Identity(cell_id=f"cell of {arm}", arm_id=f"arm {arm}", workload_id="w", load_id="l")


def test_an_arm_equal_to_the_baseline_is_a_control(settings: Settings) -> None:
    for arm, factors in SLOWER.items():
        for repeat, factor in enumerate(factors):
            write_arm(settings, arm, repeat, factor, identity=identity("plain" if arm == "same" else arm))
    with ingested(settings) as con:
        comparison, other = compare_study(con, "job-1"), compare_study(con, "job-1", baseline="drafted")
        tables = {table.arm: table for table in arm_tables(con, comparison)}
        advice = advise(measured_arms(con, compare_study(con, "job-1", baseline="same")))
    assert {pair.candidate.arm: pair.verdict.word for pair in comparison.pairs} == {
        "drafted": "faster",
        "same": "control",
    }
    words = "identical to the baseline: differs by 0.0 %, as runs of this study do"
    assert controls(comparison) == {"same": Control("same", words, is_alarming=False)}
    assert controls(other) == {}
    assert (tables["same"].sweep.verdict.word, tables["drafted"].sweep.verdict.word) == ("control", "faster")
    assert {arm for arm, _ in break_evens(comparison)} == {"drafted"}
    assert [advised.arm for advised in advice] == ["drafted"]
    assert exit_status(comparison, 0.05) == 0


def test_an_invalid_run_is_kept_says_why_and_is_compared_with_nothing(settings: Settings) -> None:
    write_arm(settings, "plain", 0, 1.0)
    after = healthy().run.counters_after
    assert after is not None
    wrong = after.model_copy(update={"generation_tokens": 10.0 * (after.generation_tokens or 0)})
    write_arm(settings, "same", 0, 1.0, counters_after=wrong)
    with ingested(settings) as con:
        runs = queries.results(con, "job-1").set_index("run_id")
        compared = cell_values(con, "job-1", "output_tok_per_s")
        findings = queries.findings(con, "job-1")
        assert compare_study(con, "job-1").pairs == ()
    assert runs.loc["plain-0", "is_valid"]
    assert not runs.loc["same-0", "is_valid"]
    assert "counted" in str(runs["why_invalid"]["same-0"])
    assert list(compared["arm"]) == ["plain"]
    assert findings.iloc[0][["severity", "run_id"]].tolist() == ["invalid", "same-0"]


def test_a_study_is_named_by_job_digest_or_name(con: duckdb.DuckDBPyConnection) -> None:
    assert (
        paired_runs.jobs_of(con, "job-1")
        == paired_runs.jobs_of(con, "000000")
        == paired_runs.jobs_of(con, "small")
        == ["job-1"]
    )
    with pytest.raises(QueryError, match="no results of 'nothing'"):
        paired_runs.jobs_of(con, "nothing")
    with pytest.raises(QueryError, match="use one of"):
        compare_study(con, "job-1", "dataset")
    with pytest.raises(QueryError, match="no valid run of an arm 'other'"):
        compare_study(con, "job-1", baseline="other")


def test_a_speculating_arm_that_is_faster_is_advised(con: duckdb.DuckDBPyConnection) -> None:
    (advice,) = advise(measured_arms(con, compare_study(con, "job-1")))
    assert (advice.action, advice.arm, advice.gamma) == ("enable", "drafted", 3)
    assert set(advice.reasons[0].run_ids) >= {"drafted-0", "plain-0"}
    text = "\n".join(line.text for line in advice.reasons)
    assert (
        "concurrency 4 is interactive use (up to 4), where the time per token is noticed: a token takes drafted" in text
    )
    assert "memory" not in text  # it was not measured
    assert "ran draft_model with k = 3" in text


def test_the_length_of_answers_is_that_of_runs_with_known_tokens(settings: Settings) -> None:
    for arm, repeat in (("plain", 0), ("plain", 1), ("drafted", 0)):
        write_arm(settings, arm, repeat, SLOWER[arm][repeat])
    base = healthy(drafted=True)
    about = {"run_id": "drafted-1", "cell_key": "drafted-1", "repeat": 1, "launch_index": 1, "is_baseline": False}
    run = base.run.model_copy(update=about | {"arm": base.run.arm.model_copy(update={"name": "drafted"})})
    requests = [replace(each, completion_tokens=None) for each in base.requests]
    write_bundle(settings.bundles, run, requests, base.samples, None)
    with ingested(settings) as con:
        (measured,) = measured_arms(con, compare_study(con, "job-1"))
    assert set(measured.run_ids) == {"drafted-0", "drafted-1", "plain-0", "plain-1"}
    assert measured.output_tokens == np.mean([each.completion_tokens for each in base.requests])


def test_a_failed_arm_is_advised_against_in_the_engines_words(settings: Settings) -> None:
    write_arm(settings, "plain", 0, 1.0)
    for attempt, error in enumerate(("out of memory", "ValueError: no kernel for this GPU")):
        about = {"run_id": f"drafted-0-{attempt}", "attempt": attempt, "status": "failed", "error": error}
        write_arm(settings, "drafted", 0, 1.0, **about)
    with ingested(settings) as con:
        comparison = compare_study(con, "job-1")
        (advice,) = advise(measured_arms(con, comparison), failed_arms(con, comparison))
    assert advice.action == "do not enable"
    (line,) = advice.reasons  # the last attempt counts
    assert line.text == "drafted (draft_model, k = 3) failed in 1 run: ValueError: no kernel for this GPU"
    assert line.run_ids == ("drafted-0-1",)


def test_findings_of_the_study_are_judged_anew_with_more_runs(settings: Settings) -> None:
    write_arm(settings, "plain", 0, 1.0)
    write_arm(settings, "drafted", 0, 0.5)
    ingest_all(settings)
    assert "measured only once" in sentences(settings)
    for arm in ("plain", "drafted"):
        write_arm(settings, arm, 1, 0.99)
    ingest_all(settings)
    assert "measured only once" not in sentences(settings)
    ingested = sentences(settings)
    rebuild(settings)
    assert sentences(settings) == ingested


def sentences(settings: Settings) -> str:
    """Of the job, not of its runs."""
    with open_warehouse(settings.warehouse_file) as con:
        findings = queries.findings(con, "job-1")
    return "\n".join(findings[findings["run_id"].isna()]["sentence"])


def test_requests_are_paired_by_prompt_in_the_order_of_sending(
    settings: Settings,
) -> None:
    base = healthy()
    twice = [replace(request, prompt_id=f"p{request.index % 500}") for request in base.requests]
    write_bundle(settings.bundles, base.run, twice, base.samples, None)
    with ingested(settings) as connection:
        (arm,) = paired_runs.arm_runs(connection, ["job-1"], "ttft_mean_ms")
        means = "select prompt_id, avg(ttft_ms) from request_records group by prompt_id"
        expected = dict(connection.execute(means).fetchall())
        assert paired_runs._requests(connection, [], "ttft_mean_ms") == {}
    (run,) = arm.runs
    assert run.requests is not None
    assert run.requests.prompts == tuple(f"p{place}" for place in range(500))
    assert dict(zip(run.requests.prompts, run.requests.numbers, strict=True)) == pytest.approx(expected)


def agreed(
    settings: Settings, ending: str, every: int = 1, telling: tuple[bool, bool] = (False, False), **changes: Any
) -> Agreement:
    """Of an arm of whose outputs every so-manieth ends so, and a baseline of which none does."""
    write(settings, RunSpec("plain", 0, reports_token_ids=telling[0]), **changes)
    write(settings, RunSpec("other", 0, ending=ending, ending_every=every, reports_token_ids=telling[1]), **changes)
    with ingested(settings) as con:
        ((_, agreement),) = agreements(con, compare_study(con, "small"))
    return agreement


def test_outputs_that_differ_say_exactly_where_if_both_engines_tell_the_tokens(settings: Settings) -> None:
    agreement = agreed(settings, "!" * 12, every=4, telling=(True, True))
    assert (agreement.same, len(agreement.pairs)) == (REQUESTS - REQUESTS // 4, REQUESTS)
    assert agreement.median_first_differing_token == agreement.median_estimated_first_differing_token == TOKENS - 3
    assert _same(agreement) == f"75 %, else from token {TOKENS - 2}"


def test_the_tokens_of_one_arm_alone_are_held_against_nothing(settings: Settings) -> None:
    agreement = agreed(settings, "!" * 12, every=4, telling=(True, False))
    assert (agreement.median_first_differing_token, agreement.median_estimated_first_differing_token) == (
        None,
        TOKENS - 3,
    )
    assert _same(agreement) == f"75 %, else from about token {TOKENS - 2}"


def test_sampled_outputs_are_not_held_against_each_other(settings: Settings) -> None:
    agreement = agreed(settings, "." * 32, sampling=Sampling(temperature=0.7))
    assert (agreement.same_share, agreement.pairs) == (None, ())
    assert agreement.candidate_degenerate_share == pytest.approx(0.0)
