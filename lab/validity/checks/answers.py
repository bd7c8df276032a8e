"""Checks that enough requests were answered, and that each got the tokens it requested."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc

from lab.metrics.record_table import Floats
from lab.metrics.records import NOT_SENT
from lab.metrics.request_table import RequestTable
from lab.validity.check import Answer, Check, Fired, Missing
from lab.validity.evidence import Evidence
from lab.validity.words import listed, of_requests, percent

#: Above this share of failed requests, the answered ones are not representative.
FAILED_SHARE = 0.05
#: Failed requests that differ from the others by chance less often than this were chosen.
BY_CHANCE = 0.01
#: Above this share of requests without a free stream, the load was not the requested one.
UNSENT_SHARE = 0.05
#: Served over requested tokens in all; below this the work was less than it seems.
SERVED_SHARE = 0.95
#: How much of the engine's last message is shown: its first lines matter most.
SHOWN_CHARACTERS = 300


def _run_failed(evidence: Evidence) -> Answer:
    if evidence.run.status == "completed":
        return None
    why = " ".join((evidence.run.error or "no reason was recorded").split())
    return Fired(f"The run failed: {why[:SHOWN_CHARACTERS]}{'...' if len(why) > SHOWN_CHARACTERS else ''}")


def _requests_failed(evidence: Evidence) -> Answer:
    if evidence.run.trial is not None:
        return None
    if "error" in evidence.unrecorded:
        return _counted_failed(evidence)
    failed = evidence.sent.where(~evidence.sent.is_completed)
    if not len(evidence.completed):
        return Fired("Not one request was answered.")
    if not len(failed):
        return None
    share = len(failed) / len(evidence.sent)
    errors: list[str | None] = failed.texts("error").unique().to_pylist()
    reasons = list(dict.fromkeys((error or "it never ended").split("\n")[0][:200] for error in errors))
    return Fired(
        f"{of_requests(len(failed), len(evidence.sent))} failed ({percent(share)}), because: {listed(reasons, 2)}",
        "invalid" if share > FAILED_SHARE else "warning",
    )


def _counted_failed(evidence: Evidence) -> Answer:
    """Report failed requests of a file that only counts them."""
    failed, done = evidence.number("requests_failed") or 0, evidence.number("requests_completed") or 0
    if not failed:
        return None
    share = failed / (failed + done)
    return Fired(
        f"{of_requests(int(failed), int(failed + done))} failed ({percent(share)}); the file does not say why.",
        "invalid" if share > FAILED_SHARE else "warning",
    )


def _failures_alike(evidence: Evidence) -> Answer:
    """Compare the failed requests with the others by the length of their prompts and by their place in the run."""
    failed, others = evidence.sent.where(~evidence.sent.is_completed), evidence.completed
    if not len(failed) or not len(others) or evidence.run.trial is not None:
        return None
    found = {
        "length": (_prompt_lengths(failed), _prompt_lengths(others)),
        "place": (failed.numbers("index"), others.numbers("index")),
    }
    from scipy import stats  # noqa: PLC0415 - half a second of a processor, for the few runs with failures

    tests = {name: stats.mannwhitneyu(*both, nan_policy="omit") for name, both in found.items()}
    chances = {name: float(np.nan_to_num(test.pvalue, nan=1.0)) for name, test in tests.items()}
    name = min(chances, key=lambda name: chances[name])
    if chances[name] * len(found) >= BY_CHANCE:
        return None
    theirs, usual = (float(np.nanmedian(values)) for values in found[name])
    how = f"prompts of {theirs:.0f} characters (median), the others of {usual:.0f}"
    if name == "place":
        how = f"the numbers {theirs:.0f} (median) in the order of sending, the others {usual:.0f}"
    return Fired(
        f"The {len(failed)} requests that failed are not like the others: they had {how}. The figures are those of "
        "the rest alone."
    )


def _prompt_lengths(requests: RequestTable) -> Floats:
    lengths: Floats = pc.utf8_length(requests.texts("prompt")).to_numpy().astype(np.float64)
    return lengths


def _requests_not_sent(evidence: Evidence) -> Answer:
    """Report requests that were due and not sent; those that a trial saved by ending early were not due."""
    unsent = evidence.requests.where(~evidence.requests.known("sent_s"))
    if not len(unsent) or not len(evidence.completed) or evidence.run.ended_early is not None:
        return None
    errors: list[str] = unsent.texts("error").drop_null().unique().to_pylist()
    because = f", because: {listed([error.removeprefix(NOT_SENT) for error in errors], 2)}" if errors else ""
    return Fired(
        f"{of_requests(len(unsent), len(evidence.requests))} never left the client{because}.",
        "warning" if len(unsent) / len(evidence.requests) > UNSENT_SHARE else "note",
    )


def _output_length(evidence: Evidence) -> Answer:
    """Check output lengths: a request needs all its tokens if it may not end early, or if it ended by length.

    More tokens than requested are always wrong.
    """
    served_tokens, requested_tokens = (
        evidence.completed.numbers(name) for name in ("completion_tokens", "requested_output_tokens")
    )
    bound = (
        evidence.completed.equals("finish_reason", "length")
        | (served_tokens > requested_tokens)
        | evidence.run.workload.ignore_eos
    )
    if np.isnan(served_tokens[bound]).any():
        return Missing("the server's count of generated tokens")
    served, requested = int(served_tokens[bound].sum()), int(requested_tokens[bound].sum())
    longer, off = int((served_tokens > requested_tokens).sum()), int((served_tokens != requested_tokens)[bound].sum())
    if not off:
        return None
    deviation = "more tokens than they asked for" if longer else "fewer tokens than they asked for"
    return Fired(
        f"{of_requests(longer or off, int(bound.sum()))} got {deviation}: {served} tokens were served of "
        f"{requested} requested ({percent(served / max(1, requested))}).",
        "invalid" if longer or served < SERVED_SHARE * requested else "warning",
    )


RUN_FAILED = Check(
    name="run_failed",
    traps=(11,),
    severity="invalid",
    looks_at=("status", "error"),
    threshold="any run that did not complete",
    why="What was measured before an engine died is not the planned cell.",
    advice="Read the engine's log (drafthouse logs JOB), fix the cause and retry the job.",
    rule=_run_failed,
)
CHECKS = (
    RUN_FAILED,
    Check(
        name="requests_failed",
        traps=(11,),
        severity="invalid",
        looks_at=("error", "end_s", "requests_completed", "requests_failed"),
        needs=("requests_completed", "requests_failed"),
        threshold=f"invalid above {percent(FAILED_SHARE)} of the requests sent, or when none was answered; else a "
        "warning. Not for trials of capacity searches",
        why="A half-failed run looks fast: the rest of the requests get the machine.",
        advice="Read the first error above and the engine's log; lower the concurrency or raise request_timeout_s.",
        rule=_requests_failed,
    ),
    Check(
        name="failures_differ",
        traps=(11,),
        severity="warning",
        looks_at=("error", "prompt", "index"),
        threshold="prompt lengths, or positions in the order of sending, differ between failed and answered requests "
        f"(Mann-Whitney, Bonferroni, p < {BY_CHANCE:g})",
        why="A server that refused its longest prompts, fewer than 5 %, reached 1.56 times the throughput.",
        advice="Read the errors of the failed requests. Raise max_model_len, or drop such prompts for both arms.",
        rule=_failures_alike,
    ),
    Check(
        name="requests_not_sent",
        traps=(16,),
        severity="warning",
        looks_at=("sent_s", "error"),
        needs=("sent_s",),
        threshold=f"a warning above {percent(UNSENT_SHARE)} of the requests, else a note. Not for trials that ended "
        "early",
        why="The requests left out would have been the slowest.",
        advice="Lower request_rate_rps, or raise max_concurrency or duration_s. Of sessions, see why turns failed.",
        rule=_requests_not_sent,
    ),
    Check(
        name="output_length",
        traps=(19,),
        severity="invalid",
        looks_at=("completion_tokens", "requested_output_tokens", "finish_reason", "workload.ignore_eos"),
        needs=("completion_tokens", "requested_output_tokens", "workload.ignore_eos"),
        threshold=f"invalid if any request has more tokens than requested, or if fewer than {percent(SERVED_SHARE)} "
        "of all requested tokens were served; else a warning. Requests that may end early (ignore_eos = "
        "false, finish_reason stop) do not count",
        why="A shorter output (max_model_len, or an ignored ignore_eos) is less work; a longer one was miscounted.",
        advice="Raise max_model_len, shorten the prompts, or set ignore_eos = false and compare per token.",
        rule=_output_length,
    ),
)
