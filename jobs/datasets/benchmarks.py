"""The formats of common acceptance benchmarks: code, mathematics, summaries, tools, structured text.

Outputs can be scored (`lab.quality`) if the file has answers or tests. The text around a question is the plainest that
asks for it, and is stated in docs/datasets.md, because acceptance depends on it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from jobs.datasets.formats import Category, Record, Row, RowError, Words, asked, checked
from jobs.datasets.prompt import Message, text_of
from jobs.datasets.sessions import RowTurn
from lab.quality.code_answers import expected_tests

#: The placeholders in SPEED-Bench's public files for prompts that have to be fetched from their own sources.
_PLACEHOLDER = "FULL BENCHMARK DATA SHOULD BE FETCHED"
_CODE = "Complete this Python function. Answer with code alone.\n\n{}"
_MBPP = "{}\n\nYour code should pass these tests:\n\n{}"
_MATH = "{}\n\nReason step by step, and put the final answer in \\boxed{{}}."
_TOOLS = "You can call these functions. To call some, answer with a JSON list of objects with name and arguments.\n\n{}"
_SCHEMA = "Answer with JSON that follows this schema:\n\n{}"


class _SpeedBench(Record):
    category: Category
    turns: Annotated[list[Words], Field(min_length=1)]
    sub_category: str | None = None


def speed_bench_row(record: Mapping[str, Any]) -> Row:
    """Read a row of SPEED-Bench: its eleven categories (or entropy classes), with all turns as a session.

    Raises RowError, also for the placeholders that its public files hold.
    """
    read = checked(_SpeedBench, record, '{"category": "coding", "turns": ["..."]}')
    if any(_PLACEHOLDER in turn for turn in read.turns):
        raise RowError(
            "this prompt is a placeholder: the public file leaves out texts that belong to other datasets. Fetch them "
            "with SPEED-Bench's own preparation script, under their licences, and register the file that it writes"
        )
    return Row(text=read.turns[0], category=read.category, turns=asked(read.turns))


class _HumanEval(Record):
    task_id: Words
    prompt: Words
    canonical_solution: str | None = None
    test: str | None = None
    entry_point: str | None = None


def humaneval_row(record: Mapping[str, Any]) -> Row:
    """Read a row of HumanEval: signature and docstring of a function to complete, and its tests. Raises RowError."""
    read = checked(_HumanEval, record, '{"task_id": "HumanEval/0", "prompt": "def ..."}')
    expected = None
    if read.test and read.entry_point and read.entry_point.isidentifier():
        expected = expected_tests(f"{read.test}\n\ncheck({read.entry_point})\n", read.prompt)
    return Row(
        text=_CODE.format(read.prompt), category="coding", reply=read.canonical_solution or None, expected=expected
    )


class _Mbpp(Record):
    text: Words | None = None
    prompt: Words | None = None  # as the sanitized version calls it
    code: str | None = None
    test_list: list[str] = Field(default_factory=list)
    test_setup_code: str | None = None
    test_imports: list[str] = Field(default_factory=list)  # of the sanitized version

    @model_validator(mode="after")
    def _asks(self) -> Self:
        if (self.text or self.prompt) is None:
            raise ValueError("the row has no text (and no prompt)")
        return self


def mbpp_row(record: Mapping[str, Any]) -> Row:
    """Read a row of MBPP: a task in a sentence, with its tests. Raises RowError."""
    read = checked(_Mbpp, record, '{"text": "Write a function to ...", "test_list": ["assert ..."]}')
    asks = read.text or read.prompt or ""
    text = _MBPP.format(asks, "\n".join(read.test_list)) if read.test_list else asks
    tests = "\n".join((*read.test_imports, read.test_setup_code or "", *read.test_list)).strip()
    expected = expected_tests(tests) if read.test_list else None
    return Row(text=text, category="coding", reply=read.code or None, expected=expected)


class _Gsm8k(Record):
    question: Words
    answer: Words


def gsm8k_row(record: Mapping[str, Any]) -> Row:
    """Read a row of GSM8K: school mathematics in words, with a worked answer. Raises RowError."""
    read = checked(_Gsm8k, record, '{"question": "...", "answer": "... #### 42"}')
    return Row(text=_MATH.format(read.question), category="math", reply=read.answer, expected=_final(read.answer))


def _final(answer: str) -> str | None:
    """Return the number behind the mark that ends an answer of GSM8K."""
    _, mark, final = answer.rpartition("####")
    return final.strip() if mark else None


class _Math(Record):
    problem: Words
    solution: Words | None = None
    answer: Words | None = None
    subject: Category | None = None


def math_row(record: Mapping[str, Any]) -> Row:
    """Read a row of MATH-500: competition mathematics; the subject is the category. Raises RowError."""
    read = checked(_Math, record, '{"problem": "...", "solution": "...", "subject": "Algebra"}')
    return Row(
        text=_MATH.format(read.problem), category=read.subject or "math", reply=read.solution, expected=read.answer
    )


class _Said(Record):
    role: str
    content: Words


class _Bfcl(Record):
    id: Words
    question: Annotated[list[list[_Said]], Field(min_length=1)]
    function: list[dict[str, Any]] | dict[str, Any] | None = None


def bfcl_row(record: Mapping[str, Any]) -> Row | None:
    """Read a row of BFCL: a question to answer by calling functions, described in a system message.

    The turns of its multi-turn files are a session. None for a row without functions, whose tools are classes of
    BFCL's own code. Raises RowError.
    """
    read = checked(
        _Bfcl, record, '{"id": "simple_0", "question": [[{"role": "user", "content": "..."}]], "function": []}'
    )
    if not read.function or not all(read.question):
        return None
    system = Message("system", _TOOLS.format(json.dumps(read.function, ensure_ascii=False)))
    said = [tuple(_message(message) for message in turn) for turn in read.question]
    said[0] = (system, *said[0])
    return Row(
        text=text_of(said[0]),
        category=_kind(read.id),
        messages=said[0],
        turns=tuple(RowTurn(messages) for messages in said),
    )


def _message(said: _Said) -> Message:
    if said.role not in ("system", "user", "assistant"):
        raise RowError(f"question: {said.role[:40]!r} is not the role of a message: use system, user or assistant")
    return Message(said.role, said.content)  # type: ignore[arg-type]  # one of these


def _kind(row_id: str) -> str:
    """Return the kind in front of the number: `live_simple` of `live_simple_12-3-0`."""
    name = row_id.rsplit("_", 1)[0] if "_" in row_id else row_id
    return name or row_id


class _Structured(Record):
    prompt: Words | None = None
    messages: Annotated[list[_Said], Field(min_length=1)] | None = None
    json_schema: dict[str, Any] | str = Field(alias="schema")
    completion: str | None = None
    category: Category | None = None

    @model_validator(mode="after")
    def _asks(self) -> Self:
        if (self.prompt is None) == (self.messages is None):
            raise ValueError("the row needs one of prompt and messages")
        return self


def json_schema_row(record: Mapping[str, Any]) -> Row:
    """Read a row of structured output: a question, and the JSON schema that the engine enforces on the answer.

    Raises RowError.
    """
    read = checked(_Structured, record, '{"prompt": "...", "schema": {"type": "object"}}')
    schema = _schema(read.json_schema)
    given = [_message(said) for said in read.messages or ()] or [Message("user", read.prompt or "")]
    messages = tuple(given)
    if not any(message.role == "system" for message in messages):
        messages = (Message("system", _SCHEMA.format(json.dumps(schema, ensure_ascii=False))), *messages)
    return Row(
        text=text_of(messages),
        category=read.category or "structured",
        messages=messages,
        reply=read.completion or None,
        json_schema=json.dumps(schema, ensure_ascii=False, sort_keys=True),
    )


def _schema(given: dict[str, Any] | str) -> dict[str, Any]:
    """Return the schema as an object; some files write it as JSON text."""
    if isinstance(given, dict):
        return given
    try:
        read = json.loads(given)
    except (ValueError, RecursionError):
        read = None
    if not isinstance(read, dict):
        raise RowError("schema must be a JSON schema: an object, or its JSON text")
    return read
