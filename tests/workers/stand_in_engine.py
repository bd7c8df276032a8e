"""An engine for tests: a real process with vLLM's command line, its HTTP interface and children of its own.

It starts in a fraction of a second and misbehaves on demand: each `--flag` below is a flag of an arm. `stand_in_server`
is what it has in common with other stand-ins.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from tests.workers import stand_in_server
from tests.workers.stand_in_server import Json, Server, Talk

#: Another process group, and deaf to TERM: what an engine's own worker processes can be like.
STUBBORN_CHILD = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="stand-in serve", allow_abbrev=False)
    parser.add_argument("model")
    for name in (
        *("--host", "--served-model-name", "--generation-config"),
        *("--speculative-config", "--per-request-spec-decode-metrics"),
    ):
        parser.add_argument(name)
    parser.add_argument("--port", type=int)
    parser.add_argument("--max-model-len", type=int)
    parser.add_argument("--token-s", type=float, default=0.001, help="seconds a token takes")
    parser.add_argument("--half-as-fast-on", type=int, help="a processor: half as fast where it may run on this one")
    parser.add_argument("--slots", type=int, default=0, help="answers that it works on at a time; 0: all")
    parser.add_argument("--start-s", type=float, default=0.0, help="seconds until it listens")
    parser.add_argument("--await-file", help="listens once this file is there")
    parser.add_argument("--await-at-request", type=int, default=0, help="listens, and awaits it before this answer")
    parser.add_argument("--await-from-start", type=int, default=0, help="awaits it from this start on, by counter-file")
    parser.add_argument("--fail-to-start", action="store_true")
    parser.add_argument("--fail-with", help="a file: ends with what it says, where it is there")
    parser.add_argument("--die-on-first-request", action="store_true")
    parser.add_argument("--die-at-request", type=int, default=0, help="counted over warm-up and measuring")
    parser.add_argument("--die-once", help="a file: die only where it is not there yet")
    parser.add_argument("--port-taken-times", type=int, default=0)
    parser.add_argument("--stubborn-child", action="store_true", help="start a process that is deaf to TERM")
    parser.add_argument("--never-idle", action="store_true", help="use a processor without a request")
    parser.add_argument("--answer-last-line", action="store_true", help="with what it says there, \\n for new lines")
    parser.add_argument("--count-at-the-end", action="store_true", help="tell no tokens before an answer's last chunk")
    parser.add_argument("--counter-file", help="remembers the starts of this engine, one line each")
    options = parser.parse_known_args()[0] if "TAKES_ANY_FLAG" in os.environ else parser.parse_args()
    if options.half_as_fast_on in os.sched_getaffinity(0):
        options.token_s *= 2
    return options


class Handler(stand_in_server.Handler):
    disable_nagle_algorithm = True  # else an answer's second piece waits 40 ms for an acknowledgement
    server: Engine

    def _stream(self, body: Json) -> None:
        self.server.requests += 1
        _maybe_die(self.server)
        self.server.running += 1
        if 0 < self.server.options.await_at_request <= self.server.requests:
            _await_file(self.server.options)
        super()._stream(body)
        self.server.running -= 1

    def _events(self, body: Json) -> Iterator[Json]:
        engine, tokens = self.server, body["max_tokens"]
        token_s, begins_s = engine.options.token_s, engine.begins_s(tokens)
        answer = body["prompt"].rpartition("\n")[2].replace("\\n", "\n") if engine.options.answer_last_line else None
        for count in range(1, tokens + 1):
            time.sleep(max(0.0, begins_s + count * token_s - time.monotonic()))
            engine.talk.generated += 1
            text = " word" if answer is None else _piece(answer, count, tokens)
            choice = {"index": 0, "text": text, "finish_reason": "length" if count == tokens else None}
            counts = count == tokens or not engine.options.count_at_the_end
            yield {"choices": [choice], "usage": self._usage(count) if counts else None}


class Engine(Server):
    requests = running = 0
    choosing = threading.Lock()

    def __init__(self, options: argparse.Namespace) -> None:
        pages = {
            "/health": lambda: "",
            "/version": lambda: '{"version": "1.2.3-test"}',
            "/metrics": self._metrics,
            "/reset_prefix_cache": lambda: "{}",
        }
        super().__init__(options.host, options.port, Talk(pages), Handler)
        self.options = options
        self.free_s = [0.0] * options.slots  # when each slot is free again

    def _metrics(self) -> str:
        return (
            f"vllm:generation_tokens_total {self.talk.generated}\nvllm:prompt_tokens_total 1\n"
            f"vllm:num_requests_running {self.running}\nvllm:num_requests_waiting 0\nvllm:kv_cache_usage_perc 0.25\n"
        )

    def begins_s(self, tokens: int) -> float:
        """When an answer has a slot. By the clock, so that a busy machine makes no answer after it late."""
        now_s = time.monotonic()
        if not self.free_s:
            return now_s
        with self.choosing:
            slot = self.free_s.index(min(self.free_s))
            begins_s = max(now_s, self.free_s[slot])
            self.free_s[slot] = begins_s + tokens * self.options.token_s
        return begins_s


def _piece(answer: str, count: int, tokens: int) -> str:
    """One of so many pieces of a text that has as many characters or more."""
    return answer[len(answer) * (count - 1) // tokens : len(answer) * count // tokens]


def _await_file(options: argparse.Namespace) -> None:
    while options.await_file is not None and not Path(options.await_file).exists():
        time.sleep(0.01)


def _maybe_die(engine: Engine) -> None:
    options = engine.options
    if options.die_once and Path(options.die_once).exists():
        return
    if options.die_on_first_request or engine.requests == options.die_at_request:
        if options.die_once:
            Path(options.die_once).touch()
        print("(Engine pid=1) ERROR 11-21 04:00:00 [core.py:1] RuntimeError: shape '[-1, 768]' is invalid", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


def _starts(options: argparse.Namespace) -> int:
    """How often an engine was started with this file, this time included."""
    if options.counter_file is None:
        return 1
    with Path(options.counter_file).open("a+") as file:
        file.write(f"{options.port}\n")
        file.seek(0)
        return len(file.readlines())


def _spin() -> None:
    """Use three quarters of a processor."""
    while True:
        end_s = time.monotonic() + 0.03
        while time.monotonic() < end_s:
            pass
        time.sleep(0.01)


def _served(model: str) -> str:
    """What vLLM logs that it serves: for a draft in the format of speculators the model that the draft names."""
    config = Path(model, "config.json")
    of_draft = json.loads(config.read_text()).get("speculators_config") if config.exists() else None
    if of_draft is None:
        return "model='m'"
    drafting = f"SpeculativeConfig(method='eagle3', model={model!r}, num_spec_tokens=3)"
    return f"model={of_draft['verifier']['name_or_path']!r}, speculative_config={drafting}"


def main() -> None:
    options = arguments()
    starts = _starts(options)
    if options.stubborn_child:
        subprocess.Popen((sys.executable, "-I", "-S", "-c", STUBBORN_CHILD), start_new_session=True)
    if options.never_idle:
        threading.Thread(target=_spin, daemon=True).start()
    print(f"non-default args: {{'model': '{options.model}'}}", flush=True)
    config = f"{_served(options.model)}, seed=0, extra={{'a': [1, 2]}}"
    print(f"INFO Initializing a V1 LLM engine (v1.2.3) with config: {config}", flush=True)
    time.sleep(options.start_s)
    if not options.await_at_request and starts >= options.await_from_start:
        _await_file(options)
    if options.fail_with is not None and Path(options.fail_with).exists():
        sys.exit(Path(options.fail_with).read_text())
    if options.fail_to_start:
        raise ValueError("User-specified max_model_len is greater than the derived max_model_len")
    if starts <= options.port_taken_times:
        raise OSError(98, "Address already in use")
    engine = Engine(options)
    print(f"listening on port {engine.server_port}", flush=True)
    engine.serve_forever()


if __name__ == "__main__":
    main()
