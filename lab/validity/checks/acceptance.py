"""Checks that acceptance counters are consistent, rest on enough rounds and come from a real draft."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np

from lab.metrics.records import RunRecord
from lab.metrics.request_table import RequestTable
from lab.validity.check import Answer, Check, Fired, Missing
from lab.validity.checks.streaming import share_together
from lab.validity.evidence import Evidence
from lab.validity.words import percent

#: How far the acceptance length may differ from 1 + the sum of the per-position rates.
LENGTH_APART = 0.01
#: How far the sum over requests may differ from the server's counters.
REQUESTS_APART = 0.05
#: A share of this many rounds has a standard error of at most 5 percentage points.
FEW_ROUNDS = 100
#: With a larger share of the tokens than this, the acceptance length is that of selected rounds.
WITHOUT_DRAFT = 0.05
#: Below so many tokens an event beside the first, and with fewer events than this share close together, nothing in the
#: stream shows that several tokens are made at once.
TOKENS_AN_EVENT, CLOSE_TOGETHER = 1.02, 0.02
#: Settings that force acceptance, in vLLM, SGLang and TensorRT-LLM.
_FORCED = re.compile(
    r"synthetic[_-]acceptance|rejection[_-]sample[_-]method\W+synthetic|SIMULATE_ACC|FORCE_NUM_ACCEPTED", re.IGNORECASE
)


def is_synthetic(run: RunRecord) -> bool:
    """Return whether a setting of the engine forced how many tokens are accepted."""
    settings = run.arm.model_dump_json() + " ".join(run.circumstances.command)
    settings += repr(run.circumstances.environment) + run.circumstances.effective_config.get("non_default_args", "")
    return _FORCED.search(settings) is not None


def _synthetic(evidence: Evidence) -> Answer:
    if not is_synthetic(evidence.run):
        return None
    length = evidence.number("acceptance_length")
    shown = "" if length is None else f" of {length:.3g} tokens a round"
    return Fired(f"The acceptance{shown} was forced by a setting of the engine; no draft reached it.")


def _adds_up(evidence: Evidence) -> Answer:
    if evidence.run.arm.speculation is None:
        return None
    length, positions = evidence.number("acceptance_length"), evidence.metrics.get("acceptance_per_position")
    if length is None or not isinstance(positions, tuple):
        return Missing("the server's acceptance per position")
    summed = 1 + sum(positions)
    if abs(length - summed) > LENGTH_APART * summed:
        return Fired(
            f"The acceptance length is {length:.4g}, but 1 + the sum of its per-position rates is {summed:.4g}."
        )
    if positions[0] > 1 or any(later > earlier for earlier, later in pairwise(positions)):
        return Fired(f"The acceptance rates {', '.join(f'{rate:.3g}' for rate in positions)} do not fall by position.")
    rate = evidence.number("acceptance_rate")
    if rate is not None and rate > 1:
        return Fired(f"More tokens were accepted than drafted ({percent(rate)}).")
    return None


def _requests_agree(evidence: Evidence) -> Answer:
    if evidence.run.arm.speculation is None:
        return None
    accepted = evidence.grown("num_accepted_tokens")
    if wrong := _rounds_apart(evidence.completed):
        return Fired(f"The rounds that {wrong} answers list do not add up to their own counts.")
    counts = evidence.completed.numbers("spec_accepted_tokens")
    if accepted is None or np.isnan(counts).any() or evidence.some_failed:
        return Missing("accepted tokens of every request and of the server's counters")
    if abs(accepted - counts.sum()) <= max(REQUESTS_APART * accepted, counts.size):
        return None
    return Fired(
        f"The server's counters grew by {accepted:.0f} accepted tokens, but its answers add up to {counts.sum():.0f}."
    )


def _only_of_the_run(evidence: Evidence) -> Answer:
    if evidence.run.arm.speculation is None:
        return None
    if evidence.number("acceptance_length") is None:
        return Missing("the server's acceptance")
    counts, unknown = evidence.completed.numbers("spec_accepted_tokens"), []
    if counts.size and np.isnan(counts).all():
        unknown.append("of each request and category")
    if not isinstance(evidence.metrics.get("acceptance_per_position"), tuple):
        unknown.append("by position")
    if not unknown:
        return None
    return Fired(
        f"Acceptance is that of the whole run, from the server's counters: {' and '.join(unknown)} it is unknown."
    )


def _rounds_apart(completed: RequestTable) -> int:
    """Count the answers whose histogram of rounds contradicts the three counts that came with it."""
    drafted, accepted, counts = (completed.lists(f"rounds_{name}") for name in ("drafted", "accepted", "count"))
    if not counts.known.any():
        return 0
    summed = (counts.values, drafted.values * counts.values, accepted.values * counts.values)
    apart = np.zeros(len(completed), dtype=np.bool_)
    for name, values in zip(("spec_drafts", "spec_draft_tokens", "spec_accepted_tokens"), summed, strict=True):
        apart |= counts.sums(values) != completed.numbers(name)
    return int((apart & counts.known).sum())


def _without_draft(evidence: Evidence) -> Answer:
    speculation = evidence.run.arm.speculation
    if speculation is None or not speculation.drafts_at_every_step:
        return None
    generated, rounds, accepted = (
        evidence.grown(name) for name in ("generation_tokens", "num_drafts", "num_accepted_tokens")
    )
    if generated is None or rounds is None or accepted is None or evidence.some_failed:
        return Missing("the server's counts of tokens, rounds and accepted tokens, of a run without failures")
    if not generated or not rounds:  # `few_rounds` reports it
        return None
    # A request's first token comes with its prompt, and each round adds one token to those accepted.
    others = generated - len(evidence.completed) - rounds - accepted
    if others <= WITHOUT_DRAFT * generated:
        return None
    return Fired(
        f"{percent(others / generated)} of the tokens came from steps that the server counts no round for: the "
        f"acceptance length is that of the other {rounds:.0f} rounds."
    )


def _few_rounds(evidence: Evidence) -> Answer:
    if evidence.run.arm.speculation is None:
        return None
    rounds = evidence.number("num_drafts")
    if rounds is None:
        return Missing("the server's count of rounds")
    if rounds == 0 and evidence.run.arm.speculation.scheduled_tokens(evidence.run.load.max_concurrency) == 0:
        return Fired("Not one token was drafted, as the arm's schedule says for this many requests at once.", "note")
    if rounds == 0:
        return Fired("Not one token was drafted in the window, though the arm speculates.", "warning")
    return Fired(f"Acceptance rests on {rounds:.0f} rounds.", "note") if rounds < FEW_ROUNDS else None


def _not_seen(evidence: Evidence) -> Answer:
    speculation = evidence.run.arm.speculation
    if speculation is None or evidence.number("num_drafts") is not None:  # `few_rounds` judges what is counted
        return None
    if evidence.completed.known("spec_drafts").any():
        return None
    if speculation.scheduled_tokens(evidence.run.load.max_concurrency) == 0:
        return None
    chunks, tokens = evidence.completed.lists("chunk_s"), evidence.completed.numbers("completion_tokens")
    later = float((tokens - 1).sum()), int((chunks.lengths - 1).sum())
    if not later[1] > 0 or np.isnan(later[0]):
        return Missing("the tokens and events of every answer")
    if later[0] / later[1] >= TOKENS_AN_EVENT or share_together(evidence.completed) >= CLOSE_TOGETHER:
        return None
    return Fired(
        f"The arm speculates ({speculation.method}), and nothing shows it: the server counts no rounds, its answers "
        f"report none, and each of {later[1]} events carried one token, a step apart. It may be switched off."
    )


_COUNTERS = ("counters_before", "counters_after", "arm.speculation")
CHECKS = (
    Check(
        name="synthetic_acceptance",
        traps=(24,),
        severity="invalid",
        looks_at=("arm", "circumstances.command", "circumstances.environment", "circumstances.effective_config"),
        threshold="any setting that forces acceptance: vLLM's synthetic rejection sampling, SGLang's simulated "
        "length, TensorRT-LLM's forced tokens",
        why="It shows what the engine could do with a draft that does not exist.",
        advice="Use it for estimates in a separate study, and measure a real draft for results.",
        rule=_synthetic,
    ),
    Check(
        name="acceptance_adds_up",
        traps=(9,),
        severity="invalid",
        looks_at=(*_COUNTERS, "acceptance_length", "acceptance_per_position", "acceptance_rate"),
        needs=("arm.speculation",),
        threshold=f"length and 1 + the sum of positions differ by more than {percent(LENGTH_APART)}, a later "
        "position is accepted more often than an earlier one, or more was accepted than drafted",
        why="Engines that count otherwise cannot be compared.",
        advice="Do not use this run's acceptance; look up how this engine version counts.",
        rule=_adds_up,
    ),
    Check(
        name="request_acceptance_agrees",
        traps=(9, 10),
        severity="warning",
        looks_at=("spec_accepted_tokens", "rounds_count", *_COUNTERS),
        needs=("spec_accepted_tokens", *_COUNTERS),
        threshold=f"run and requests differ by more than {percent(REQUESTS_APART)} and one token per request "
        "(skipped if requests failed), or an answer's rounds, drafted and accepted tokens differ from "
        "its own histogram",
        why="Acceptance by category and request then does not match the run's.",
        advice="Use the run's acceptance, not that of its requests.",
        rule=_requests_agree,
    ),
    Check(
        name="acceptance_only_of_the_run",
        traps=(2, 9),
        severity="note",
        looks_at=("spec_accepted_tokens", *_COUNTERS, "acceptance_length", "acceptance_per_position"),
        needs=("arm.speculation", "spec_accepted_tokens", *_COUNTERS),
        threshold="the counters give an acceptance length, but no answer reports accepted tokens, or no counter "
        "reports positions",
        why="Not every engine version reports acceptance with each answer.",
        advice="Use the run's acceptance. For categories measure a newer version, or one category at a time. For a "
        "container set version_command in engines.toml.",
        rule=_only_of_the_run,
    ),
    Check(
        name="steps_without_draft",
        traps=(9,),
        severity="warning",
        looks_at=(*_COUNTERS, "error"),
        needs=("arm.speculation", *_COUNTERS),
        threshold=f"more than {percent(WITHOUT_DRAFT)} of the tokens are neither a request's first, nor a counted "
        "round's own, nor accepted",
        why="Some engines do not count rounds whose whole draft a grammar (`json_schema`) forbade, so acceptance "
        "comes out too high.",
        advice="Compare tokens per second, not acceptance; the speed-up includes every step.",
        rule=_without_draft,
    ),
    Check(
        name="speculation_not_seen",
        traps=(24,),
        severity="warning",
        looks_at=("arm.speculation", *_COUNTERS[:2], "spec_drafts", "chunk_s", "completion_tokens"),
        needs=("arm.speculation", "chunk_s", "completion_tokens"),
        threshold=f"an arm with speculation, no count of rounds, fewer than {TOKENS_AN_EVENT:g} tokens per event, and "
        f"fewer than {percent(CLOSE_TOGETHER)} of the events within a tenth of the mean gap after another. Not if the "
        "arm's schedule drafts nothing here",
        why="A server may ignore the setting, or run without a draft that it cannot load: the baseline is then "
        "compared with itself.",
        advice="Look for speculation in the server's log, or measure a server that publishes its counters.",
        rule=_not_seen,
    ),
    Check(
        name="few_rounds",
        traps=(21,),
        severity="warning",
        looks_at=(*_COUNTERS, "num_drafts"),
        needs=("arm.speculation",),
        threshold=f"a note below {FEW_ROUNDS} rounds; a warning if nothing was drafted, unless by the arm's schedule",
        why=f"A share of {FEW_ROUNDS} rounds has a standard error of up to 5 percentage points, and rounds of one "
        "prompt are similar.",
        advice="Send more prompts, or request more output tokens.",
        rule=_few_rounds,
    ),
)
