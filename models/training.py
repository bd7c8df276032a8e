"""Shared parts of the training scripts: optimisers, the learning rate, and atomic writes."""

import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from muon import Muon
from torch import nn

THREADS = 2


class Optimisers:
    """Muon for the weight matrices inside the layers, AdamW for embeddings, heads and norms."""

    def __init__(self, model: nn.Module, matrix_rate: float, other_rate: float) -> None:
        named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
        matrices = [p for n, p in named if p.ndim == 2 and "embed" not in n and "lm_head" not in n]
        others = [p for n, p in named if p.ndim != 2 or "embed" in n or "lm_head" in n]
        self.parameters = matrices + others
        self.parts = [
            Muon(matrices, lr=matrix_rate, weight_decay=0.05),
            torch.optim.AdamW(others, lr=other_rate, weight_decay=0.0, betas=(0.9, 0.95)),
        ]
        self.full_rates = (matrix_rate, other_rate)

    def step(self, scale: float) -> None:
        nn.utils.clip_grad_norm_(self.parameters, 1.0)
        for part, rate in zip(self.parts, self.full_rates, strict=True):
            part.param_groups[0]["lr"] = rate * scale
            part.step()
            part.zero_grad(set_to_none=True)


def rate_scale(progress: float, warm_up: float = 0.02) -> float:
    """Return the learning rate's scale, which rises linearly, then falls along a cosine to 5 %; progress is 0 to 1."""
    if progress < warm_up:
        return (progress + 1e-3) / warm_up
    return 0.05 + 0.475 * (1 + math.cos(math.pi * (progress - warm_up) / (1 - warm_up)))


def steps_until(minutes: float, report: Callable[[], str], every_s: float = 30.0) -> Iterator[float]:
    """Yield the progress (0 to 1) until the time is up, and print a line now and then."""
    start = last = time.monotonic()
    while (now := time.monotonic()) - start < minutes * 60:
        if now - last > every_s:
            last = now
            print(f"{(now - start) / 60:5.1f} min  {report()}", flush=True)
        yield (now - start) / (minutes * 60)


def publish(write: Callable[[Path], None], path: Path) -> None:
    """Write to a temporary file and rename it, so that a reader never sees half of it."""
    temporary = path.with_name(f".{path.name}.new")
    write(temporary)
    temporary.chmod(0o644)
    temporary.replace(path)
