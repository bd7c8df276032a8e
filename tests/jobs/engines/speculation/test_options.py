"""What an option of speculation may be, and what is said of one that is wrong."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from jobs.engines.capabilities import Capabilities
from jobs.engines.checks import arm_problems, study_problems
from jobs.engines.kinds import KINDS
from jobs.engines.speculation import vllm
from jobs.engines.speculation.checks import options_of
from jobs.policy import _allowed
from lab.errors import StudyError
from lab.study.methods import METHODS
from tests.lab.studies import study

PAIRS = [(kind.name, option) for kind in KINDS.values() for option in kind.options]


def said(kind: str = "vllm", *, version: str = "0.32.0", **speculation: Any) -> dict[str, str]:
    """The problems of an arm by the last part of their field."""
    has = Capabilities(
        engine=kind, kind=kind, version=version, methods=tuple(METHODS), flags=None, gpus=("H200",),
        speculation=tuple(option.name for option in vllm.OPTIONS) if kind == "vllm" else None,
    )  # fmt: skip
    draft = {"method": "ngram", "num_speculative_tokens": 3} | speculation
    arm = study(arms=[{"name": "a", "baseline": True, "engine": kind, "speculation": draft}]).arms[0]
    return {field.rpartition(".")[2]: problem for field, problem in arm_problems("arms[0]", arm, {}, has)}


@pytest.mark.parametrize(("kind", "option"), PAIRS, ids=lambda value: getattr(value, "name", value))
def test_the_example_of_an_option_is_right_and_nonsense_is_not(kind: str, option: Any) -> None:
    [(name, value)] = tomllib.loads(option.example).items()
    assert (name, option.wrong(value)) == (option.name, None)
    assert option.about
    assert name == "eagle_choices" or option.wrong([None]) is not None
    assert {option.name for option in options_of(kind, None)} >= {name} or option.methods


def test_each_lab_allows_what_names_no_file_and_no_code() -> None:
    files = {"adaptive_config", "dspark_confidence_sts_path", "dspark_sps_table_path", "ngram_external_corpus_path"}
    files |= {"draft_load_config", "draft_load_format", "load_format", "token_map"}
    code = {"code_revision", "draft_model_revision", "revision"}
    allowed = set(_allowed().engines["any"].options)
    assert {option.name for _, option in PAIRS} - allowed == files | code


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([], "must be a list of [first, last, tokens]"),
        ([[2, 4, 3]], "must begin at a batch of 1"),
        ([[1, 4, 3], [4, 8, 2]], "overlap"),
        ([[1, 4]], "each entry is [first, last, tokens]"),
        ([[1, 4, -1]], "tokens >= 0"),
    ],
)
def test_a_schedule_that_the_engine_would_refuse_is_refused_first(value: Any, words: str) -> None:
    assert (
        words in said(options={"num_speculative_tokens_per_batch_size": value})["num_speculative_tokens_per_batch_size"]
    )


def test_synthetic_acceptance_is_checked_whole() -> None:
    synthetic = {"rejection_sample_method": "synthetic"}
    rates = synthetic | {"synthetic_acceptance_rates": [0.9, 0.5, 0.2]}
    assert said(options=rates) == {}
    assert "takes a GPU" in said(version="0.32.0+cpu", options=rates)["rejection_sample_method"]
    assert "exactly one of" in said(options=synthetic)["rejection_sample_method"]
    assert "3 drafted" in said(options=synthetic | {"synthetic_acceptance_length": 4.5})["synthetic_acceptance_length"]
    assert said(options=synthetic | {"synthetic_acceptance_length": 4}) == {}
    two = said(options=synthetic | {"synthetic_acceptance_rates": [0.9, 0.5]})
    assert "2 positions for 3" in two["synthetic_acceptance_rates"]
    assert (
        "needs rejection_sample_method"
        in said(options={"synthetic_acceptance_length": 2})["synthetic_acceptance_length"]
    )
    rising = said(options=synthetic | {"synthetic_acceptance_rates": [0.5, 0.9, 0.2]})
    assert "must not rise" in rising["synthetic_acceptance_rates"]


def test_an_option_of_another_method_is_refused_naming_its_methods() -> None:
    assert said(options={"suffix_decoding_max_cached_requests": 0}) == {
        "suffix_decoding_max_cached_requests": "it belongs to suffix, not to ngram: remove it"
    }
    assert said(method="suffix", options={"suffix_decoding_max_cached_requests": 0}) == {}
    assert "belongs to dspark" in said(options={"enable_adaptive_verification": True})["enable_adaptive_verification"]


def test_a_misspelt_option_is_answered_with_the_engines_nearest_one() -> None:
    problem = said(options={"rejection_sampling_method": "block"})["rejection_sampling_method"]
    assert problem == "vllm 0.32.0 has no such option: did you mean rejection_sample_method?"
    assert "write draft_tensor_parallel_size" in said(options={"tensor_parallel_size": 1})["tensor_parallel_size"]
    assert "remove it" in said(options={"draft_model_config": {}})["draft_model_config"]


def test_unknown_options_pass_where_the_engine_cannot_be_asked() -> None:
    assert said("sglang", options={"of_next_year": 1}) == {}
    assert said("sglang", options={"ngram_match_type": "DFS"}) == {
        "ngram_match_type": "must be one of BFS, PROB, got 'DFS'"
    }
    assert (
        "larger batch" in said("tensorrt_llm", options={"draft_len_schedule": {"4": 2, "8": 3}})["draft_len_schedule"]
    )


def test_a_method_whose_draft_is_a_model_says_so_at_once() -> None:
    with pytest.raises(StudyError, match="method dflash needs a draft model"):
        said(method="dflash")
    assert said(method="dspark") == {}  # it may be in the target's own weights


@pytest.mark.parametrize(
    ("kind", "method", "options", "asked"),
    [
        ("sglang", "ngram", {}, ["fresh_starts"]),
        ("sglang", "eagle3", {"adaptive": True}, ["fresh_starts"]),
        ("sglang", "eagle3", {}, []),
        ("tensorrt_llm", "ngram", {}, ["fresh_starts"]),
        ("tensorrt_llm", "ngram", {"is_public_pool": False}, []),
        ("tensorrt_llm", "suffix", {"enable_global_pool": True}, []),
        ("vllm", "suffix", {}, []),  # its plan starts it anew by itself
        ("vllm", "ngram", {}, []),
    ],
)
def test_a_draft_that_remembers_by_its_engine_asks_for_a_decision(
    kind: str, method: str, options: dict[str, Any], asked: list[str]
) -> None:
    model = {} if METHODS[method].draft_model == "refused" else {"model": "owner/draft"}
    draft = {"method": method, "num_speculative_tokens": 3, "options": options} | model
    arms = [{"name": "plain"}, {"name": "a", "engine": kind, "speculation": draft}]
    has = Capabilities(engine=kind, kind=kind, version=None, methods=tuple(METHODS), flags=None, gpus=())

    def problems(**changes: Any) -> list[tuple[str, str]]:
        of = study(arms=arms, **changes)
        return [found for found in study_problems(of, of.arms[1], "arms[1]", has) if found[0] == "fresh_starts"]

    assert [field for field, _ in problems()] == asked
    assert problems(fresh_starts="every_cell") == problems(fresh_starts="never") == []
