"""Starts `vllm serve` on the prepared models, sends prompts, and reads its counters."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

SPECULATED = 3
FLAGS = [
    "--max-model-len",
    "1024",
    "--max-num-seqs",
    "32",
    "--enforce-eager",
    "--no-enable-prefix-caching",
    "--dtype",
    "float32",
    "--served-model-name",
    "target",
]
ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "1",  # one core for the engine, one for the server around it and the client
}
START_LIMIT_S = 300.0
COUNTERS = ("num_drafts_total", "num_draft_tokens_total", "num_accepted_tokens_total")


def speculative_configs(models: Path) -> dict[str, dict[str, object] | None]:
    return {
        "none": None,
        "draft_model": {"method": "draft_model", "model": str(models / "draft"), "num_speculative_tokens": SPECULATED},
        "ngram": {
            "method": "ngram",
            "num_speculative_tokens": SPECULATED,
            "prompt_lookup_min": 2,
            "prompt_lookup_max": 4,
        },
        "eagle3": {"method": "eagle3", "model": str(models / "eagle3"), "num_speculative_tokens": SPECULATED},
    }


@dataclass(frozen=True)
class Server:
    url: str

    def complete(self, prompt: str, new_tokens: int) -> list[int]:
        """Return the ids of exactly this many new tokens, decoded greedily."""
        body = {"model": "target", "prompt": prompt, "max_tokens": new_tokens, "temperature": 0.0}
        extra = {"ignore_eos": True, "return_token_ids": True}
        reply = httpx.post(f"{self.url}/v1/completions", json=body | extra, timeout=300)
        reply.raise_for_status()
        ids: list[int] = reply.json()["choices"][0]["token_ids"]
        if len(ids) != new_tokens:
            raise RuntimeError(f"asked for {new_tokens} tokens, got {len(ids)}")
        return ids

    def counters(self) -> dict[str, float]:
        """Return speculation counters by short name; accepted tokens by position as `pos0`, `pos1`, ..."""
        counters: dict[str, float] = dict.fromkeys(COUNTERS, 0.0)
        for line in httpx.get(f"{self.url}/metrics", timeout=30).text.splitlines():
            name, _, value = line.partition(" ")
            short = name.partition("{")[0].removeprefix("vllm:spec_decode_")
            if short in COUNTERS:
                counters[short] = float(value)
            elif short == "num_accepted_tokens_per_pos_total":
                counters["pos" + name.split('position="')[1].split('"')[0]] = float(line.rsplit(" ", 1)[1])
        return counters


def command(models: Path, port: int, config: dict[str, object] | None) -> list[str]:
    serve = [str(Path(sys.executable).with_name("vllm")), "serve", str(models / "target"), "--port", str(port), *FLAGS]
    return serve if config is None else [*serve, "--speculative-config", json.dumps(config)]


@contextmanager
def serving(models: Path, config: dict[str, object] | None, log: Path, port: int = 8971) -> Iterator[Server]:
    with log.open("w") as out:
        process = subprocess.Popen(
            command(models, port, config),
            env=os.environ | ENVIRONMENT,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        server = Server(f"http://127.0.0.1:{port}")
        wait_until_it_answers(server, process, log)
        yield server
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)


def wait_until_it_answers(server: Server, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait for an answered request, not only /health: some wrong configurations die on the first request."""
    limit = time.monotonic() + START_LIMIT_S
    while time.monotonic() < limit and process.poll() is None:
        try:
            if httpx.get(f"{server.url}/health", timeout=5).status_code == 200:
                server.complete("def main():\n", 8)
                return
        except httpx.TransportError:
            time.sleep(1)
    raise RuntimeError(f"vllm serve did not start; see {log}")
