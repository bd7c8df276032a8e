"""Files of prompts as their publishers wrote them, recognised by the keys of their rows."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from host.settings import Settings
from jobs.datasets import files, formats
from jobs.datasets.common_forms import own_row
from jobs.datasets.files import read_file
from jobs.datasets.formats import Row, RowError
from jobs.datasets.loader import load_prompts
from jobs.datasets.registry import add
from lab.errors import UserError
from lab.study import Workload
from tests.jobs.datasets.rows import write_rows, write_text

SAID = [{"role": "user", "content": "Count."}, {"role": "assistant", "content": "1"}]
TURNS = [{"from": "human", "value": "Count."}, {"from": "gpt", "value": "1"}]
PARTS = [{"role": "user", "content": [{"type": "text", "text": "Count."}, {"type": "text", "text": "Now."}]}]


def row(record: dict[str, Any]) -> Row:
    read = own_row(record)
    assert isinstance(read, Row)
    return read


@pytest.mark.parametrize(
    ("record", "text", "category", "reply", "output_tokens"),
    [
        ({"custom_id": "1", "body": {"messages": SAID[:1], "max_tokens": 101}}, "Count.", None, None, 101),
        ({"body": {"prompt": "Once", "max_completion_tokens": 7}}, "Once", None, None, 7),
        ({"body": {"messages": PARTS}}, "Count.\n\nNow.", None, None, None),
        ({"instruction": "Name one.", "input": "", "output": "red"}, "Name one.", None, "red", None),
        (
            {"instruction": "Sum up.", "context": "Text", "response": "T", "category": "sum"},
            "Sum up.\n\nText",
            "sum",
            "T",
            None,
        ),
        ({"instruction": "Add.", "instances": [{"input": "1 1", "output": "2"}]}, "Add.\n\n1 1", None, "2", None),
        ({"question_id": 1, "category": "", "turns": ["First?", "Then?"]}, "First?", None, None, None),
        ({"id": "x", "items": TURNS}, "Count.", None, "1", None),
        ({"conversations": TURNS}, "Count.", None, "1", None),
        ({"conversation": SAID, "model": "m"}, "Count.", None, "1", None),
        ({"prompt": "mine", "instruction": "not read"}, "mine", None, None, None),
    ],
)
def test_a_row_of_a_common_form_is_read(
    record: dict[str, Any], text: str, category: str | None, reply: str | None, output_tokens: int | None
) -> None:
    read = row(record)
    assert (read.text, read.category, read.reply, read.output_tokens) == (text, category, reply, output_tokens)


def test_questions_and_batches_are_sessions_too() -> None:
    assert len(row({"turns": ["First?", "Then?"]}).turns) == 2
    assert len(row({"body": {"messages": [*SAID, SAID[0]]}}).turns) == 2


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        ({"text": "a"}, "the row has no prompt .nor messages, instruction, turns"),
        ({"body": {"input": "a"}}, "body needs one of messages and prompt"),
        (
            {"body": {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}},
            "only parts of text can be sent",
        ),
        ({"instruction": ""}, "instruction must be non-empty text"),
        ({"turns": []}, "turns"),
        ({"conversation": ["a"]}, "conversation must be a list of messages"),
    ],
)
def test_a_row_that_cannot_be_read_says_what_is_missing(record: dict[str, Any], sentence: str) -> None:
    with pytest.raises(RowError, match=sentence):
        own_row(record)


AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"


def test_azures_trace_has_lengths_and_times(tmp_path: Path) -> None:
    lines = "2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n2024-05-10 00:00:00+00:00,9,0\n"
    read = read_file(write_text(tmp_path / "a.csv", AZURE + lines), formats.azure_row, "dataset azure_llm")
    assert [(row.input_tokens, row.output_tokens) for row in read.rows] == [(374, 44), (396, 109)]
    first, second = (row.time_s or 0.0 for row in read.rows)
    assert second - first == pytest.approx(4.314579, abs=1e-5)
    assert (read.left_out, read.stock.has_lengths_only, read.stock.has_times) == (1, True, True)
    with pytest.raises(UserError, match="line 2: TIMESTAMP must be a date and time, got 'soon'"):
        read_file(write_text(tmp_path / "b.csv", AZURE + "soon,1,1\n"), formats.azure_row, "dataset azure_llm")


def test_a_published_file_is_registered_as_it_is_gzipped(settings: Settings, tmp_path: Path) -> None:
    packed = tmp_path / "HumanEval.jsonl.gz"
    packed.write_bytes(gzip.compress(json.dumps({"task_id": "HumanEval/0", "prompt": "def f():"}).encode()))
    assert add(settings.datasets, "humaneval", packed).stock.rows == 1
    (prompt,) = load_prompts(settings, Workload(dataset="humaneval"), 1, seed=0)
    assert prompt.text.endswith("def f():")


def test_a_gzip_file_that_is_cut_or_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = gzip.compress(json.dumps({"prompt": "a" * 1000}).encode())
    (tmp_path / "cut.gz").write_bytes(whole[:-12])
    with pytest.raises(UserError, match="cut is not a gzip file that can be unpacked"):
        read_file(tmp_path / "cut.gz", own_row, "cut")
    monkeypatch.setattr(files, "_MOST_UNPACKED_BYTES", 1000)
    (tmp_path / "whole.gz").write_bytes(whole)
    with pytest.raises(UserError, match="unpacks to more than 0 MiB: unpack it first"):
        read_file(tmp_path / "whole.gz", own_row, "whole")


def many(folder: Path, count: int, *broken: str) -> Path:
    lines = [json.dumps({"prompt": f"p{n}"}) for n in range(count)]
    lines[5:5] = broken
    return write_text(folder / "own.jsonl", "\n".join(lines))


def test_one_broken_record_of_a_thousand_is_skipped_and_counted(tmp_path: Path) -> None:
    stock = read_file(many(tmp_path, 1999, '{"prompt": 7}', "{"), own_row, "own").stock
    assert (stock.rows, stock.invalid) == (1999, 2)
    assert stock.first_invalid == "line 6: prompt must be non-empty text, got '7'"


@pytest.mark.parametrize(("count", "broken"), [(998, 1), (150_000, 101)])
def test_more_broken_records_than_a_few_refuse_the_file(tmp_path: Path, count: int, broken: int) -> None:
    with pytest.raises(UserError, match="own, line 6: the row has no prompt"):
        read_file(many(tmp_path, count, *["{}"] * broken), own_row, "own")


def test_every_repetition_of_a_prompt_has_its_number_in_every_kind_of_dataset(
    settings: Settings, tmp_path: Path
) -> None:
    sharegpt = tmp_path / "sharegpt.json"
    sharegpt.write_text(json.dumps([{"items": [TURNS[0], {"from": "gpt", "value": "one two three four five"}]}] * 3))
    text = {"prompt": "Tell me in a few words why the sky is blue.", "output_tokens": 5}
    messages = {"messages": [*SAID, SAID[0]]}
    own = {
        "lengths": Workload(dataset=write_rows(tmp_path / "a.jsonl", [text] * 3), own_output_lengths=True),
        "sessions": Workload(dataset=write_rows(tmp_path / "b.jsonl", [messages] * 3), sessions={}),
        "replies": Workload(dataset=str(sharegpt), own_output_lengths=True),
    }
    for name, workload in own.items():
        prompts = load_prompts(settings, workload, 3, seed=0, target="reference")
        assert [prompt.occurrence for prompt in prompts] == [0, 1, 2], name
