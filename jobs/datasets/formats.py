"""The formats of dataset files: how a record of each becomes a row, the text to send before tokenization."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from jobs.datasets.prompt import Message, text_of
from jobs.datasets.sessions import RowTurn, turns_of

#: Text that is not blank.
Words = Annotated[str, Field(min_length=1, pattern=r"\S")]
Category = Annotated[str, Field(min_length=1, max_length=200)]
Tokens = Annotated[int, Field(ge=1, le=1_000_000)]
CUSTOM_EXAMPLE = '{"prompt": "...", "category": "code"}'
_SHAREGPT_EXAMPLE = '{"conversations": [{"from": "human", "value": "..."}, {"from": "gpt", "value": "..."}]}'
_HUMAN = ("human", "user")
_SPEC_BENCH_EXAMPLE = '{"question_id": 1, "category": "writing", "turns": ["..."]}'
#: The file keeps MT-bench's own eight categories; together they are the first of the six of Spec-Bench.
_MULTI_TURN = frozenset(
    ("writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities", "mt_bench")
)
_BURSTGPT_EXAMPLE = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"
_AZURE_EXAMPLE = "TIMESTAMP,ContextTokens,GeneratedTokens"
_SWE_BENCH_EXAMPLE = '{"repo": "owner/name", "problem_statement": "..."}'
_ASK = """You are given an issue of the repository {repo}. Write a patch in unified diff format that resolves it.

<issue>
{issue}
</issue>

Answer with the patch alone.
"""
_MLPERF_EXAMPLE = '{"instruction": "...", "input": "the article", "output": "its highlights"}'
#: The instruction for articles that come without one, as in the task's GPT-J version.
_INSTRUCTION = "Summarize the following news article:"


@dataclass(frozen=True, slots=True)
class Row:
    """One row. `text` or `messages` is sent, or instead `input_tokens` random token ids.

    The recorded length of the answer is `output_tokens`, or that of `reply` in the target's own tokens. `time_s` is the
    arrival of the request, on the clock of the file. `turns` is the conversation as a session, the first turn included.
    `session` names the session if the record is a single request of one; `ended_s` is when its answer ended.
    `expected` is the answer that a score compares with.
    """

    text: str = ""
    category: str | None = None
    messages: tuple[Message, ...] | None = None
    reply: str | None = None
    output_tokens: int | None = None
    input_tokens: int | None = None
    time_s: float | None = None
    turns: tuple[RowTurn, ...] = ()
    session: str | None = None
    ended_s: float | None = None
    json_schema: str | None = None  # JSON that the engine is told to hold the answer to
    adds: bool = False  # of a record of a session: its messages are new ones, and not the whole conversation
    expected: str | None = None

    @property
    def has_output_length(self) -> bool:
        return self.output_tokens is not None or self.reply is not None


#: Parses a record of the file; returns None if the dataset's own rule excludes it, and several rows if the record
#: holds several. Raises RowError.
RowReader = Callable[[Mapping[str, Any]], Row | tuple[Row, ...] | None]


class RowError(ValueError):
    """An invalid record; the text names the problem, and the caller adds the line."""


class Record(BaseModel):
    """The keys that a format needs. Keys that other tools write beside them are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, allow_inf_nan=False)


_R = TypeVar("_R", bound=Record)


def checked(model: type[_R], record: object, example: str) -> _R:
    """Validate a record; `example` shows a valid one. Raises RowError."""
    if not isinstance(record, Mapping):
        raise RowError(f"a row must be an object like {example}")
    try:
        return model.model_validate(record)
    except ValidationError as error:
        raise RowError(_reason(error.errors()[0])) from None


def _reason(first: ErrorDetails) -> str:
    if not first["loc"]:  # our own message about the whole record
        return str(first["ctx"]["error"])
    field = ".".join(str(part) for part in first["loc"])
    if first["type"] == "missing":
        return f"the row has no {field}"
    if first["type"] in ("string_type", "string_too_short", "string_pattern_mismatch"):
        return f"{field} must be non-empty text, got {_shortened(first['input'])}"
    if first["type"] == "string_unicode":
        return f"{field} holds half a character (a lone surrogate), which cannot be sent to an engine"
    return f"{field}: {first['msg'].replace('Input should', 'should', 1)}, got {_shortened(first['input'])}"


def _shortened(value: object) -> str:
    return repr(value if isinstance(value, str) else str(value))[:80]


class _Message(Record):
    role: Literal["system", "user", "assistant", "tool"]
    content: Words
    wait_s: Annotated[float, Field(ge=0, le=86_400)] = 0.0


class _Custom(Record):
    prompt: Words | None = None
    messages: Annotated[list[_Message], Field(min_length=1)] | None = None
    category: Category | None = None
    output_tokens: Tokens | None = None
    arrival_s: Annotated[float, Field(ge=0)] | None = None
    expected: Words | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if self.prompt is None and self.messages is None:
            raise ValueError("the row has no prompt (nor messages, instruction, turns, conversations, items or body)")
        if self.prompt is not None and self.messages is not None:
            raise ValueError("the row has both prompt and messages: keep one of them")
        return self


def custom_row(record: Mapping[str, Any]) -> Row:
    """Read a dataset of the user's own: one JSON object a line, with a prompt or messages. Raises RowError."""
    read = checked(_Custom, record, CUSTOM_EXAMPLE)
    messages = tuple(Message(message.role, message.content) for message in read.messages or ()) or None
    waits_s = [message.wait_s for message in read.messages or ()]
    return Row(
        text=text_of(messages) if messages else read.prompt or "",
        category=read.category,
        messages=messages,
        output_tokens=read.output_tokens,
        time_s=read.arrival_s,
        turns=turns_of(messages or (Message("user", read.prompt or ""),), waits_s or None),
        expected=read.expected,
    )


class _Turn(Record):
    speaker: str = Field(alias="from")
    value: str


class _Conversation(Record):
    conversations: Annotated[list[dict[str, Any]], Field(validation_alias=AliasChoices("conversations", "items"))]


def sharegpt_row(record: Mapping[str, Any]) -> Row | None:
    """ShareGPT: conversations with ChatGPT. The first human turn is the prompt, the reply gives the answer's length.

    As a session the conversation continues from there, to its last turn that has text.

    None for a conversation without a human turn that is followed by a reply. Raises RowError.
    """
    turns = checked(_Conversation, record, _SHAREGPT_EXAMPLE).conversations
    first = next((index for index, turn in enumerate(turns) if turn.get("from") in _HUMAN), len(turns))
    if first + 2 > len(turns):
        return None
    prompt, reply = (checked(_Turn, turn, _SHAREGPT_EXAMPLE) for turn in turns[first : first + 2])
    if reply.speaker in (*_HUMAN, "system") or not prompt.value.strip() or not reply.value.strip():
        return None
    return Row(text=prompt.value, reply=reply.value, turns=turns_of(_conversation(turns[first:])))


def _conversation(turns: Sequence[Mapping[str, Any]]) -> list[Message]:
    """Return the messages before the first one without text."""
    messages: list[Message] = []
    for turn in turns:
        speaker, value = turn.get("from"), turn.get("value")
        if not isinstance(value, str) or not value.strip() or speaker == "system":
            break
        messages.append(Message("user" if speaker in _HUMAN else "assistant", value))
    return messages


def fits_sharegpt(prompt_tokens: int, output_tokens: int) -> bool:
    """Accept the lengths that `vllm bench serve` uses of this dataset, so that results can be compared."""
    return 4 <= prompt_tokens <= 1024 and output_tokens >= 4 and prompt_tokens + output_tokens <= 2048


class _Question(Record):
    category: Category
    turns: Annotated[list[Words], Field(min_length=1)]


def spec_bench_row(record: Mapping[str, Any]) -> Row:
    """Spec-Bench: six kinds of tasks for measuring speculative decoding. The first turn of each is the prompt.

    As a session all of its turns are sent; the file records no answers. Raises RowError.
    """
    question = checked(_Question, record, _SPEC_BENCH_EXAMPLE)
    category = "multi_turn" if question.category in _MULTI_TURN else question.category
    return Row(text=question.turns[0], category=category, turns=asked(question.turns))


def mt_bench_row(record: Mapping[str, Any]) -> Row:
    """MT-bench: questions of two turns in eight categories. The first turn is the prompt. Raises RowError."""
    question = checked(_Question, record, _SPEC_BENCH_EXAMPLE)
    return Row(text=question.turns[0], category=question.category, turns=asked(question.turns))


def asked(turns: Sequence[str]) -> tuple[RowTurn, ...]:
    """Return the turns of a file that records the questions without answers."""
    return tuple(RowTurn((Message("user", turn),)) for turn in turns)


class _Request(Record):
    model_config = ConfigDict(strict=False)  # every value of a CSV file is text

    timestamp_s: Annotated[float, Field(alias="Timestamp", ge=0)]
    model: Annotated[Category, Field(alias="Model")]
    request_tokens: Annotated[int, Field(alias="Request tokens", ge=0, le=1_000_000)]
    response_tokens: Annotated[int, Field(alias="Response tokens", ge=0, le=1_000_000)]


def burstgpt_row(record: Mapping[str, Any]) -> Row | None:
    """BurstGPT: arrival times and lengths of requests to a real service, without texts. The model is the category.

    None for a failed request, which has no tokens on one side. Raises RowError.
    """
    request = checked(_Request, record, _BURSTGPT_EXAMPLE)
    if not request.request_tokens or not request.response_tokens:
        return None
    return Row(
        category=request.model,
        input_tokens=request.request_tokens,
        output_tokens=request.response_tokens,
        time_s=request.timestamp_s,
    )


class _AzureRequest(Record):
    model_config = ConfigDict(strict=False)  # every value of a CSV file is text

    timestamp: Annotated[str, Field(alias="TIMESTAMP")]
    context_tokens: Annotated[int, Field(alias="ContextTokens", ge=0, le=1_000_000)]
    generated_tokens: Annotated[int, Field(alias="GeneratedTokens", ge=0, le=1_000_000)]


def azure_row(record: Mapping[str, Any]) -> Row | None:
    """Azure's traces of LLM inference: arrival times and lengths of requests, without texts.

    None for a request that has no tokens on one side. Raises RowError.
    """
    request = checked(_AzureRequest, record, _AZURE_EXAMPLE)
    try:
        arrival = datetime.fromisoformat(request.timestamp)
    except ValueError:
        raise RowError(f"TIMESTAMP must be a date and time, got {_shortened(request.timestamp)}") from None
    if not request.context_tokens or not request.generated_tokens:
        return None
    return Row(
        input_tokens=request.context_tokens,
        output_tokens=request.generated_tokens,
        time_s=(arrival if arrival.tzinfo else arrival.replace(tzinfo=UTC)).timestamp(),
    )


class _Issue(Record):
    repo: Category
    problem_statement: Words | None = None
    text: Words | None = None  # the whole prompt, in the variants of the dataset that come with retrieved files
    patch: str | None = None

    @model_validator(mode="after")
    def _has_something_to_ask(self) -> Self:
        if self.problem_statement is None and self.text is None:
            raise ValueError("the row has no problem_statement (and no text)")
        return self


def swe_bench_row(record: Mapping[str, Any]) -> Row:
    """SWE-bench: issues of real software projects. The prompt asks for a patch, which is not judged.

    The repository is the category, and the reference patch gives the answer's length. Raises RowError.
    """
    issue = checked(_Issue, record, _SWE_BENCH_EXAMPLE)
    text = issue.text or _ASK.format(repo=issue.repo, issue=issue.problem_statement)
    return Row(text=text, category=issue.repo, reply=issue.patch or None)


class _Article(Record):
    instruction: Words | dict[str, Words] | None = None
    input: Words
    output: Words


class _Raw(Record):
    article: Words
    highlights: Words


def mlperf_row(record: Mapping[str, Any]) -> Row:
    """MLPerf inference's summarisation task: news articles of CNN and Daily Mail, each with its highlights.

    The record is of the task's own file (cnn_eval.json), or of the raw dataset. Raises RowError.
    """
    if isinstance(record, Mapping) and "article" in record:
        raw = checked(_Raw, record, _MLPERF_EXAMPLE)
        return Row(text=f"{_INSTRUCTION}\n\n{raw.article}", category="summarisation", reply=raw.highlights)
    article = checked(_Article, record, _MLPERF_EXAMPLE)
    return Row(text=_article_prompt(article), category="summarisation", reply=article.output)


def _article_prompt(article: _Article) -> str:
    """Build the prompt; an instruction may be a template with {input}, under the name of the model it is for."""
    if isinstance(article.instruction, dict):
        if len(article.instruction) != 1:
            raise RowError("instruction must be a text, or one template under the name of its model")
        (template,) = article.instruction.values()
        if "{input}" not in template:
            raise RowError("instruction: the template has no {input}, where the article is inserted")
        return template.replace("{input}", article.input)
    return f"{article.instruction or _INSTRUCTION}\n\n{article.input}"
