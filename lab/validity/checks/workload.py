"""Checks that prompts and outputs are representative: random tokens, categories, loops, truncation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow.compute as pc

from lab.metrics.record_table import Floats
from lab.metrics.request_table import RequestTable
from lab.repetition import degenerate
from lab.study.workload import NO_TEXT, RANDOM_LENGTHS
from lab.validity.check import Answer, Check, Fired, Missing
from lab.validity.checks.contradictions import CUT_ALL_PROMPTS, CUT_FROM_TOKENS, cut_prompts
from lab.validity.evidence import Evidence
from lab.validity.words import of_requests, percent

#: Datasets of random tokens; synthetic prompts also carry the category.
SYNTHETIC_DATASETS = frozenset({"random", "prefix_repetition", "burstgpt", "burstgpt_sample", *RANDOM_LENGTHS})
SYNTHETIC_CATEGORY = "synthetic"
#: Above these shares of degenerate outputs, figures are inflated, and no longer those of text.
DEGENERATE_WARNING, DEGENERATE_INVALID = 0.05, 0.5
#: At most this many outputs, evenly spread, are examined, because each takes time.
MOST_OUTPUTS = 1000
#: A server may add tokens around a prompt but not remove any; below this share it is another prompt.
PROMPT_SHARE = 0.98
#: Truncated prompts: this many at the same length, with this much more text per token than the others.
CUT_PROMPTS, CUT_TEXT_RATIO = 3, 1.5


def _synthetic(evidence: Evidence) -> Answer:
    made = evidence.run.workload.dataset in SYNTHETIC_DATASETS
    if not made and not evidence.requests.equals("category", SYNTHETIC_CATEGORY).any():
        return None
    return Fired(
        f"Synthetic prompts: {evidence.run.workload.dataset} is random tokens, so acceptance is not that of text."
    )


def _without_text(evidence: Evidence) -> Answer:
    without = int(evidence.requests.equals("category", NO_TEXT).sum())
    if not without:
        return None
    return Fired(
        f"{of_requests(without, len(evidence.requests))} come from a trace without texts, so random tokens were sent: "
        "the load is that of the trace, the acceptance would mean nothing and is left empty."
    )


def _no_category(evidence: Evidence) -> Answer:
    without = evidence.requests.texts("category").null_count
    if not without or evidence.run.arm.speculation is None:
        return None
    return Fired(
        f"{of_requests(without, len(evidence.requests))} have no category, so acceptance by category is unknown."
    )


def _degenerate(evidence: Evidence) -> Answer:
    outputs: list[str] = evidence.completed.texts("output_text").to_pylist()
    judged = degenerate(outputs[:: 1 + len(outputs) // MOST_OUTPUTS])
    if not judged.size:
        return Missing("outputs long enough to tell whether they loop") if outputs else None
    share = float(judged.mean())
    if share <= DEGENERATE_WARNING:
        return None
    flattered = "" if evidence.run.arm.speculation is None else ", which inflates acceptance and speed"
    return Fired(
        f"{judged.sum()} of {judged.size} outputs ({percent(share)}) repeat themselves in a loop{flattered}.",
        "invalid" if share > DEGENERATE_INVALID else "warning",
    )


def _truncated(evidence: Evidence) -> Answer:
    read, sent = evidence.completed.numbers("prompt_tokens"), _sent_tokens(evidence)
    if np.isnan(read).any():
        return Missing("the server's count of prompt tokens")
    short = np.flatnonzero(read < sent)
    if short.size:
        shares = read[short] / sent[short]
        worst = short[np.lexsort((sent[short], read[short], shares))[0]]
        return Fired(
            f"{of_requests(short.size, read.size)} had fewer prompt tokens than were sent: {read[worst]:.0f} of "
            f"{sent[worst]:.0f}.",
            "invalid" if shares.min() < PROMPT_SHARE else "warning",
        )
    uncounted = evidence.completed.where(np.isnan(sent))
    made = evidence.run.workload.input_tokens is not None or evidence.run.workload.dataset in SYNTHETIC_DATASETS
    return _cut_at_a_limit(uncounted) or (None if made else cut_prompts(uncounted))


def _sent_tokens(evidence: Evidence) -> Floats:
    """Return the prompt tokens as sent: the client's count, else the length to which the prompts were made."""
    sent = evidence.completed.numbers("sent_prompt_tokens")
    made = (evidence.run.workload.input_tokens or 0) + (evidence.run.workload.prefix_tokens or 0)
    return np.where(np.isnan(sent), made, sent) if made and evidence.run.endpoint == "completions" else sent


def _cut_at_a_limit(requests: RequestTable) -> Answer:
    """Return whether the longest prompts have much more text per token than shorter ones, or than each other."""
    requests = requests.where(requests.numbers("prompt_tokens") > 0)
    if not len(requests):
        return None
    prompts = requests.texts("prompt").combine_chunks().dictionary_encode()
    texts: Any = prompts.dictionary
    characters, tokens = pc.utf8_length(texts).to_numpy(), np.zeros(len(texts))
    tokens[prompts.indices.to_numpy()] = requests.numbers("prompt_tokens")
    limit = tokens.max()
    per_token = characters / tokens
    at_limit, below = np.sort(per_token[tokens == limit]), np.sort(per_token[tokens < limit])
    if at_limit.size < CUT_PROMPTS or limit < CUT_FROM_TOKENS:
        return None
    usual = below[below.size // 2] if below.size else at_limit[0]
    typical = at_limit[at_limit.size // 2] if below.size else at_limit[-1]
    if not usual or typical < CUT_TEXT_RATIO * usual:
        return None
    return Fired(
        f"{of_requests(at_limit.size, tokens.size)} have exactly {limit:.0f} prompt tokens, though their texts are up "
        f"to {at_limit[-1] / usual:.2g} times as long as that many tokens hold elsewhere: they seem to be truncated.",
        "warning",
    )


CHECKS = (
    Check(
        name="synthetic_prompts",
        traps=(1,),
        severity="note",
        looks_at=("workload.dataset", "category"),
        needs=("workload.dataset",),
        threshold="any prompt of random tokens",
        why="Random tokens raise or lower acceptance. Published results use them, so they are allowed.",
        advice="For conclusions about acceptance use your own prompts or a dataset of real text.",
        rule=_synthetic,
    ),
    Check(
        name="trace_without_text",
        traps=(1,),
        severity="warning",
        looks_at=("category",),
        threshold="any request of a trace that records lengths or block hashes instead of texts",
        why="On the random tokens that replace the text, acceptance and speed-up are not those of the recorded "
        "traffic.",
        advice="For acceptance use a trace with messages; otherwise compare only what does not depend on it.",
        rule=_without_text,
    ),
    Check(
        name="prompts_without_category",
        traps=(2,),
        severity="note",
        looks_at=("category",),
        threshold="any request without a category, if the arm speculates",
        why="Acceptance depends on the kind of text: one model had 0.91 on code and 0.48 on prose.",
        advice="Add a category to each row of the dataset.",
        rule=_no_category,
    ),
    Check(
        name="degenerate_output",
        traps=(3,),
        severity="invalid",
        looks_at=("output_text",),
        threshold=f"a warning above {percent(DEGENERATE_WARNING)} of the outputs long enough to judge, invalid "
        f"above {percent(DEGENERATE_INVALID)}",
        why="Forced past its end (ignore_eos), a model loops, and drafts predict loops: one had an acceptance length "
        "of 7.76 instead of 2.68.",
        advice="Request fewer output tokens, set ignore_eos = false, or use prompts that need long answers.",
        rule=_degenerate,
    ),
    Check(
        name="prompt_truncated",
        traps=(19,),
        severity="invalid",
        looks_at=(
            "prompt",
            "prompt_tokens",
            "sent_prompt_tokens",
            "workload.input_tokens",
            "workload.prefix_tokens",
            "endpoint",
        ),
        threshold="a warning if the server read fewer tokens than were sent, invalid below "
        f"{percent(PROMPT_SHARE)}. If sent tokens were not counted: a warning if {CUT_PROMPTS} prompts "
        f"share the highest token count (from {CUT_FROM_TOKENS} on) with {CUT_TEXT_RATIO:g} times the "
        f"text per token, or {CUT_ALL_PROMPTS} different prompts all have one count; invalid if a prompt "
        f"of {CUT_FROM_TOKENS} words has fewer tokens than words. Prompts made to a length do not count",
        why="A truncated prompt is a different, cheaper prompt.",
        advice="Raise max_model_len, or choose shorter prompts.",
        rule=_truncated,
    ),
)
