"""A run in rounds on real vLLM: two arms of the reference pair side by side."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise

import pytest

from lab.metrics.measure import measure
from lab.metrics.rounds import rounds_of
from lab.validity import judge
from tests.e2e.conftest import ONE_PROCESS_LESS, SMALL_TARGET
from tests.warehouse.runs import records
from tests.workers.engine_runtime.stand_ins import worked
from tests.workers.homes import Home
from warehouse.bundles.run_bundle import Bundle, find_bundles, read_bundle, read_log

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]

NGRAM = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3}
ARM = {"engine": "vllm", **ONE_PROCESS_LESS}


@pytest.fixture(scope="module")
def bundles(real_home: Home) -> list[Bundle]:
    job = worked(
        real_home,
        name="rounds",
        target=SMALL_TARGET,
        order="side_by_side",
        engine_flags={"max-model-len": 1024, "enforce-eager": True, "dtype": "float32", "max-num-seqs": 8},
        arms=[{"name": "plain", "baseline": True, **ARM}, {"name": "ngram", "speculation": NGRAM, **ARM}],
        workloads=[{"category": "repeat", "output_tokens": 64}],
        loads=[{"max_concurrency": 1, "num_prompts": 4}, {"max_concurrency": 4, "num_prompts": 48}],
    )
    assert (job.state, job.error) == ("done", None)
    every = map(read_bundle, find_bundles(real_home.settings.bundles))
    return [bundle for bundle in every if bundle.run.job_id == job.job_id]


def test_each_round_sends_the_same_prompts_on_both_arms(bundles: list[Bundle]) -> None:
    assert [len(bundle.run.windows or ()) for bundle in bundles] == [4] * 4
    sent: dict[tuple[str, int | None], set[tuple[str, ...]]] = {}
    for bundle in bundles:
        for number in range(4):
            prompts = tuple(each.prompt_id for each in records(bundle.requests) if each.round == number)
            sent.setdefault((bundle.run.load.name, number), set()).add(prompts)
    assert [len(prompts) for prompts in sent.values()] == [1] * 8


def test_rounds_add_up_to_the_run(bundles: list[Bundle]) -> None:
    for bundle in bundles:
        run, values = bundle.run, measure(bundle.run, bundle.requests, bundle.telemetry)
        rounds = rounds_of(run, bundle.requests, bundle.telemetry)
        for name in ("completion_tokens", "server_generation_tokens", "num_drafts", "num_accepted_tokens"):
            of_rounds = [each.data.number(name) for each in rounds]
            assert values[name] == (None if None in of_rounds else sum(number or 0 for number in of_rounds)), name
        lengths_s = [each.data.number("duration_s") or 0.0 for each in rounds]
        assert values["duration_s"] == pytest.approx(sum(lengths_s), rel=0.01)
        assert values["steady_output_tok_per_s"] is not None
        print(
            f"{run.arm.name} {run.load.name}: {values['output_tok_per_s']:.4g} tok/s, steady "
            f"{values['steady_output_tok_per_s']:.4g}, windows of {[round(length_s, 2) for length_s in lengths_s]} s"
        )


def test_what_the_server_counted_agrees_with_the_answers_of_all_windows(bundles: list[Bundle], real_home: Home) -> None:
    of_counters = {"server_token_count", "server_prompt_count", "counters_unread", "told_tokens_count"}
    for folder in find_bundles(real_home.settings.bundles):
        bundle = read_bundle(folder)
        if bundle.run.job_id == bundles[0].run.job_id:
            run, values = bundle.run, measure(bundle.run, bundle.requests, bundle.telemetry)
            verdict = judge(run, bundle.requests, bundle.telemetry, values, read_log(folder, run))
            wrong = [finding for finding in verdict.findings if finding.severity != "note"]
            assert not [finding for finding in wrong if finding.check in of_counters]


def test_little_time_passes_between_windows(bundles: list[Bundle]) -> None:
    windows = sorted(
        (datetime.fromisoformat(window.started_at).timestamp(), window.end_s - window.start_s)
        for bundle in bundles
        for window in bundle.run.windows or ()
    )
    gaps_s = sorted(later - (began + length_s) for (began, length_s), (later, _) in pairwise(windows))
    print(f"between windows: median {gaps_s[len(gaps_s) // 2]:.3f} s, most {gaps_s[-1]:.3f} s")
    assert gaps_s[len(gaps_s) // 2] < 1.0  # a tenth of that on a machine that has nothing else to do
