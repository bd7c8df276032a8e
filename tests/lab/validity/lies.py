"""Runs of an honest server and of servers that lie in one way, made second by second as a closed loop has them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lab.metrics.measure import measure
from lab.metrics.records import ClientHealth, RequestRecord, TelemetrySample
from lab.metrics.request_table import RequestTable
from lab.study import Load, Speculation, Workload
from lab.validity import StudyRun
from lab.validity.evidence import Lengths
from tests.lab.validity.healthy import Measured, text_of
from tests.warehouse.runs import circumstances, run_record

DRAFT = Speculation(method="draft_model", model="draft", num_speculative_tokens=3)
Events = list[tuple[float, int]]  # seconds since the request was sent, and tokens


@dataclass(frozen=True)
class Server:
    """A server and its load. `noise`: the standard deviation of each time, as a share of it."""

    lie: str = ""
    streams: int = 4
    prompts: int = 24
    tokens: int = 24
    first_s: float = 0.052
    step_s: float = 0.0115
    noise: float = 0.05
    seed: int = 0
    arm: str = "honest"
    drafts: bool = False
    accepted: float = 0.5  # tokens a round, beside the target's own
    repeat: int = 0

    def run(self) -> Measured:
        requests = tuple(self._requests())
        end_s = max(request.end_s or 0.0 for request in requests)
        speculation = {"speculation": DRAFT} if self.drafts else {}
        record = run_record(
            run_id=f"{self.arm}-{self.streams}-{self.repeat}",
            arm={"name": self.arm, "baseline": self.arm == "honest"} | speculation,
            is_baseline=self.arm == "honest",
            workload=Workload(dataset="prose.jsonl", output_tokens=self.tokens),
            load=Load(max_concurrency=self.streams, num_prompts=self.prompts),
            duration_s=end_s,
            repeat=self.repeat,
            launch_index=2 * self.repeat + (self.arm != "honest"),
            started_at=f"2026-11-21T0{self.repeat}:0{self.arm != 'honest':d}:{self.streams:02}+00:00",
            client=ClientHealth(loop_lag_p99_ms=1.0, loop_lag_max_ms=5.0, late_send_max_ms=0.0, cpu_s=0.1),
            circumstances=circumstances(),
        )
        return Measured(record, requests, tuple(self._samples(end_s)))

    def in_study(self) -> StudyRun:
        measured = self.run()
        table = RequestTable.of(measured.requests)
        metrics = measure(measured.run, table, measured.samples)
        if self.drafts and self.lie != "silent":
            metrics |= {"acceptance_length": 1 + self.accepted, "num_drafts": 500}
        done = [request for request in measured.requests if request.error is None]
        lengths = {
            request.prompt_id: Lengths(request.prompt_tokens, request.completion_tokens, len(request.output_text))
            for request in done
        }
        return StudyRun(measured.run, metrics, {each.prompt_id: each.output_text for each in done}, lengths=lengths)

    def _requests(self) -> Iterator[RequestRecord]:
        chance = np.random.default_rng(self.seed)
        free_s, server_s = [0.0] * self.streams, 0.0
        characters = np.random.default_rng(1).integers(150, 900, self.prompts)
        refused = set(np.argsort(characters)[-4:]) if self.lie == "refuses" else set()
        for index in range(self.prompts):
            stream = int(np.argmin(free_s))
            sent_s = free_s[stream]
            waits_s = max(0.0, server_s - sent_s) if self.lie == "one at a time" else 0.0
            events = [(waits_s + at_s, tokens) for at_s, tokens in self._told(index, self._events(chance))]
            free_s[stream] = server_s = sent_s + events[-1][0] + 0.0005
            prompt = text_of(index, int(characters[index]))
            yield self._request(index, prompt, sent_s, [] if index in refused else events)

    def _events(self, chance: np.random.Generator) -> Events:
        """What an honest server would write of one answer."""

        def about(mean_s: float) -> float:
            return mean_s * max(0.2, float(chance.normal(1, self.noise)))

        events, left = [(about(self.first_s), 1)], self.tokens - 1
        slow = 2.7 if self.lie == "slower later" and self.repeat else 1.0
        while left > 0:
            made = min(left, 1 + (int(chance.binomial(3, self.accepted / 3)) if self._is_drafting else 0))
            events.append((events[-1][0] + about(self.step_s * slow), made))
            left -= made
        return events

    @property
    def _is_drafting(self) -> bool:
        return self.drafts and self.lie != "silent"

    def _told(self, index: int, events: Events) -> Events:
        """What the server writes instead."""
        groups = [events[first : first + 8] for first in range(0, len(events), 8)]
        match self.lie:
            case "merges":
                return [(group[-1][0], sum(tokens for _, tokens in group)) for group in groups]
            case "writes at once":
                return [(group[-1][0] + 2e-5 * place, each[1]) for group in groups for place, each in enumerate(group)]
            case "space first":
                return [(0.003, 1), *events[1:]]
            case "stalls" if index in (9, 13, 17):
                half = len(events) // 2
                return events[:half] + [(at_s + 1.5, tokens) for at_s, tokens in events[half:]]
            case "reads all first" if index < self.streams:  # no lie: it answers one, then reads the other prompts
                return events[: 2 * (not index)] + [(at_s + 1.5, tokens) for at_s, tokens in events[2 * (not index) :]]
        return events

    def _request(self, index: int, prompt: str, sent_s: float, events: Events) -> RequestRecord:
        read = len(prompt) // 4
        read = {"cuts": min(read, 64), "template": read + 37}.get(self.lie, read)
        times = tuple(sent_s + at_s for at_s, _ in events)
        answered = bool(events)
        characters = (2 if self.lie == "half text" else 4) * self.tokens + index % 7
        return RequestRecord(
            index=index,
            prompt_id=f"p{index}",
            category="prose",
            prompt=prompt,
            requested_output_tokens=self.tokens,
            intended_send_s=sent_s,
            sent_s=sent_s,
            first_token_s=times[0] if answered else None,
            end_s=(times[-1] if answered else sent_s) + 0.0005,
            chunk_s=times,
            chunk_tokens=tuple(tokens for _, tokens in events),
            prompt_tokens=read if answered else None,
            completion_tokens=self.tokens if answered else None,
            finish_reason="length" if answered else None,
            error=None if answered else "HTTP 400: too long",
            output_text=text_of(1000 + index, characters) if answered else "",
        )

    def _samples(self, end_s: float) -> Iterator[TelemetrySample]:
        more = 5 if self.lie == "shared" else 0
        for second in range(1, int(end_s) + 2):
            over = second > end_s
            yield TelemetrySample(
                t_s=min(float(second), end_s),
                loop_lag_ms=1.0,
                requests_in_flight=self.streams,
                requests_done=0,
                chunks_received=1,
                engine_running=None if over else self.streams + more,
                engine_waiting=None if over else 0,
                other_cpu_percent=2.0,
                run_queue=3,
            )


def pair(arm: Server, repeats: int = 2, **baseline: Any) -> list[StudyRun]:
    """A study of an honest baseline and this arm, whose repeats share nothing but the prompts."""
    honest = Server(**baseline)
    return [
        replace(server, arm=name, repeat=repeat, seed=server.seed + 10 * repeat + place).in_study()
        for repeat in range(repeats)
        for place, (name, server) in enumerate((("honest", honest), ("arm", arm)))
    ]
