"""Frames of the shapes that the pages read, with plausible figures."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True)
class ArmRatios:
    """An arm and its ratio to the baseline at each load."""

    name: str
    method: str
    ratios: tuple[float, ...]


BASELINE = ArmRatios("no draft", "none", (1.0, 1.0, 1.0))
DRAFT = ArmRatios("draft k=3", "draft_model", (1.48, 0.96, 0.90))
NGRAM = ArmRatios("n-gram", "ngram", (1.20, 1.05, 1.02))
ARMS = (BASELINE, DRAFT, NGRAM)
LOADS = ((1, 6), (4, 16), (16, 48))
BASELINE_TOK_PER_S = (39.0, 117.0, 159.0)


def speedup(
    arms: tuple[ArmRatios, ...] = ARMS,
    categories: tuple[str, ...] = ("code", "repeat"),
    loads: tuple[tuple[int, int], ...] = LOADS,
    repeats: int = 3,
) -> pd.DataFrame:
    """`published_data.cells`: repeats 3 % apart, and intervals of 3 % each way where there are repeats."""
    spread = 0.03 if repeats > 1 else 0.0
    rows = []
    for category in categories:
        for place, (concurrency, prompts) in enumerate(loads):
            for arm in arms:
                ratio = arm.ratios[place]
                value = BASELINE_TOK_PER_S[place] * ratio
                rows.append(
                    {
                        "arm": arm.name,
                        "method": arm.method,
                        "draft_model": None,
                        "num_speculative_tokens": None if arm is BASELINE else 3,
                        "is_baseline": arm is BASELINE,
                        "workload": f"reference/{category}/64",
                        "dataset": "reference",
                        "category": category,
                        "requested_output_tokens": 64,
                        "pattern": f"c{concurrency}-n{prompts}",
                        "concurrency": concurrency,
                        "value": value,
                        "values": [value * (1 + spread * (place - (repeats - 1) / 2)) for place in range(repeats)],
                        "repeats": repeats,
                        **_ratio(arm, ratio, spread),
                    }
                )
    return pd.DataFrame(rows).astype({"ratio": float, "low": float, "high": float})


def _ratio(arm: ArmRatios, ratio: float, spread: float) -> dict[str, object]:
    if arm is BASELINE:
        return {"ratio": None, "low": None, "high": None, "verdict": None}
    low, high = (ratio * (1 - spread), ratio * (1 + spread)) if spread else (None, None)
    word = "inconclusive" if low is None or high is None or low < 1 < high else "faster" if ratio > 1 else "slower"
    return {"ratio": ratio, "low": low, "high": high, "verdict": word}


def acceptance(arms: tuple[ArmRatios, ...] = (DRAFT, NGRAM), positions: int = 3) -> pd.DataFrame:
    """`queries.acceptance_per_position` of one category at two loads."""
    rows = [
        {
            "arm": arm.name,
            "category": "code",
            "concurrency": concurrency,
            "position": position,
            "acceptance": (0.8 if concurrency == 1 else 0.6) ** position,
            "num_drafts": 100 * concurrency,
        }
        for arm in arms
        for concurrency in (1, 3)
        for position in range(1, positions + 1)
    ]
    return pd.DataFrame(rows)
