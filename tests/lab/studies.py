"""A valid study with small overrides."""

from __future__ import annotations

from typing import Any

from lab.study import Study
from lab.study.parsing import study_from_dict

DRAFT: dict[str, Any] = {"method": "draft_model", "model": "reference-draft", "num_speculative_tokens": 3}


def study_dict(**changes: Any) -> dict[str, Any]:
    """Two arms, one workload, two loads; `changes` replace whole fields."""
    return {
        "name": "small",
        "target": "reference",
        "arms": [{"name": "no draft"}, {"name": "draft", "speculation": DRAFT}],
        "workloads": [{"dataset": "reference", "category": "code", "output_tokens": 16}],
        "loads": [{"max_concurrency": 1, "num_prompts": 4}, {"max_concurrency": 4, "num_prompts": 8}],
        **changes,
    }


def study(**changes: Any) -> Study:
    return study_from_dict(study_dict(**changes))
