"""SGLang against a process that speaks its protocol: no GPU is needed to start, count and fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.engines.kinds.sglang import effective_config
from lab.errors import StudyError
from tests.jobs.engines.commands import words_of
from tests.warehouse.runs import records
from tests.workers.engine_runtime.stand_ins import PLAIN, add_draft, add_stand_in, bundles, grown, worked
from tests.workers.homes import Home

EAGLE3 = {"method": "eagle3", "num_speculative_tokens": 3}


def of_arm(folder: Path, **arm: object) -> str:
    return " ".join(words_of("sglang", folder, arm))


@pytest.fixture
def sglang_home(home: Home) -> Home:
    add_stand_in(home, "sglang")
    return home


def test_k_drafted_tokens_are_a_chain_and_one_more_is_verified(tmp_path: Path) -> None:
    words = of_arm(tmp_path, speculation=EAGLE3 | {"model": "owner/head"})
    assert "--speculative-algorithm=EAGLE3 --speculative-num-draft-tokens=4 --speculative-num-steps=3" in words
    assert "--speculative-eagle-topk=1 --speculative-draft-model-path=owner/head" in words


def test_options_win_over_what_is_made_of_k(tmp_path: Path) -> None:
    options = {"eagle_topk": 4, "num_draft_tokens": 16}
    words = of_arm(tmp_path, speculation=EAGLE3 | {"model": "owner/head", "options": options})
    assert "--speculative-num-draft-tokens=16" in words
    assert "--speculative-eagle-topk=4" in words
    assert words.count("--speculative-eagle-topk") == 1


def test_an_option_that_is_a_table_is_json_on_the_command_line(tmp_path: Path) -> None:
    options = {"some_table": {"a": [1, 2]}, "plain": "text"}
    words = of_arm(tmp_path, speculation=EAGLE3 | {"model": "owner/head", "options": options})
    assert '--speculative-some-table={"a": [1, 2]} --speculative-plain=text' in words


def test_a_flag_that_is_false_is_left_out(tmp_path: Path) -> None:
    words = of_arm(tmp_path, flags={"disable_radix_cache": True, "disable_cuda_graph": False})
    assert "--disable-radix-cache" in words
    assert "cuda-graph" not in words


def test_the_configuration_of_an_arm_is_words_as_its_file_would_be(tmp_path: Path) -> None:
    """SGLang splits a file into words itself, which could be flags."""
    config = {"mem_fraction_static": 0.8, "cuda-graph-bs": [1, 2], "disable_radix_cache": True, "enable_dp": False}
    words = of_arm(tmp_path, config=config, flags={"page_size": 1})
    assert " --mem-fraction-static=0.8 --cuda-graph-bs 1 2 --disable-radix-cache --host " in words
    assert words.endswith(" --page-size=1")
    assert "--config" not in words
    assert "enable-dp" not in words


def test_the_effective_configuration_is_what_it_logged(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        "[2026-02-11 10:00:00] server_args=ServerArgs(model_path='/m, odd', dtype='auto', bs=[1, 2])\nmore\n"
    )
    assert effective_config(log) == {"model_path": "'/m, odd'", "dtype": "'auto'", "bs": "[1, 2]"}


def test_a_study_is_measured_and_acceptance_is_counted_as_ours(sglang_home: Home) -> None:
    draft = EAGLE3 | {"model": add_draft(sglang_home)}
    arms = [PLAIN | {"engine": "sglang"}, {"name": "eagle", "engine": "sglang", "speculation": draft}]
    job = worked(sglang_home, arms=arms)
    assert (job.state, job.error) == ("done", None)
    eagle = bundles(sglang_home, "eagle")[0]
    around = eagle.run.circumstances
    assert around.engine_version == "0.5.8"
    assert around.effective_config["cuda_graph_bs"] == "[1, 2]"
    for request in records(eagle.requests):  # 8 tokens in rounds of two: it drafts three and accepts one
        assert (request.spec_drafts, request.spec_draft_tokens, request.spec_accepted_tokens) == (4, 12, 4)
        assert request.chunk_tokens == (2, 2, 2, 2)
    assert grown(eagle.run, "num_drafts") == 12
    assert grown(eagle.run, "generation_tokens") == 24
    assert eagle.run.counters_after is not None
    assert eagle.run.counters_after.num_accepted_tokens is None  # its gauge of 99.0 is not a count of this run
    plain = bundles(sglang_home, "plain")[0]
    assert grown(plain.run, "num_drafts") is None
    assert {request.spec_drafts for request in records(plain.requests)} == {None}


def test_a_cache_that_cannot_be_emptied_right_after_an_answer_is_emptied_a_moment_later(home: Home) -> None:
    add_stand_in(home, "sglang", TROUBLE="busy")
    job = worked(home, arms=[PLAIN | {"engine": "sglang"}])
    assert (job.state, job.error) == ("done", None)
    assert bundles(home, "plain")[0].run.reset_problem is None


def test_a_kernel_that_fails_at_start_is_a_result_with_its_reason(home: Home) -> None:
    add_stand_in(home, "sglang", TROUBLE="kernel")
    job = worked(home, arms=[PLAIN, {"name": "sglang", "engine": "sglang"}])
    assert job.state == "done"
    failed = bundles(home, "sglang")[0].run
    assert failed.status == "failed"
    assert "NotImplementedError: mxfp4 kernels are not built for sm_120" in (failed.error or "")
    assert bundles(home, "plain")[0].run.status == "completed"


def test_a_server_that_miscounts_tokens_is_stored_with_both_counts(home: Home) -> None:
    """Its usage says a third less than its counters: that is for a check to find, so nothing is smoothed over."""
    add_stand_in(home, "sglang", TROUBLE="miscount")
    arm = {"name": "ngram", "engine": "sglang", "speculation": {"method": "ngram", "num_speculative_tokens": 3}}
    worked(home, arms=[PLAIN | {"engine": "sglang"}, arm], fresh_starts="never")
    ngram = bundles(home, "ngram")[0]
    assert {request.completion_tokens for request in records(ngram.requests)} == {5}
    assert grown(ngram.run, "generation_tokens") == 24


def test_bounds_and_methods_it_lacks_are_refused_with_what_it_has(sglang_home: Home) -> None:
    lookup = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}
    medusa = {"method": "medusa", "num_speculative_tokens": 3, "model": "owner/m"}
    arms = [
        PLAIN,
        {"name": "a", "engine": "sglang", "speculation": lookup},
        {"name": "b", "engine": "sglang", "speculation": medusa, "flags": {"enable_metrics": False}},
    ]
    with pytest.raises(StudyError) as refused:
        sglang_home.submit(arms=arms)
    problems = dict(refused.value.problems)
    assert "options" in problems["arms[1].speculation.prompt_lookup_max"]
    assert "draft_model, eagle, eagle3, mtp, dflash, dspark, ngram" in problems["arms[2].speculation.method"]
    assert "it is always on" in problems["arms[2].flags.enable_metrics"]
