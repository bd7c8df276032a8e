"""What each arm's engine is told, and what else may be said of it."""

from __future__ import annotations

from lab.validity import Severity, Verdict

#: Short runs have too few requests for percentiles, and this machine may be busy with other tests while they run.
OF_SHORT_RUNS = {
    "few_requests", "few_rounds", "client_lag", "late_sends", "other_programs", "few_answers_paused",
}  # fmt: skip
#: Nothing is known of how a server is set that somebody else started.
OF_THEIRS = {"configuration_unknown"}
EXPECTED: tuple[tuple[str, str, Severity, str], ...] = (
    ("healthy", "few_requests", "note", "12 answered requests are too few for"),
    ("counts_wrongly", "server_token_count", "invalid", "counted 384 generated tokens in the window"),
    ("counts_wrongly", "told_tokens_count", "warning", "32 and 24 in the first of them"),
    ("hangs_up", "requests_failed", "invalid", "4 of 12 requests failed"),
    ("compiles_late", "compilation_in_window", "invalid", "_fwd_kernel"),
    ("compiles_late", "slow_first_requests", "invalid", "The quickest of the first 2 requests"),
    ("keeps_answers", "answers_from_cache", "invalid", "answers from a cache"),
    ("one_token", "degenerate_output", "invalid", "12 of 12 outputs (100 %)"),
    ("forgets", "counter_reset", "invalid", "it was restarted"),
    ("truncates", "prompt_truncated", "warning", "exactly 64 prompt tokens"),
    ("holds_back", "answers_at_once", "invalid", "12 of 12 requests"),
    ("warm_cache", "warm_prefix_cache", "invalid", "90 % of the prompt tokens"),
    ("warm_in_usage", "warm_prefix_cache", "invalid", "of the prompt tokens came from the prefix cache"),
    ("counts_too_few", "tokens_below_chunks", "invalid", "32 chunks and 8 tokens"),
    ("closes_used", "requests_sent_again", "note", "were sent again on a new connection"),
    ("keeps_cache", "prefix_cache_not_reset", "warning", "was not reset before the window: HTTP 500"),
    ("hides_counters", "counters_unread", "note", "counters are unknown: "),
    ("ends_early", "output_length", "invalid", "120 tokens were served of 384 requested"),
    ("is_shared", "server_token_count", "invalid", "somebody else used the server"),
    ("own_sampling", "sampling_overridden", "warning", "repetition_penalty 1.1"),
    ("healthy draft", "several_tokens_a_chunk", "note", "2 tokens on average"),
    ("counts_positions", "acceptance_adds_up", "invalid", "is 2, but 1 + the sum of its per-position rates is 1.7"),
    ("small_graphs", "capture_sizes_too_small", "warning", "2 streams of 1 + 3 tokens need 8"),
    ("forced", "synthetic_acceptance", "invalid", "of 2 tokens a round was forced"),
    ("preempts", "preemptions", "warning", "12"),
    ("reads_twice", "server_prompt_count", "warning", "prompt tokens"),
    ("requests_disagree", "request_acceptance_agrees", "warning", "accepted"),
    ("counts_the_whole", "acceptance_only_of_the_run", "note", "of each request and category it is unknown"),
    ("drafts_nothing", "few_rounds", "warning", "Not one token was drafted"),
    ("forbids_drafts", "steps_without_draft", "warning", "of the tokens came from steps"),
    ("lowers_budget", "settings_changed_by_speculation", "note", "max_num_scheduled_tokens is set to 2048"),
    ("dies", "run_failed", "invalid", "illegal memory access"),
    ("refuses_warm_up", "short_warm_up", "warning", "answers to 0 of its requests, fewer than the 2 streams"),
    ("crowded", "server_shared", "invalid", "had up to 8 requests at once"),
)
#: What follows from a trap beside its own check.
FOLLOWS = {
    "counts_wrongly": {"output_length", "tokens_below_chunks"},
    "counts_too_few": {"output_length", "server_token_count"},
    "keeps_answers": {"answers_at_once"},
}
HEALTHY = ("healthy", "healthy draft")


def meant(arm: str) -> dict[str, Severity]:
    """The checks that must speak of an arm, and how severely."""
    return {check: severity for name, check, severity, _ in EXPECTED if name == arm}


def noise(arm: str, verdict: Verdict) -> set[str]:
    """The checks that speak of an arm without a reason in its engine."""
    fired = {finding.check for finding in verdict.findings} - OF_SHORT_RUNS - OF_THEIRS
    return fired - set(meant(arm)) - FOLLOWS.get(arm, set()) - {"several_tokens_a_chunk"}


def is_believed(verdict: Verdict) -> bool:
    """A machine that is busy with something else may hold up the client, which is no fault of the engine."""
    return not {finding.check for finding in verdict.findings if finding.severity == "invalid"} - OF_SHORT_RUNS


def is_as_meant(arm: str, verdict: Verdict) -> bool:
    """Said is what must be, nothing else is, and a healthy engine's run is valid."""
    severities = {finding.check: finding.severity for finding in verdict.findings}
    is_each_as_meant = all(severities.get(check) == severity for check, severity in meant(arm).items())
    return is_each_as_meant and not noise(arm, verdict) and (arm not in HEALTHY or is_believed(verdict))
