"""The files of common benchmarks become prompts; a placeholder or a row without a question is refused."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from host.settings import Settings
from jobs.datasets.catalogue import DATASETS
from jobs.datasets.loader import load_prompts
from jobs.datasets.prompt import Prompt
from jobs.datasets.registry import add
from lab.errors import UserError
from lab.study import Sampling, Sessions, Workload
from tests.jobs.datasets.rows import write_rows
from warehouse.sandbox.code_runner import scores_by_tests
from workers.load.client import Endpoint, RequestParams, request_body

CALL = {"name": "area", "parameters": {"type": "dict", "properties": {"side": {"type": "integer"}}}}
SCHEMA = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}
QUESTION = [[{"role": "user", "content": "Area of 3?"}], [{"role": "user", "content": "And of 4?"}]]

#: A row as the file of each benchmark has it, what is sent, and its category.
ROWS: tuple[tuple[str, dict[str, Any], str, str], ...] = (
    ("speed_bench", {"category": "coding", "turns": ["Fix it.", "Explain."], "question_id": "x"}, "Fix it.", "coding"),
    (
        "humaneval",
        {"task_id": "HumanEval/0", "prompt": "def f():\n", "canonical_solution": "    return 1\n", "entry_point": "f"},
        "Complete this Python function. Answer with code alone.\n\ndef f():\n",
        "coding",
    ),
    (
        "mbpp",
        {"task_id": 2, "text": "Add two.", "code": "def g(): ...", "test_list": ["assert g(1) == 3"]},
        "Add two.\n\nYour code should pass these tests:\n\nassert g(1) == 3",
        "coding",
    ),
    (
        "gsm8k",
        {"question": "2 and 2?", "answer": "4\n#### 4"},
        "2 and 2?\n\nReason step by step, and put the final answer in \\boxed{}.",
        "math",
    ),
    (
        "math_500",
        {"problem": "$x=1$?", "solution": "1", "answer": "1", "subject": "Algebra", "level": 1},
        "$x=1$?\n\nReason step by step, and put the final answer in \\boxed{}.",
        "Algebra",
    ),
    (
        "cnn_dailymail",
        {"article": "It rained.", "highlights": "Rain.", "id": "1"},
        "Summarize the following news article:\n\nIt rained.",
        "summarisation",
    ),
    (
        "bfcl",
        {"id": "multi_turn_base_7", "question": QUESTION, "function": [CALL]},
        (
            "You can call these functions. To call some, answer with a JSON list of objects with name and "
            f"arguments.\n\n{json.dumps([CALL])}\n\nArea of 3?"
        ),
        "multi_turn_base",
    ),
    (
        "json_schema",
        {"prompt": "How old?", "schema": json.dumps(SCHEMA), "completion": '{"age": 3}'},
        f"Answer with JSON that follows this schema:\n\n{json.dumps(SCHEMA)}\n\nHow old?",
        "structured",
    ),
)


def register(settings: Settings, tmp_path: Path, name: str, *rows: object) -> None:
    file = tmp_path / f"{name}.jsonl"
    write_rows(file, rows)
    add(settings.datasets, name, file)


@pytest.mark.parametrize("of_benchmark", ROWS, ids=[name for name, *_ in ROWS])
def test_a_row_of_each_benchmark_is_sent_as_documented(
    settings: Settings, tmp_path: Path, of_benchmark: tuple[str, dict[str, Any], str, str]
) -> None:
    name, row, text, category = of_benchmark
    register(settings, tmp_path, name, row)
    (prompt,) = load_prompts(settings, Workload(dataset=name), 1, 0)
    assert (prompt.text, prompt.category) == (text, category)
    assert DATASETS[name].licence


def test_speed_benchs_placeholders_are_refused_with_a_way_out(settings: Settings, tmp_path: Path) -> None:
    held = "FULL BENCHMARK DATA SHOULD BE FETCHED FROM THE SOURCE USING SPECDEC_BENCH"
    with pytest.raises(UserError, match=r"line 2: this prompt is a placeholder: .* preparation script") as caught:
        register(settings, tmp_path, "speed_bench", ROWS[0][1], {"category": "math", "turns": [held]})
    assert "under their licences" in str(caught.value)


def test_the_turns_of_speed_bench_and_bfcl_are_sessions(settings: Settings, tmp_path: Path) -> None:
    for name, turns in (("speed_bench", ["Explain."]), ("bfcl", ["And of 4?"])):
        register(settings, tmp_path, name, next(row for of, row, *_ in ROWS if of == name))
        (session,) = load_prompts(settings, Workload(dataset=name, sessions=Sessions()), 1, 0)
        assert [turn.messages[0].content for turn in session.later] == turns


def test_rows_of_bfcl_without_functions_are_left_out(settings: Settings, tmp_path: Path) -> None:
    lacking = {"id": "multi_turn_base_0", "question": QUESTION, "involved_classes": ["GorillaFileSystem"]}
    with pytest.raises(UserError, match=r"has no usable row \(1 were left out\)"):
        register(settings, tmp_path, "bfcl", lacking)


def test_the_schema_of_an_answer_is_sent_to_the_engine(settings: Settings, tmp_path: Path) -> None:
    register(settings, tmp_path, "json_schema", ROWS[-1][1])
    (prompt,) = load_prompts(settings, Workload(dataset="json_schema"), 1, 0)
    asked = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}}
    params = RequestParams(Sampling(), 4, ignore_eos=False, timeout_s=1.0)
    for kind in ("chat", "completions"):
        target = Endpoint("http://x", "m", kind=kind)
        body = json.loads(request_body(target, prompt, params))
        assert body["response_format"] == asked
    plain = json.loads(request_body(target, Prompt("p", None, "x"), params))
    assert "response_format" not in plain


@pytest.mark.parametrize(
    ("name", "row", "why"),
    [
        ("humaneval", {"task_id": "HumanEval/0"}, "the row has no prompt"),
        ("mbpp", {"test_list": []}, r"the row has no text \(and no prompt\)"),
        ("gsm8k", {"question": "?"}, "the row has no answer"),
        (
            "bfcl",
            {"id": "a_1", "question": [[{"role": "tool", "content": "x"}]], "function": [CALL]},
            "is not the role",
        ),
        ("json_schema", {"prompt": "?", "schema": "text"}, "schema must be a JSON schema"),
        ("json_schema", {"schema": SCHEMA}, "the row needs one of prompt and messages"),
    ],
)
def test_a_row_that_asks_nothing_is_reported_with_its_line(
    settings: Settings, tmp_path: Path, name: str, row: dict[str, Any], why: str
) -> None:
    with pytest.raises(UserError, match=f"line 1: .*{why}"):
        register(settings, tmp_path, name, row)


#: Rows of the shape that these files have: a head with a helper and an import, tests that call a function by its name.
HUMANEVAL = {
    "task_id": "HumanEval/999",
    "prompt": (
        "from typing import List\n\n\ndef doubled(x: int) -> int:\n    return 2 * x\n\n\n"
        "def all_doubled(numbers: List[int]) -> List[int]:\n"
        '    """ Double each.\n    >>> all_doubled([1])\n    [2]\n    """\n'
    ),
    "canonical_solution": "    return [doubled(number) for number in numbers]\n",
    "entry_point": "all_doubled",
    "test": (
        "\n\nMETADATA = {'author': 'x'}\n\n\ndef check(candidate):\n    assert candidate([1, 2]) == [2, 4]\n"
        "    assert candidate([]) == []\n"
    ),
}
MBPP = {
    "task_id": 998,
    "text": "Write a function to take the square root of the given number.",
    "code": "import math\ndef root(x):\r\n  return math.sqrt(x)",
    "test_list": ["assert root(4) == 2", "assert root(big) == 10"],
    "test_setup_code": "big = 100",
    "challenge_test_list": [],
}
SANITIZED_MBPP = {
    "task_id": 998,
    "prompt": "Write a function to take the square root of the given number.",
    "code": "import math\ndef root(x):\n  return math.sqrt(x)",
    "test_imports": ["import math"],
    "test_list": ["assert math.isclose(root(2), 2 ** 0.5)"],
}


@pytest.mark.parametrize(
    ("name", "row", "answers"),
    [
        (
            "humaneval",
            HUMANEVAL,
            {
                HUMANEVAL["canonical_solution"]: 1.0,
                f"Sure:\n```python\n{HUMANEVAL['prompt']}{HUMANEVAL['canonical_solution']}```\nIt doubles.": 1.0,
                "```python\ndef all_doubled(numbers: List[int]):\n    return [doubled(n) for n in numbers]\n```": 1.0,
                "    return numbers\n": 0.0,
            },
        ),
        ("mbpp", MBPP, {MBPP["code"]: 1.0, f"```python\n{MBPP['code']}\n```": 1.0, "def root(x): return 2": 0.0}),
        ("mbpp", SANITIZED_MBPP, {SANITIZED_MBPP["code"]: 1.0, "def root(x): return x": 0.0}),
    ],
    ids=["humaneval", "mbpp", "sanitized mbpp"],
)
def test_the_files_own_solutions_pass_the_tests_that_are_expected(
    settings: Settings, tmp_path: Path, name: str, row: dict[str, Any], answers: dict[str, float]
) -> None:
    register(settings, tmp_path, name, row)
    (prompt,) = load_prompts(settings, Workload(dataset=name, score="unit_tests"), 1, 0)
    assert prompt.expected is not None
    programs = [(answer, prompt.expected) for answer in answers]
    assert asyncio.run(scores_by_tests(programs, 600.0)) == list(answers.values())


def test_the_answers_that_scores_compare_with_are_read(settings: Settings, tmp_path: Path) -> None:
    for name, expected in (("gsm8k", "4"), ("math_500", "1"), ("humaneval", None)):
        register(settings, tmp_path, name, next(row for of, row, *_ in ROWS if of == name))
        (prompt,) = load_prompts(settings, Workload(dataset=name), 1, 0)
        assert prompt.expected == expected
