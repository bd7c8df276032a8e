"""Checks that no source contradicts itself: a server's counts what was sent and what came, a file its own requests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow.compute as pc

from lab.metrics.request_table import RequestTable
from lab.validity.check import Answer, Check, Fired, Missing
from lab.validity.evidence import Evidence
from lab.validity.words import listed, of_requests, percent

#: Chunks with output beyond the tokens of an answer that are no contradiction: a server may send the end of the text
#: apart.
CHUNKS_SLACK = 1
#: Chunks beyond the tokens, as a share of these, above which no figure of tokens can be believed.
EXCESS_INVALID = 0.05
#: A word has at least a token. How many words a token may hold all the same, for tokenizers that join a few.
WORDS_A_TOKEN = 1.1
#: From this many different prompts with exactly the same number of tokens on, that is no chance.
CUT_ALL_PROMPTS = 5
#: Shorter prompts may have the same length by chance, and no server cuts them.
CUT_FROM_TOKENS = 64


def _tokens_below_chunks(evidence: Evidence) -> Answer:
    chunks, tokens = evidence.completed.lists("chunk_s").lengths, evidence.completed.numbers("completion_tokens")
    if tokens.size and np.isnan(tokens).all():
        return Missing("the server's count of generated tokens")
    below = np.flatnonzero(chunks > tokens + CHUNKS_SLACK)
    if not below.size:
        return None
    worst = below[(chunks[below] - tokens[below]).argmax()]
    excess = (chunks[below] - tokens[below]).sum() / max(1.0, np.nansum(tokens))
    return Fired(
        f"{of_requests(below.size, tokens.size)} came in more chunks with output than their usage has tokens: "
        f"{chunks[worst]} chunks and {tokens[worst]:.0f} tokens in one of them.",
        "invalid" if excess > EXCESS_INVALID else "warning",
    )


def _sent_again(evidence: Evidence) -> Answer:
    times = evidence.sent.numbers("resent")
    if times.size and np.isnan(times).all():
        return Missing("how often requests were sent")
    resent = times > 0
    if not resent.any():
        return None
    return Fired(
        f"{of_requests(int(resent.sum()), resent.size)} were sent again on a new connection, because the server had "
        "closed the used one: their TTFT includes the first attempt."
    )


def cut_prompts(requests: RequestTable) -> Answer:
    """Return whether prompts have fewer tokens than words, or are all of one length although their texts are not.

    `requests` are those whose prompts were not made to a length, with tokens that only the server counts.
    """
    requests = requests.where(requests.numbers("prompt_tokens") > 0)
    if not len(requests):
        return None
    prompts = requests.texts("prompt").combine_chunks().dictionary_encode()
    texts: Any = prompts.dictionary
    tokens = np.zeros(len(texts))
    tokens[prompts.indices.to_numpy()] = requests.numbers("prompt_tokens")
    words = pc.count_substring_regex(texts, pattern=r"\S+").to_numpy()
    short = np.flatnonzero((words > WORDS_A_TOKEN * tokens) & (words >= CUT_FROM_TOKENS))
    if short.size:
        worst = short[(words[short] / tokens[short]).argmax()]
        return Fired(
            f"{short.size} of {tokens.size} prompts have fewer tokens than words by the server's count: "
            f"{tokens[worst]:.0f} tokens for {words[worst]} words in one of them. They were truncated, or its usage "
            "leaves cached tokens out.",
            "invalid",
        )
    characters = pc.utf8_length(texts).to_numpy()
    if tokens.size < CUT_ALL_PROMPTS or np.ptp(tokens) or not np.ptp(characters) or tokens[0] < CUT_FROM_TOKENS:
        return None
    return Fired(
        f"All {tokens.size} prompts have exactly {tokens[0]:.0f} tokens by the server's count, though their texts have "
        f"{characters.min()} to {characters.max()} characters: they seem to be truncated.",
        "warning",
    )


CHECKS = (
    Check(
        name="tokens_below_chunks",
        traps=(6, 8),
        severity="invalid",
        looks_at=("chunk_s", "completion_tokens"),
        threshold=f"any answer whose chunks with output outnumber its tokens by more than {CHUNKS_SLACK}; invalid "
        f"if the surplus exceeds {percent(EXCESS_INVALID)} of all tokens, else a warning",
        why="Either usage counts too few tokens, or a proxy splits answers.",
        advice="Measure without proxies, or use a server version that counts correctly.",
        rule=_tokens_below_chunks,
    ),
    Check(
        name="requests_sent_again",
        traps=(11,),
        severity="note",
        looks_at=("resent", "sent_s"),
        threshold="any request that was sent a second time",
        why="The server closed an idle connection just as a request was sent.",
        advice="Let the server keep connections open for longer than 2 s.",
        rule=_sent_again,
    ),
    Check(
        name="file_contradicts_itself",
        traps=(26,),
        severity="warning",
        looks_at=("doubts",),
        threshold="a printed figure more than 0.5 % away from what the file's own requests, counts or rates give. "
        "Imported runs only",
        why="More than rounding is another definition or an edited file. The figure computed from requests is used.",
        advice="Look up how this version of the tool computes the figure, or compare only what follows from its "
        "requests.",
        rule=lambda evidence: (
            Fired(f"The file contradicts itself: {listed(list(evidence.doubts), 3)}.") if evidence.doubts else None
        ),
    ),
)
