"""What the names of models tell before anything is downloaded."""

from __future__ import annotations

import pytest

from jobs import known_models
from jobs.known_models import advice, known_drafts
from lab.study import Arm, Load, Study, Workload
from lab.study.methods import METHODS


def study_of(target: str, **fields: object) -> Study:
    return Study.model_validate(
        {
            "name": "a",
            "target": target,
            "arms": [Arm(name="no draft", baseline=True)],
            "workloads": [Workload(dataset="story", output_tokens=16)],
            "loads": [Load(max_concurrency=1, num_prompts=8)],
            **fields,
        }
    )


def test_the_four_heads_of_the_article_are_offered_for_gpt_oss() -> None:
    models = [draft.model for draft in known_drafts("openai/gpt-oss-120b")]
    assert {model for model in models if model.startswith("nvidia/gpt-oss-120b-Eagle3-")} == {
        f"nvidia/gpt-oss-120b-Eagle3-{kind}" for kind in ("short-context", "long-context", "throughput")
    }
    assert "lmsys/EAGLE3-gpt-oss-120b-bf16" in models


def test_a_folder_named_like_the_model_gets_the_same_drafts() -> None:
    assert known_drafts("/models/GPT-OSS-120b/") == known_drafts("openai/gpt-oss-120b")
    assert known_drafts("/models/our-own") == known_drafts("reference") == ()


def test_every_known_draft_has_a_method_of_ours_and_a_source() -> None:
    drafts = [draft for drafts in known_models._drafts().values() for draft in drafts]
    assert drafts
    assert all(draft.method in METHODS and draft.source.startswith("https://") for draft in drafts)


def test_gpt_oss_is_advised_to_use_the_chat_endpoint() -> None:
    assert "set the endpoint to chat" in advice(study_of("openai/gpt-oss-20b", endpoint="completions"))[0]
    assert not [said for said in advice(study_of("openai/gpt-oss-20b", endpoint="chat")) if "endpoint" in said]


@pytest.mark.parametrize(
    ("target", "gpu_gb", "needs"),
    [
        ("openai/gpt-oss-120b", 24.0, "60 GB"),
        ("meta-llama/Llama-3.3-70B-Instruct", 24.0, "35 GB"),
        ("openai/gpt-oss-120b", 96.0, None),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507", 24.0, None),
        ("mistralai/Mixtral-8x7B-v0.1", 2.0, None),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", 2.0, None),
        ("openai/gpt-oss-120b", None, None),
    ],
)
def test_a_model_that_cannot_fit_into_memory_is_named_with_both_sizes(
    monkeypatch: pytest.MonkeyPatch, target: str, gpu_gb: float | None, needs: str | None
) -> None:
    monkeypatch.setattr(known_models, "memory_gb", lambda: (gpu_gb, True))
    said = [sentence for sentence in advice(study_of(target, endpoint="chat")) if "memory" in sentence]
    assert bool(said) == (needs is not None)
    assert all(str(needs) in sentence and f"{gpu_gb:.0f} GB" in sentence for sentence in said)


def test_this_hosts_memory_says_nothing_of_a_study_for_named_hardware(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_models, "memory_gb", lambda: (24.0, False))
    assert "memory" in advice(study_of("openai/gpt-oss-120b", endpoint="chat"))[-1]
    named = advice(study_of("openai/gpt-oss-120b", endpoint="chat", hardware="RTX PRO 6000"))
    assert not [sentence for sentence in named if "memory" in sentence]
