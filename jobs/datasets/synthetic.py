"""Generated prompts: random token ids of exact lengths, with shared prefixes where the workload sets them.

They read as nonsense, which distorts acceptance in either direction: their category is `synthetic`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from jobs.datasets.prompt import Prompt, id_of_token_ids
from jobs.datasets.tokenizer import TargetTokenizer
from lab.study import Workload

CATEGORY = "synthetic"
#: Streams of random numbers, so that prefixes and prompts differ under the same seed.
_OF_PREFIX, _OF_PROMPT, _OF_ORDER = 1, 2, 3
#: Defaults of prefix_repetition, as in `vllm bench serve`.
_PREFIXES, _PREFIX_TOKENS, _INPUT_TOKENS = 10, 256, 256


def random_prompts(workload: Workload, count: int, seed: int, tokenizer: TargetTokenizer) -> tuple[Prompt, ...]:
    """Return prompts of `input_tokens` tokens each, drawn uniformly from the vocabulary without its special tokens."""
    lengths = [workload.input_tokens or 0] * count
    return of_lengths(lengths, seed, tokenizer)


def prefix_prompts(workload: Workload, count: int, seed: int, tokenizer: TargetTokenizer) -> tuple[Prompt, ...]:
    """Return prompts with one of `num_prefixes` prefixes of `prefix_tokens`, used equally often, and `input_tokens`
    after it.
    """
    prefixes = workload.num_prefixes or _PREFIXES
    first = [_draw(tokenizer, workload.prefix_tokens or _PREFIX_TOKENS, seed, _OF_PREFIX, n) for n in range(prefixes)]
    rest = [_draw(tokenizer, workload.input_tokens or _INPUT_TOKENS, seed, _OF_PROMPT, n) for n in range(count)]
    turns = (np.random.default_rng((seed, _OF_ORDER, n)).permutation(prefixes) for n in itertools.count())
    used = itertools.chain.from_iterable(turns)  # endless
    return _prompts([first[which] + own for own, which in zip(rest, used, strict=False)], tokenizer)


def of_lengths(lengths: Sequence[int], seed: int, tokenizer: TargetTokenizer) -> tuple[Prompt, ...]:
    """Return one prompt per length. Prompt n depends only on the seed, n and its length."""
    return _prompts([_draw(tokenizer, tokens, seed, _OF_PROMPT, n) for n, tokens in enumerate(lengths)], tokenizer)


def _draw(tokenizer: TargetTokenizer, tokens: int, *seed: int) -> tuple[int, ...]:
    return tuple(np.random.default_rng(seed).choice(tokenizer.ordinary_ids, size=tokens).tolist())


def _prompts(drawn: Sequence[tuple[int, ...]], tokenizer: TargetTokenizer) -> tuple[Prompt, ...]:
    texts = tokenizer.decode(drawn)
    return tuple(
        Prompt(id_of_token_ids(ids), CATEGORY, text, token_ids=ids) for ids, text in zip(drawn, texts, strict=True)
    )
