"""Speaks TensorRT-LLM's protocol: the command line and YAML file of trtllm-serve, strict requests, its counters."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.workers.stand_in_server import Json, Server, Talk

#: Its request models forbid every other key.
KNOWN_KEYS = {"model", "prompt", "messages", "max_tokens", "stream", "stream_options", "ignore_eos"}
KNOWN_KEYS |= {"temperature", "top_p", "seed"}
DRAFT_FAILED = """\
Traceback (most recent call last):
  File "/app/tensorrt_llm/_torch/pyexecutor/py_executor_creator.py", line 337, in create_py_executor
    draft_model = load(spec_config.speculative_model_dir)
ValueError: Unrecognized model in {path}. Should have a `model_type` key in its config.json."""


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="trtllm-serve", allow_abbrev=False)
    parser.add_argument("model")
    for name in ("host", "backend", "extra_llm_api_options", "kv_cache_free_gpu_memory_fraction"):
        parser.add_argument(f"--{name}")
    for name in ("port", "tp_size", "max_batch_size"):
        parser.add_argument(f"--{name}", type=int)
    return parser.parse_args()


def counters(talk: Talk) -> str:
    """By place in the draft; a place that was never accepted is not printed."""
    lines = [f'trtllm_prompt_tokens_total{{model_name="m"}} {talk.prompt_tokens}']
    lines.append(f'trtllm_generation_tokens_total{{model_name="m"}} {talk.generated}')
    for place in range(talk.drafted_each_round):
        drafted, label = talk.rounds, f'{{model_name="m",token_position="{place}"}}'
        lines.append(f"trtllm_spec_decode_drafted_tokens_total{label} {drafted}")
        if place == 0 and talk.accepted:
            lines.append(f"trtllm_spec_decode_accepted_tokens_total{label} {talk.accepted}")
    return "\n".join(lines) + "\n"


def refuses(body: Json, served: str) -> tuple[int, str] | None:
    if unknown := sorted(set(body) - KNOWN_KEYS):
        return 400, f"Extra inputs are not permitted: {unknown}"
    if body["model"] != served:
        return 404, f"The model {body['model']} does not exist"
    return None


def main() -> None:
    given = options()
    config = yaml.safe_load(Path(given.extra_llm_api_options).read_text())
    speculation = config.get("speculative_config")
    print(f"[TRT-LLM] config {json.dumps(config)}", flush=True)
    draft = None if speculation is None else speculation.get("speculative_model_dir")
    if draft is not None and not (Path(draft) / "config.json").exists():
        print(DRAFT_FAILED.format(path=draft), flush=True)
        sys.exit(1)
    served = Path(given.model).name
    talk: Talk
    pages: dict[str, Any] = {
        "/health": lambda: "",
        "/version": lambda: '{"version": "1.3.0rc1"}',
        "/v1/models": lambda: json.dumps({"object": "list", "data": [{"id": served, "object": "model"}]}),
        "/prometheus/metrics": lambda: counters(talk) if config.get("return_perf_metrics") else None,
    }
    talk = Talk(
        pages,
        refuses=lambda body: refuses(body, served),
        accepted_each_round=1 if speculation else 0,
        drafted_each_round=speculation["max_draft_len"] if speculation else 0,
    )
    Server(given.host, given.port, talk).serve_forever()


if __name__ == "__main__":
    main()
