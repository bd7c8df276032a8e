"""Bundles of small studies: a baseline and drafted arms whose acceptance differs by category, at any speed."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from typing import Any

from host.settings import Settings
from lab.metrics.records import RequestRecord, ServerCounters, TelemetrySample
from lab.study import Load, Speculation, Workload
from tests.lab.validity import healthy
from warehouse.bundles.run_bundle import write_bundle

REQUESTS, TOKENS = 48, healthy.TOKENS
#: Verification rounds of a request of TOKENS output tokens, by category. Without a draft there are TOKENS rounds.
ROUNDS = {"code": 24, "prose": 40}
#: Share of the accepted tokens at each position, with k = 3.
POSITIONS = (0.6, 0.3, 0.1)
DRAFT = Speculation(method="draft_model", model="draft", num_speculative_tokens=3)


@dataclass(frozen=True)
class RunSpec:
    """One run to write. `pace` multiplies the time of each step of a healthy run."""

    arm: str
    repeat: int
    pace: float = 1.0
    rounds: dict[str, int] | None = None  # None: the arm does not draft
    workload: str = "mixed"
    load: str = "c4"
    reports_acceptance: bool = True  # whether the server reports the acceptance of each request
    ending: str = ""  # replaces the end of outputs
    ending_every: int = 1  # of every n-th output
    reasoned: int | None = None  # tokens of each output before the answer
    reports_token_ids: bool = False  # whether the server reports the token ids of outputs, one for four letters

    @property
    def run_id(self) -> str:
        return f"{self.arm}-{self.workload}-{self.load}-{self.repeat}"

    @property
    def streams(self) -> int:
        return int(self.load.removeprefix("c"))

    @property
    def most_rounds(self) -> int:
        return TOKENS if self.rounds is None else 2 + max(self.rounds.values())


def write(settings: Settings, spec: RunSpec, **changes: Any) -> None:
    """Write the bundle of a valid run on a GPU. `changes` replace whole fields of its RunRecord."""
    requests = tuple(_request(spec, place) for place in range(REQUESTS))
    window_s = max(request.end_s or 0.0 for request in requests)
    base = healthy.healthy().run
    arm = {"name": spec.arm, "speculation": DRAFT if spec.rounds else None, "baseline": spec.arm == "plain"}
    values = {
        "run_id": spec.run_id,
        "cell_key": spec.run_id,
        "arm": base.arm.model_copy(update=arm),
        "is_baseline": spec.arm == "plain",
        "workload": Workload(dataset=f"{spec.workload}.jsonl", output_tokens=TOKENS),
        "load": Load(label=spec.load, max_concurrency=spec.streams, num_prompts=REQUESTS),
        "repeat": spec.repeat,
        "launch_index": spec.repeat,
        "duration_s": window_s,
        "counters_after": _counters(base.counters_before or ServerCounters(), requests),
        "counters_before": _known(base.counters_before or ServerCounters(), drafted=spec.rounds is not None),
    }
    run = base.model_copy(update=values | changes)
    stored = requests if spec.reports_acceptance else tuple(map(_without_acceptance, requests))
    write_bundle(settings.bundles, run, stored, _samples(window_s, spec.streams), None)


def _request(spec: RunSpec, place: int) -> RequestRecord:
    """One request: categories alternate, and the numbers of rounds differ a little."""
    category = ("code", "prose")[place % 2]
    rounds = TOKENS if spec.rounds is None else spec.rounds[category] + place % 3
    step_s = healthy.STEP_S * spec.pace
    sent_s = (place // spec.streams) * (2 * healthy.TTFT_S * spec.pace + 1.05 * step_s * spec.most_rounds)
    first_s = sent_s + healthy.TTFT_S * spec.pace * (1 + 0.001 * place)
    per_round, more = divmod(TOKENS, rounds)
    base = healthy.healthy(drafted=spec.rounds is not None).requests[place]
    ending = spec.ending if place % spec.ending_every == 0 else ""
    text = base.output_text[: len(base.output_text) - len(ending)] + ending
    return replace(
        base,
        category=category,
        output_text=text,
        output_token_ids=_token_ids(text) if spec.reports_token_ids else None,
        intended_send_s=sent_s,
        sent_s=sent_s,
        first_token_s=first_s,
        end_s=first_s + step_s * (rounds - 1),
        chunk_s=tuple(first_s + step_s * number for number in range(rounds)),
        chunk_tokens=(per_round + 1,) * more + (per_round,) * (rounds - more),
        spec_drafts=rounds if spec.rounds else None,
        spec_draft_tokens=3 * rounds if spec.rounds else None,
        spec_accepted_tokens=TOKENS - rounds if spec.rounds else None,
        reasoning_tokens=spec.reasoned,
    )


def _token_ids(text: str) -> tuple[int, ...]:
    return tuple(zlib.crc32(text[place : place + 4].encode()) % 2**17 for place in range(0, len(text), 4))


def _without_acceptance(request: RequestRecord) -> RequestRecord:
    return replace(request, spec_drafts=None, spec_draft_tokens=None, spec_accepted_tokens=None)


def _counters(before: ServerCounters, requests: tuple[RequestRecord, ...]) -> ServerCounters:
    """The counters after the window; `before` has the same number in every counter."""
    base = before.generation_tokens or 0.0
    drafts, accepted = (
        sum(getattr(r, name) or 0 for r in requests) for name in ("spec_drafts", "spec_accepted_tokens")
    )
    grown = ServerCounters(
        prompt_tokens=base + sum(request.prompt_tokens or 0 for request in requests),
        generation_tokens=base + TOKENS * len(requests),
        num_drafts=base + drafts,
        num_draft_tokens=base + 3 * drafts,
        num_accepted_tokens=base + accepted,
        num_accepted_tokens_per_position=tuple(base + share * accepted for share in POSITIONS),
        prefix_cache_queries=base + sum(request.prompt_tokens or 0 for request in requests),
        prefix_cache_hits=base,
        num_preemptions=0.0,
    )
    return _known(grown, drafted=drafts > 0)


def _known(counters: ServerCounters, *, drafted: bool) -> ServerCounters:
    """Leave out the counters of drafts, unless the server drafts."""
    base = counters.prefix_cache_hits or 0.0
    names = ("num_drafts", "num_draft_tokens", "num_accepted_tokens")
    counts = {name: getattr(counters, name) or base for name in names} if drafted else dict.fromkeys(names)
    positions = (counters.num_accepted_tokens_per_position or (base,) * len(POSITIONS)) if drafted else None
    return counters.model_copy(update={**counts, "num_accepted_tokens_per_position": positions})


def _samples(window_s: float, streams: int) -> tuple[TelemetrySample, ...]:
    sample = replace(healthy.healthy().samples[0], requests_in_flight=streams, engine_running=streams)
    return tuple(replace(sample, t_s=float(second)) for second in range(1, int(window_s) + 1))
