"""Speaks SGLang's protocol: its command line, health, server_info, metrics, and streams with its extension.

The environment variable TROUBLE makes it fail as the engine was seen to fail, or be busy as it is for a moment.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from tests.workers.stand_in_server import Handler, Json, Server, Talk

KERNEL_FAILED = """\
[2026-02-11 10:00:01] Scheduler hit an exception: Traceback (most recent call last):
  File "/sgl/srt/managers/scheduler.py", line 2680, in run_scheduler_process
    scheduler = Scheduler(server_args, port_args)
  File "/sgl/srt/layers/quantization/mxfp4.py", line 401, in apply
    raise NotImplementedError("mxfp4 kernels are not built for sm_120")
NotImplementedError: mxfp4 kernels are not built for sm_120
[2026-02-11 10:00:01] Received sigquit from a child process. It usually means the child failed."""


class Busy(Handler):
    """Refuses twice to empty its cache: its scheduler has not noticed yet that the last answers have ended."""

    refusals = 2

    def turned_away(self) -> tuple[int, str] | None:
        if self.path != "/flush_cache" or not Busy.refusals:
            return None
        Busy.refusals -= 1
        return 400, "Flush cache failed."


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="launch_server.py", allow_abbrev=False)
    for name in ("model-path", "host", "served-model-name", "config", "kv-cache-dtype"):
        parser.add_argument(f"--{name}")
    for name in ("algorithm", "draft-model-path"):
        parser.add_argument(f"--speculative-{name}")
    for name in ("num-steps", "eagle-topk", "num-draft-tokens", "ngram-max-trie-depth"):
        parser.add_argument(f"--speculative-{name}", type=int)
    for name in ("port", "tp-size", "context-length"):
        parser.add_argument(f"--{name}", type=int)
    for name in ("enable-metrics", "disable-radix-cache"):
        parser.add_argument(f"--{name}", action="store_true")
    return parser.parse_args()


def metrics(talk: Talk) -> str:
    """The gauges of acceptance are of the last batches, and nobody's business here."""
    label = '{model_name="m",engine_type="unified"}'
    values = {
        "sglang:prompt_tokens_total": talk.prompt_tokens,
        "sglang:generation_tokens_total": talk.generated,
        "sglang:spec_verify_calls_total": talk.rounds if talk.accepted_each_round else None,
        "sglang:spec_accept_length": 99.0,
        "sglang:num_running_reqs": 0,
        "sglang:num_queue_reqs": 0,
        "sglang:token_usage": 0.25,
    }
    return "".join(f"{name}{label} {value}\n" for name, value in values.items() if value is not None)


def spec_details(body: Json, rounds: int, accepted: int, drafted_each: int) -> list[Json]:
    """Its mean length counts the bonus token, and the counts do not."""
    if not body.get("return_spec_tokens_details") or not drafted_each:
        return []
    details = {
        "spec_verify_ct": rounds,
        "spec_num_proposed_drafts": rounds * drafted_each,
        "spec_num_correct_drafts": accepted,
        "spec_accept_length": (rounds + accepted) / rounds,
    }
    return [{"choices": [], "sglext": {"spec_tokens_details": details}}]


def main() -> None:
    given, trouble = options(), os.environ.get("TROUBLE")
    arguments = ", ".join(f"{name}={value!r}" for name, value in vars(given).items())
    print(f"[2026-02-11 10:00:00] server_args=ServerArgs({arguments}, cuda_graph_bs=[1, 2])", flush=True)
    if trouble == "kernel":
        print(KERNEL_FAILED, flush=True)
        sys.exit(1)
    drafted = (given.speculative_num_draft_tokens or 1) - 1
    talk: Talk
    pages: dict[str, Any] = {
        "/health": lambda: "",
        "/server_info": lambda: '{"version": "0.5.8", "tp_size": 1}',
        "/metrics": lambda: metrics(talk) if given.enable_metrics else None,
        "/flush_cache": lambda: "Cache flushed.",
    }
    talk = Talk(
        pages,
        accepted_each_round=1 if drafted else 0,
        drafted_each_round=drafted,
        last_events=lambda body, rounds, accepted: spec_details(body, rounds, accepted, drafted),
        counts=(lambda tokens: round(tokens * 0.65)) if trouble == "miscount" and drafted else (lambda tokens: tokens),
    )
    Server(given.host, given.port, talk, Busy if trouble == "busy" else Handler).serve_forever()


if __name__ == "__main__":
    main()
