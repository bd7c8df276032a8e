"""`vllm bench serve` and its input: the same prompts in the same order, greedy, of a fixed length."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from host.settings import Settings
from jobs.datasets.prompt import Prompt
from jobs.engines.models import model_path
from services.verifying.our_client import Figures

TARGET = "reference"


def bench_arguments(settings: Settings, dataset: Path, output_tokens: int) -> list[str]:
    """Return the words after `vllm`: a benchmark of the prompts in a file, with answers of exactly `output_tokens`
    tokens.
    """
    return [
        *("bench", "serve", "--backend", "openai", "--endpoint", "/v1/completions"),
        *("--model", model_path(settings.models_dir, TARGET), "--served-model-name", TARGET),
        *("--dataset-name", "custom", "--dataset-path", str(dataset), "--custom-output-len", str(output_tokens)),
        *("--skip-chat-template", "--disable-shuffle", "--temperature", "0", "--ignore-eos", "--disable-tqdm"),
    ]


def rival_figures(result: Mapping[str, float]) -> Figures:
    """Return the figures in a result file; its inter-token latency is the gap between two chunks."""
    throughput, gap_p99_ms = result["output_throughput"], result["p99_itl_ms"]
    return Figures(throughput, result["median_ttft_ms"], result["median_tpot_ms"], gap_p99_ms)


def write_dataset(path: Path, prompts: Sequence[Prompt]) -> Path:
    path.write_text("".join(json.dumps({"prompt": prompt.text}) + "\n" for prompt in prompts), encoding="utf-8")
    return path
