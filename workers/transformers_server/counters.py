"""The server's counters since its start, under vLLM's names."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator

_SPECULATION = {"drafts": 0, "draft_tokens": 0, "accepted_tokens": 0}


class Counters:
    """The counters, written by the generating thread and the event loop, read by `/metrics`."""

    def __init__(self, num_speculative_tokens: int) -> None:
        self._lock = threading.Lock()
        self._prompt_tokens = 0
        self._generation_tokens = 0
        self._speculation = dict(_SPECULATION) if num_speculative_tokens else {}
        self._accepted_at = [0] * num_speculative_tokens
        self._successes: Counter[str] = Counter(stop=0, length=0)
        self._failures: Counter[str] = Counter(abort=0, error=0)

    def prompt(self, tokens: int) -> None:
        with self._lock:
            self._prompt_tokens += tokens

    def generated(self, tokens: int) -> None:
        with self._lock:
            self._generation_tokens += tokens

    def round(self, drafted: int, accepted: int) -> None:
        with self._lock:
            self._speculation["drafts"] += 1
            self._speculation["draft_tokens"] += drafted
            self._speculation["accepted_tokens"] += accepted
            for position in range(accepted):
                self._accepted_at[position] += 1

    def success(self, finish_reason: str) -> None:
        with self._lock:
            self._successes[finish_reason] += 1

    def failure(self, reason: str) -> None:
        """Count a failure. `abort`: the client disconnected. `error`: generation failed."""
        with self._lock:
            self._failures[reason] += 1

    def text(self, running: int, waiting: int) -> str:
        """Return the counters in Prometheus' format. Without speculation its counters are absent, not zero."""
        with self._lock:
            return "".join(self._metrics(running, waiting))

    def _metrics(self, running: int, waiting: int) -> Iterator[str]:
        yield _metric("num_requests_running", {"": running}, kind="gauge")
        yield _metric("num_requests_waiting", {"": waiting}, kind="gauge")
        yield _metric("prompt_tokens_total", {"": self._prompt_tokens})
        yield _metric("generation_tokens_total", {"": self._generation_tokens})
        for name, count in self._speculation.items():
            yield _metric(f"spec_decode_num_{name}_total", {"": count})
        if self._speculation:
            by_position = {f'{{position="{position}"}}': count for position, count in enumerate(self._accepted_at)}
            yield _metric("spec_decode_num_accepted_tokens_per_pos_total", by_position)
        reasons = {f'{{finished_reason="{reason}"}}': count for reason, count in self._successes.items()}
        yield _metric("request_success_total", reasons)
        reasons = {f'{{reason="{reason}"}}': count for reason, count in self._failures.items()}
        yield _metric("request_failure_total", reasons, prefix="drafthouse")


def _metric(name: str, values: dict[str, int], kind: str = "counter", prefix: str = "vllm") -> str:
    lines = [
        f"# TYPE {prefix}:{name} {kind}",
        *(f"{prefix}:{name}{labels} {count}" for labels, count in values.items()),
    ]
    return "\n".join(lines) + "\n"
