"""Each format: the prompt of a record, the records that are left out, and those that are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from host.settings import Settings
from jobs.datasets.formats import custom_row
from jobs.datasets.listing import add_dataset
from jobs.datasets.loader import load_prompts
from jobs.datasets.prompt import Prompt
from jobs.datasets.tokenizer import TargetTokenizer
from lab.errors import UserError
from lab.study import Workload
from tests.actors import ADMIN


def prompts(settings: Settings, dataset: str, count: int, **fields: Any) -> tuple[Prompt, ...]:
    return load_prompts(settings, Workload(dataset=dataset, **fields), count, seed=0, target="reference")


def registered(settings: Settings, folder: Path, dataset: str, content: object) -> None:
    text = content if isinstance(content, str) else json.dumps(content, indent=1)
    (folder / "file").write_text(text, encoding="utf-8")
    add_dataset(settings, dataset, folder / "file", actor=ADMIN)


def conversation(*turns: tuple[str, str]) -> dict[str, Any]:
    return {"id": "x", "conversations": [{"from": who, "value": text} for who, text in turns]}


REPLY = "It is a reply of more than four tokens."


def test_sharegpt_sends_the_first_human_turn_at_the_length_of_its_reply(
    settings: Settings, tmp_path: Path, tokenizer: TargetTokenizer
) -> None:
    turns = ("system", "Be kind."), ("human", "What is a tide, please?"), ("gpt", REPLY), ("human", "And an ebb?")
    registered(settings, tmp_path, "sharegpt", [conversation(*turns)])
    (prompt,) = prompts(settings, "sharegpt", 1, own_output_lengths=True, output_tokens=512)
    assert prompt.text == "What is a tide, please?"
    assert prompt.output_tokens == tokenizer.count([REPLY])[0]
    assert prompt.text_tokens == tokenizer.count([prompt.text])[0]  # it was counted anyway, to choose what is used


def test_sharegpt_leaves_out_conversations_without_reply_and_unused_lengths(settings: Settings, tmp_path: Path) -> None:
    used = conversation(("human", "A question that is used"), ("gpt", REPLY))
    without = [
        conversation(("gpt", REPLY)),
        conversation(("human", "Hello?")),
        conversation(("human", " "), ("gpt", REPLY)),
        conversation(),
    ]
    unusable = [
        conversation(("human", "word " * 2000), ("gpt", REPLY)),
        conversation(("human", "Yes or no, please?"), ("gpt", "a")),
    ]
    registered(settings, tmp_path, "sharegpt", [used, *without, *unusable])
    assert [prompt.text for prompt in prompts(settings, "sharegpt", 1)] == ["A question that is used"]
    with pytest.raises(UserError, match="dataset sharegpt has 1 prompts, but num_prompts asks for 3"):
        prompts(settings, "sharegpt", 3)


def test_the_same_sharegpt_prompts_are_used_whatever_length_is_generated(settings: Settings) -> None:
    short = prompts(settings, "sharegpt_sample", 8, output_tokens=2)
    assert short == prompts(settings, "sharegpt_sample", 8, output_tokens=2048)


def test_spec_bench_keeps_its_six_categories_and_asks_the_first_turn(settings: Settings) -> None:
    every = prompts(settings, "spec_bench_sample", 24)
    six = {"multi_turn", "translation", "summarization", "qa", "math_reasoning", "rag"}
    assert {prompt.category for prompt in every} == six
    assert len(prompts(settings, "spec_bench_sample", 4, category="multi_turn")) == 4
    assert not any("half as long" in prompt.text for prompt in every)


def test_burstgpt_makes_prompts_of_the_recorded_lengths_in_the_order_of_time(settings: Settings) -> None:
    every = prompts(settings, "burstgpt_sample", 94, own_output_lengths=True, output_tokens=2048)
    recorded = sorted(_burstgpt_lengths())
    assert sorted((len(p.token_ids or ()), p.output_tokens or 0) for p in every) == recorded
    arrivals_s = [prompt.arrival_s or 0.0 for prompt in every]
    assert arrivals_s[0] == 0.0
    assert arrivals_s == sorted(arrivals_s)
    assert {prompt.category for prompt in every} == {"ChatGPT", "GPT-4"}


def test_a_category_of_burstgpt_has_its_own_arrivals(settings: Settings) -> None:
    own = prompts(settings, "burstgpt_sample", 10, category="GPT-4")
    assert {prompt.category for prompt in own} == {"GPT-4"}
    assert own[0].arrival_s == 0.0


def _burstgpt_lengths() -> list[tuple[int, int]]:
    path = Path(__file__).parents[3] / "datasets" / "burstgpt_sample.csv"
    rows = [line.split(",") for line in path.read_text().splitlines()[1:]]
    return [(int(row[2]), int(row[3])) for row in rows if row[3] != "0"]


def test_swe_bench_asks_for_a_patch_or_sends_the_rows_prompt(settings: Settings, tmp_path: Path) -> None:
    rows = [{"repo": "a/b", "problem_statement": "It {fails}."}, {"repo": "a/c", "text": "Whole prompt", "patch": ""}]
    registered(settings, tmp_path, "swe_bench", "\n".join(map(json.dumps, rows)))
    (issue,) = prompts(settings, "swe_bench", 1, category="a/b")
    assert "<issue>\nIt {fails}.\n</issue>" in issue.text
    assert [prompt.text for prompt in prompts(settings, "swe_bench", 1, category="a/c")] == ["Whole prompt"]


def test_mlperf_takes_its_file_with_either_instruction_and_the_raw_columns(settings: Settings, tmp_path: Path) -> None:
    rows = [
        {"instruction": "Summarize:", "input": "News one.", "output": "One."},
        {"instruction": {"llama": "Briefly.\nArticle: {input}\nSummary: "}, "input": "News {two}.", "output": "Two."},
        {"id": "3", "article": "News three.", "highlights": "Three."},
    ]
    registered(settings, tmp_path, "mlperf_summarisation", rows)
    texts = {prompt.text for prompt in prompts(settings, "mlperf_summarisation", 3)}
    assert texts == {
        "Summarize:\n\nNews one.",
        "Briefly.\nArticle: News {two}.\nSummary: ",
        "Summarize the following news article:\n\nNews three.",
    }


def test_a_custom_trace_is_replayed_in_its_own_order(settings: Settings, tmp_path: Path) -> None:
    rows = [{"prompt": f"at {t}", "arrival_s": float(t)} for t in (7, 3, 5, 4)]
    registered(settings, tmp_path, "mine", "\n".join(map(json.dumps, rows)))
    every = prompts(settings, "mine", 4)
    starts = sorted(int(prompt.text.split()[1]) for prompt in every)
    first = starts.index(int(every[0].text.split()[1]))
    assert [int(prompt.text.split()[1]) for prompt in every] == starts[first:] + starts[:first]
    assert [prompt.arrival_s for prompt in every] == sorted(prompt.arrival_s or 0.0 for prompt in every)


@pytest.mark.parametrize(
    ("dataset", "content", "words"),
    [
        ("sharegpt", [{"id": 1}], r"line 2 \(entry 1\): the row has no conversations"),
        (
            "sharegpt",
            [conversation(), {"conversations": [{"from": "human"}, {"from": "gpt"}]}],
            r"\(entry 2\): the row has no value",
        ),
        ("sharegpt", [{"conversations": ["Hello"]}], r"\(entry 1\): conversations\.0"),
        ("sharegpt", [conversation()], r"has no usable row \(1 were left out\)"),
        ("sharegpt", '[{"conversations": []}, {"conv', r"line 1 \(entry 2\): this is not valid JSON"),
        ("spec_bench", '{"category": "qa", "turns": []}', "line 1: turns"),
        ("spec_bench", '{"category": "qa", "turns": ["a"]}\n{"turns": ["a"]}', "line 2: the row has no category"),
        ("spec_bench", "<!DOCTYPE html>\n<html></html>", "is a web page, not the data"),
        (
            "burstgpt",
            "Timestamp,Model,Request tokens,Response tokens\n1,GPT-4,9",
            "line 2: this row does not have the 4",
        ),
        ("burstgpt", "Timestamp,Model,Request tokens,Response tokens\n1,GPT-4,-1,3", "line 2: Request tokens"),
        ("burstgpt", "Timestamp,Model,Request tokens,Response tokens\n1,GPT-4,x,3", "line 2: Request tokens"),
        ("burstgpt", "Timestamp,Model\n1,GPT-4", "line 2: the row has no Request tokens"),
        ("swe_bench", '{"repo": "a/b"}', "line 1: the row has no problem_statement"),
        ("mlperf_summarisation", '[{"input": "a"}]', r"line 1 \(entry 1\): the row has no output"),
        (
            "mlperf_summarisation",
            '[{"instruction": {"llama": "none"}, "input": "a", "output": "b"}]',
            r"the template has no \{input\}",
        ),
    ],
)
def test_a_file_with_a_wrong_row_is_refused_with_its_line(
    settings: Settings, tmp_path: Path, dataset: str, content: object, words: str
) -> None:
    with pytest.raises(UserError, match=words):
        registered(settings, tmp_path, dataset, content)
    with pytest.raises(UserError, match=f"dataset {dataset} is not on this host"):
        prompts(settings, dataset, 1)
    assert {path.name for path in settings.datasets.rglob("*")} == {"files", ".lock"}


def test_a_row_of_ones_own_may_say_which_answer_is_expected() -> None:
    assert custom_row({"prompt": "2 + 2?", "expected": "4"}).expected == "4"
    assert custom_row({"prompt": "2 + 2?"}).expected is None
