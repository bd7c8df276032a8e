"""Session traces whose records are single requests: AIPerf's and Mooncake's, and OpenTelemetry's GenAI spans.

Rows of one session are joined: the part of a request that repeats the previous one becomes history, the rest a
turn, and the time between an answer and the next request the wait of a user or a tool.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from jobs.datasets.formats import Category, Record, Row, RowError, Tokens, Words, checked
from jobs.datasets.prompt import Message, text_of
from jobs.datasets.sessions import RowTurn, what_is_new
from lab.study.workload import NO_TEXT

_MOONCAKE_EXAMPLE = '{"session_id": "s1", "timestamp": 0, "input_length": 655, "output_length": 52, "hash_ids": [0, 1]}'
_SPAN_EXAMPLE = '{"attributes": {"gen_ai.conversation.id": "c1", "gen_ai.input.messages": [...]}}'
_MS, _NS = 1e3, 1e9
_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
Milliseconds = Annotated[float, Field(ge=0)]


class _TraceMessage(Record):
    role: Literal["system", "user", "assistant", "tool"]
    content: Words


class _Request(Record):
    session_id: Category | None = None
    timestamp: Milliseconds | None = None
    delay: Milliseconds | None = None
    input_length: Tokens | None = None
    output_length: Tokens | None = None
    hash_ids: list[int] | None = None
    text_input: Words | None = None
    messages: Annotated[list[_TraceMessage], Field(min_length=1)] | None = None
    message_mode: Literal["history", "delta"] = "history"

    @model_validator(mode="after")
    def _one_kind_of_prompt(self) -> Self:
        if sum(value is not None for value in (self.input_length, self.text_input, self.messages)) != 1:
            raise ValueError("the row needs one of messages, text_input and input_length")
        return self


def mooncake_row(record: Mapping[str, Any]) -> Row:
    """Read a request of AIPerf's or Mooncake's traces, with messages, or with lengths and hashes of its blocks.

    Times are milliseconds. Records of one `session_id` are its turns, in their order. Raises RowError.
    """
    read = checked(_Request, record, _MOONCAKE_EXAMPLE)
    messages = tuple(Message(message.role, message.content) for message in read.messages or ())
    if read.text_input is not None:
        messages = (Message("user", read.text_input),)
    turn = RowTurn(
        messages,
        output_tokens=read.output_length,
        wait_s=(read.delay or 0.0) / _MS,
        input_tokens=read.input_length,
        block_hashes=tuple(read.hash_ids or ()),
    )
    return Row(
        text=text_of(messages),
        category=NO_TEXT if read.input_length is not None else None,
        messages=messages or None,
        output_tokens=read.output_length,
        input_tokens=read.input_length,
        time_s=None if read.timestamp is None else read.timestamp / _MS,
        turns=(turn,),
        session=read.session_id,
        adds=read.message_mode == "delta" or read.text_input is not None,
    )


def otel_rows(record: Mapping[str, Any]) -> tuple[Row, ...] | None:
    """Read OpenTelemetry's GenAI spans: OTLP's JSON (from a collector's file exporter), or one span a line.

    Only spans with `gen_ai.input.messages` are used; spans of one `gen_ai.conversation.id`, else of one trace, are the
    turns of a session. None for a record without such a span. Raises RowError.
    """
    rows = tuple(row for span in _spans(record) if (row := _span_row(span)) is not None)
    return rows or None


def _spans(record: object) -> Iterator[Mapping[str, Any]]:
    if not isinstance(record, Mapping):
        raise RowError(f"a row must be an object like {_SPAN_EXAMPLE}")
    if "resourceSpans" not in record:
        yield record
        return
    for resource in _listed(record, "resourceSpans"):
        for scope in _listed(resource, "scopeSpans"):
            yield from _listed(scope, "spans")


def _listed(record: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    values = record.get(key) or []
    if not isinstance(values, list) or not all(isinstance(value, Mapping) for value in values):
        raise RowError(f"{key} must be a list of objects, as in OTLP's JSON")
    return values


def _span_row(span: Mapping[str, Any]) -> Row | None:
    attributes = _attributes(span.get("attributes"))
    if "gen_ai.input.messages" not in attributes:
        return None
    system = _system(attributes.get("gen_ai.system_instructions"))
    said = tuple(_messages(_decoded(attributes["gen_ai.input.messages"])))
    messages = (*((Message("system", system),) if system else ()), *said)
    if not any(message.role != "system" for message in messages):
        return None
    replies = tuple(_messages(_decoded(attributes.get("gen_ai.output.messages"))))
    reply = replies[0].content if replies else None
    tokens = attributes.get("gen_ai.usage.output_tokens")
    length = int(str(tokens)) if str(tokens).isdigit() and str(tokens) != "0" else None
    begun_s, ended_s = (_seconds(span, name) for name in ("startTimeUnixNano", "endTimeUnixNano"))
    session = attributes.get("gen_ai.conversation.id") or span.get("traceId") or span.get("trace_id")
    operation = attributes.get("gen_ai.agent.name")
    return Row(
        text=text_of(messages),
        category=str(operation) if operation else None,
        messages=messages,
        reply=reply,
        output_tokens=length,
        time_s=begun_s,
        turns=(RowTurn(messages, reply, length),),
        session=None if session is None else str(session),
        ended_s=ended_s,
    )


def _attributes(given: object) -> dict[str, Any]:
    """Return attributes, given as a mapping or as OTLP's list of keys with typed values."""
    if isinstance(given, Mapping):
        return dict(given)
    found: dict[str, Any] = {}
    for pair in given if isinstance(given, list) else []:
        if isinstance(pair, Mapping) and isinstance(pair.get("key"), str):
            found[pair["key"]] = _value(pair.get("value"))
    return found


def _value(value: object) -> Any:
    if not isinstance(value, Mapping):
        return value
    if "arrayValue" in value:
        return [_value(member) for member in (value["arrayValue"] or {}).get("values", [])]
    if "kvlistValue" in value:
        return {pair.get("key"): _value(pair.get("value")) for pair in (value["kvlistValue"] or {}).get("values", [])}
    return next(iter(value.values()), None)


def _decoded(value: object) -> Any:
    """Decode a structured attribute, which is often recorded as JSON text."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise RowError(f"gen_ai messages must be JSON, got {value[:80]!r}") from None


def _system(value: object) -> str:
    """Return system instructions, recorded as parts, as JSON or as plain text."""
    return value if isinstance(value, str) and not value.lstrip().startswith("[") else _texts(_decoded(value))


def _messages(value: object) -> Iterator[Message]:
    for message in value if isinstance(value, list) else []:
        if not isinstance(message, Mapping):
            raise RowError("gen_ai.input.messages must be a list of messages with role and parts")
        role = _ROLES.get(str(message.get("role")))
        content = _texts(message.get("parts", message.get("content")))
        if role is not None and content:
            yield Message(role, content)  # type: ignore[arg-type]  # one of _ROLES


def _texts(parts: object) -> str:
    """Return the text of a message's parts, with tools' calls and results as JSON, without reasoning and media."""
    if isinstance(parts, str):
        return parts
    found = [_part(part) for part in parts] if isinstance(parts, list) else []
    return "\n\n".join(text for text in found if text)


def _part(part: object) -> str:
    if not isinstance(part, Mapping):
        return part if isinstance(part, str) else ""
    kind = part.get("type")
    if kind == "text":
        return str(part.get("content") or part.get("text") or "")
    if kind == "tool_call":
        return json.dumps({"name": part.get("name"), "arguments": part.get("arguments")}, ensure_ascii=False)
    if kind == "tool_call_response":
        answer = part.get("response", part.get("result"))
        return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
    return ""


def _seconds(span: Mapping[str, Any], name: str) -> float | None:
    value = span.get(name)
    return int(value) / _NS if isinstance(value, str | int) and str(value).isdigit() else None


def sessions_of(rows: Sequence[Row]) -> tuple[Row, ...]:
    """Join the rows of each session, at the position of the first. Rows without a session stay as they are."""
    groups: dict[object, list[Row]] = {}
    for index, row in enumerate(rows):
        groups.setdefault(index if row.session is None else row.session, []).append(row)
    return tuple(group[0] if len(group) == 1 else _joined(group) for group in groups.values())


def _joined(rows: list[Row]) -> Row:
    """Return one session from its requests, in order of time if they have times."""
    if all(row.time_s is not None for row in rows):
        rows = sorted(rows, key=lambda row: row.time_s or 0.0)
    return replace(rows[0], turns=tuple(_turns(rows)))


def _turns(rows: Iterable[Row]) -> Iterator[RowTurn]:
    held: RowTurn | None = None
    before: Row | None = None
    for row in rows:
        (turn,) = row.turns
        if held is None or before is None:
            held, before = turn, row
            continue
        turn = replace(turn, wait_s=_wait_s(before, row, turn))
        if not row.adds and row.input_tokens is None:
            added = what_is_new(before.messages or (), row.messages or ())
            turn = replace(turn, anew=True) if added is None else replace(turn, messages=added[0])
            held = held if added is None else replace(held, reply=added[1])
        yield held
        held, before = turn, row
    if held is not None:
        yield held


def _wait_s(before: Row, row: Row, turn: RowTurn) -> float:
    """Return the time from an answer's recorded end to the next request, or else the trace's own delay."""
    if row.time_s is not None and before.ended_s is not None:
        return max(0.0, row.time_s - before.ended_s)
    return turn.wait_s
