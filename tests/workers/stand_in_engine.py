"""An engine for tests: a real process with vLLM's command line, its HTTP interface and children of its own.

It starts in a fraction of a second and misbehaves on demand: each `--flag` below is a flag of an arm. Standard library
only, because it runs as an engine's process.
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
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PROMPT_TOKENS = 5
KEY = os.environ.get("ENGINE_KEY_OF_DRAFTHOUSE")
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
    parser.add_argument("--fail-to-start", action="store_true")
    parser.add_argument("--die-on-first-request", action="store_true")
    parser.add_argument("--die-at-request", type=int, default=0, help="counted over warm-up and measuring")
    parser.add_argument("--die-once", help="a file: die only where it is not there yet")
    parser.add_argument("--port-taken-times", type=int, default=0)
    parser.add_argument("--stubborn-child", action="store_true", help="start a process that is deaf to TERM")
    parser.add_argument("--never-idle", action="store_true", help="use a processor without a request")
    parser.add_argument("--answer-last-line", action="store_true", help="with what it says there, \\n for new lines")
    parser.add_argument("--counter-file", help="remembers the starts of this engine, one line each")
    options = parser.parse_known_args()[0] if "TAKES_ANY_FLAG" in os.environ else parser.parse_args()
    if options.half_as_fast_on in os.sched_getaffinity(0):
        options.token_s *= 2
    return options


class Engine(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = False
    requests = generated = running = 0
    free_s: list[float]  # when each slot is free again
    choosing = threading.Lock()
    options: argparse.Namespace


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else an answer's second piece waits 40 ms for an acknowledgement
    server: Engine

    def parse_request(self) -> bool:
        if not super().parse_request():
            return False
        if KEY is None or self.headers.get("Authorization") == f"Bearer {KEY}":
            return True
        self.close_connection = True
        self._answer(401, "")
        return False

    def do_GET(self) -> None:
        counters = f"vllm:generation_tokens_total {self.server.generated}\nvllm:prompt_tokens_total 1\n"
        counters += f"vllm:num_requests_running {self.server.running}\nvllm:num_requests_waiting 0\n"
        counters += "vllm:kv_cache_usage_perc 0.25\n"
        bodies = {"/health": "", "/version": '{"version": "1.2.3-test"}', "/metrics": counters}
        self._answer(200 if self.path in bodies else 404, bodies.get(self.path, ""))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/reset_prefix_cache":
            self._answer(200, "{}")
            return
        self.server.requests += 1
        _maybe_die(self.server)
        self.server.running += 1
        asked = json.loads(body)
        self._stream(asked["max_tokens"], _last_line(asked["prompt"]) if self.server.options.answer_last_line else None)
        self.server.running -= 1

    def _stream(self, tokens: int, answer: str | None) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        begins_s = self._begins_s(tokens)
        for count in range(1, tokens + 1):
            time.sleep(max(0.0, begins_s + count * self.server.options.token_s - time.monotonic()))
            self.server.generated += 1
            text = " word" if answer is None else _piece(answer, count, tokens)
            self._event(count, text, "length" if count == tokens else None)
        self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")

    def _begins_s(self, tokens: int) -> float:
        """When the answer has a slot. By the clock, so that a busy machine makes no answer after it late."""
        now_s, free_s = time.monotonic(), self.server.free_s
        if not free_s:
            return now_s
        with self.server.choosing:
            slot = free_s.index(min(free_s))
            begins_s = max(now_s, free_s[slot])
            free_s[slot] = begins_s + tokens * self.server.options.token_s
        return begins_s

    def _event(self, count: int, text: str, finish: str | None) -> None:
        usage = {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": count}
        event = {"choices": [{"index": 0, "text": text, "finish_reason": finish}], "usage": usage}
        self._chunk(f"data: {json.dumps(event)}\n\n".encode())

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: Any) -> None:
        pass


def _last_line(prompt: str) -> str:
    return prompt.rpartition("\n")[2].replace("\\n", "\n")


def _piece(answer: str, count: int, tokens: int) -> str:
    """One of so many pieces of a text that has as many characters or more."""
    return answer[len(answer) * (count - 1) // tokens : len(answer) * count // tokens]


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


def main() -> None:
    options = arguments()
    starts = _starts(options)
    if options.stubborn_child:
        subprocess.Popen((sys.executable, "-I", "-S", "-c", STUBBORN_CHILD), start_new_session=True)
    if options.never_idle:
        threading.Thread(target=_spin, daemon=True).start()
    print(f"non-default args: {{'model': '{options.model}'}}", flush=True)
    print("INFO Initializing a V1 LLM engine (v1.2.3) with config: model='m', seed=0, extra={'a': [1, 2]}", flush=True)
    time.sleep(options.start_s)
    while options.await_file is not None and not Path(options.await_file).exists():
        time.sleep(0.01)
    if options.fail_to_start:
        raise ValueError("User-specified max_model_len is greater than the derived max_model_len")
    if starts <= options.port_taken_times:
        raise OSError(98, "Address already in use")
    engine = Engine((options.host, options.port), Handler)
    print(f"listening on port {engine.server_port}", flush=True)
    engine.options, engine.free_s = options, [0.0] * options.slots
    engine.serve_forever()


if __name__ == "__main__":
    main()
