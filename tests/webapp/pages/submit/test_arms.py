"""A new arm of the form: what it begins with."""

from __future__ import annotations

from typing import Any

import pytest

from lab.study.methods import METHODS
from webapp.pages.submit.arms import new_arm

PLAIN: dict[str, Any] = {"name": "no draft", "engine": "vllm", "speculation.method": "none"}


def head(k: int) -> dict[str, Any]:
    speculation = {"method": "eagle3", "model": "lab/head", "num_speculative_tokens": k}
    drafts = {f"speculation.{name}": value for name, value in speculation.items()}
    return {"name": f"EAGLE-3 k={k}", "engine": "vllm", **drafts}


@pytest.mark.parametrize(
    ("arms", "target", "name", "draft_model"),
    [
        ([], "reference", "draft model k=3", "reference-draft"),
        ([PLAIN], "lab/large", "n-gram k=3", None),
        ([PLAIN], "openai/gpt-oss-120b", "EAGLE-3 k=3", "nvidia/gpt-oss-120b-Eagle3-short-context"),
        ([PLAIN, head(5)], "lab/large", "EAGLE-3 k=3", "lab/head"),
        ([head(3), PLAIN], "lab/large", "EAGLE-3 k=5", "lab/head"),
        ([head(k) for k in (3, 5, 1, 2)], "lab/large", "EAGLE-3 k=4", "lab/head"),
        ([head(k) for k in range(1, 9)], "lab/large", "EAGLE-3 k=3", "lab/head"),
    ],
)
def test_a_new_arm_drafts_as_the_last_one_with_a_free_k(
    arms: list[dict[str, Any]], target: str, name: str, draft_model: str | None
) -> None:
    arm = new_arm(arms, "vllm", list(METHODS), target)
    assert (arm["name"], arm.get("speculation.model")) == (name, draft_model)
    assert arm["name"].endswith(f"k={arm['speculation.num_speculative_tokens']}")


def test_its_method_is_one_of_its_engine() -> None:
    assert new_arm([PLAIN], "other", ["suffix"], "lab/large")["name"] == "suffix k=3"
    assert new_arm([PLAIN], "other", ["eagle3"], "lab/large")["name"] == "EAGLE-3 k=3"
