"""Generated prompts have exact lengths and draw on all of the target's ordinary tokens."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from jobs.datasets.synthetic import CATEGORY, of_lengths, prefix_prompts, random_prompts
from jobs.datasets.tokenizer import TargetTokenizer
from lab.study import Workload

seeds = st.integers(0, 2**31)
few = st.integers(1, 20)
prefix_workloads = st.builds(
    Workload,
    dataset=st.just("prefix_repetition"),
    num_prefixes=st.integers(1, 5),
    prefix_tokens=few,
    input_tokens=few,
    output_tokens=st.just(8),
)


@settings(max_examples=25)
@given(st.integers(1, 300), st.integers(1, 12), seeds)
def test_random_prompts_have_exactly_the_tokens_asked_for(
    tokenizer: TargetTokenizer, tokens: int, count: int, seed: int
) -> None:
    prompts = random_prompts(Workload(dataset="random", input_tokens=tokens), count, seed, tokenizer)
    assert [len(prompt.token_ids or ()) for prompt in prompts] == [tokens] * count
    ordinary = set(tokenizer.ordinary_ids.tolist())
    assert all(ordinary.issuperset(prompt.token_ids or ()) for prompt in prompts)
    assert {prompt.category for prompt in prompts} == {CATEGORY}


@settings(max_examples=25)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=12), seeds, st.data())
def test_a_prompt_depends_on_its_place_and_length_alone(
    tokenizer: TargetTokenizer, lengths: list[int], seed: int, data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(lengths) - 1))
    others = [1 if n != place else tokens for n, tokens in enumerate(lengths)]
    assert of_lengths(lengths, seed, tokenizer)[place] == of_lengths(others, seed, tokenizer)[place]


@settings(max_examples=25)
@given(prefix_workloads, st.integers(1, 24), seeds)
def test_each_prefix_is_shared_by_its_part_of_the_prompts(
    tokenizer: TargetTokenizer, workload: Workload, count: int, seed: int
) -> None:
    prefixes, prefix_tokens = workload.num_prefixes or 0, workload.prefix_tokens or 0
    prompts = [prompt.token_ids or () for prompt in prefix_prompts(workload, count, seed, tokenizer)]
    assert {len(ids) for ids in prompts} == {prefix_tokens + (workload.input_tokens or 0)}
    used = Counter(ids[:prefix_tokens] for ids in prompts)
    assert len(used) <= prefixes
    assert sum(used.values()) == count
    if len(used) == prefixes:  # short ones may be drawn twice
        assert max(used.values()) - min(used.values()) <= 1


def test_random_prompts_use_the_whole_vocabulary_without_its_special_tokens(tokenizer: TargetTokenizer) -> None:
    (prompt,) = random_prompts(Workload(dataset="random", input_tokens=60_000), 1, 0, tokenizer)
    counts = Counter(prompt.token_ids)
    assert 0 not in counts  # <|end|>
    assert len(counts) == len(tokenizer.ordinary_ids) == 2047
    assert max(counts.values()) < 3 * 60_000 / 2047


def test_the_text_of_a_random_prompt_is_what_its_ids_decode_to(tokenizer: TargetTokenizer) -> None:
    (prompt,) = random_prompts(Workload(dataset="random", input_tokens=40), 1, 5, tokenizer)
    assert [prompt.text] == tokenizer.decode([prompt.token_ids or ()])


def test_the_named_random_datasets_have_the_published_lengths(tokenizer: TargetTokenizer) -> None:
    lengths = {"random_s": (1024, 256), "random_m": (10240, 256), "random_l": (2048, 2048), "random_x": (10240, 2048)}
    for name, (inputs, outputs) in lengths.items():
        workload = Workload(dataset=name)
        (prompt,) = random_prompts(workload, 1, 0, tokenizer)
        assert (len(prompt.token_ids or ()), workload.output_tokens) == (inputs, outputs)


@pytest.mark.parametrize("other", [{"output_tokens": 64}, {"input_tokens": 2048}])
def test_a_named_random_dataset_of_other_lengths_is_refused(other: dict[str, int]) -> None:
    with pytest.raises(ValidationError, match="random_s is 1024 input and 256 output tokens: leave both out"):
        Workload.model_validate({"dataset": "random_s", **other})
