"""One streamed answer of an OpenAI-compatible server, parsed event by event.

Parsing takes 5 microseconds an event, as long as reading it. It waits until all received bytes have been read
(`workers.load.connections`), but not for the end of the answer, so no backlog builds up when many answers end together.
"""

from __future__ import annotations

import codecs
import json
from array import array
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from lab.storable import MOST_CHARS, storable

DONE = b"[DONE]"
#: Finish reasons that mean the server gave up: of vLLM, SGLang and LMDeploy; TensorRT-LLM; DeepSeek; Z.ai.
_GAVE_UP = frozenset({"abort", "error", "cancelled", "timeout", "insufficient_system_resource", "network_error"})
_MOST_CHARS_OF_REASON, _MOST_CHARS_OF_EVENT = 100, 200
#: Fields of usage in OpenAI's chats and completions, and in its newer interface.
_COMPLETION, _PROMPT = ("completion_tokens", "output_tokens"), ("prompt_tokens", "input_tokens")
#: Fields of usage with the prompt's cached tokens (OpenAI, vLLM, SGLang and llama.cpp; Responses; DeepSeek; Moonshot;
#: gateways to Anthropic), and of llama.cpp's timings, whose older releases count only the tokens that were computed.
_CACHED = ("prompt_cache_hit_tokens", "cached_tokens", "cache_read_input_tokens")
_DETAILS, _CACHED_OF_DETAILS = ("prompt_tokens_details", "input_tokens_details"), "cached_tokens"
_CACHED_OF_TIMINGS, _COMPUTED_OF_TIMINGS = "cache_n", "prompt_n"
_PROMPT_TOKEN_IDS = b'"prompt_token_ids":['
_decode = json.JSONDecoder().raw_decode
_SPECULATION = ("num_spec_steps", "num_draft_tokens", "num_accepted_draft_tokens")
#: The same in SGLang, requested by return_spec_tokens_details. Its mean length is ignored, because engines differ in
#: what they count in it; rounds and accepted drafts are unambiguous.
_SGLANG = {
    "num_spec_steps": "spec_verify_ct",
    "num_draft_tokens": "spec_num_proposed_drafts",
    "num_accepted_draft_tokens": "spec_num_correct_drafts",
}
#: The same in llama.cpp's timings, which leave them out where nothing was drafted and have no rounds.
_LLAMA_CPP = {"num_draft_tokens": "draft_n", "num_accepted_draft_tokens": "draft_n_accepted"}
#: The same in LM Studio's stats.
_LM_STUDIO = {
    "num_draft_tokens": "total_draft_tokens_count",
    "num_accepted_draft_tokens": "accepted_draft_tokens_count",
}


#: A histogram of rounds: (tokens drafted, tokens accepted) -> rounds.
Rounds = dict[tuple[int, int], int]
#: The rounds in their order: (tokens drafted, tokens accepted).
Steps = list[tuple[int, int]]
_THINK, _THOUGHT = "<think>", "</think>"


class Answer:
    """Collects the events of one answer. Counts come from the server's `usage` only, None if missing. Texts are
    storable.
    """

    __slots__ = (
        "_cached",
        "_computed",
        "_counts",
        "_finished_s",
        "_no_chunk",
        "_reasoning_reported",
        "_texts",
        "_thought",
        "_token_ids",
        "chunk_s",
        "completion_tokens",
        "done",
        "error",
        "finish_reason",
        "last_event_s",
        "prompt_tokens",
        "resent",
        "rounds",
        "speculation",
        "steps",
        "whole",
    )

    def __init__(self) -> None:
        self.chunk_s: list[float] = []  # arrival of each event that carried output
        self._counts: list[int | None] = []  # completion tokens so far, by the server's count in each event
        self._texts: list[str] = []
        self._token_ids = array("i")  # rejects what its column cannot store
        self._thought: list[int] = []  # characters at the head of each chunk that the server says are reasoning
        self._reasoning_reported: int | None = None
        self.prompt_tokens: int | None = None
        self.completion_tokens: int | None = None
        self.finish_reason: str | None = None
        self.speculation: dict[str, int] | None = None  # by vLLM, SGLang or llama.cpp
        self.rounds: Rounds | None = None
        self.steps: Steps | None = None
        self.error: str | None = None
        self._no_chunk: str | None = None  # the first event with neither choices nor usage
        self.done = False  # [DONE] came
        self.whole = False  # the HTTP body came to the end that it announced
        self.resent = 0
        self.last_event_s: float | None = None
        self._finished_s: float | None = None  # arrival of the finish reason
        self._cached: int | None = None  # tokens of the prompt
        self._computed: int | None = None

    def take(self, t_s: float, event: bytes) -> None:
        """Parse one event that arrived at `t_s`. An unreadable event is an error of this answer, never skipped; an
        event with neither choices nor usage, as gateways add, is skipped.
        """
        if event.startswith(b":"):
            return  # a comment that a gateway wrapped as data: OpenRouter's, while it waits
        self.last_event_s = t_s
        if event == DONE:
            self.done = True
            return
        try:
            self._take(t_s, _json((event if self.chunk_s else _without_prompt(event)).decode()))
        except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError) as error:
            self._fail(f"unreadable event in the stream ({type(error).__name__}: {error}): {event[:200]!r}")

    def _take(self, t_s: float, data: dict[str, Any]) -> None:
        if data.get("error") or data.get("object") == "error":
            self._fail(f"error event in the stream: {_message(data)}")
            return
        choices = data.get("choices")
        usage = data.get("usage") or _usage_elsewhere(data, choices)
        if choices is None and not usage:
            self._no_chunk = self._no_chunk or storable(str(data), _MOST_CHARS_OF_EVENT)
        tokens = _tokens(usage, _COMPLETION) if usage else None
        for choice in (choices or [])[:1]:
            self._take_choice(t_s, choice, tokens)
        if usage:
            self._take_usage(usage, tokens)
        if timings := data.get("timings"):
            self._cached = _countable(timings, _CACHED_OF_TIMINGS) if self._cached is None else self._cached
            self._computed = _countable(timings, _COMPUTED_OF_TIMINGS)
            self._take_drafted(timings, _LLAMA_CPP)
        if stats := data.get("stats"):
            self._take_drafted(stats, _LM_STUDIO)
        if (
            self._finished_s is not None
            and not self.chunk_s
            and (self.completion_tokens, self.finish_reason) == (1, "stop")
        ):
            self._add_chunk(self._finished_s, 1, "", 0)  # the model ended at once: its only token ends the text
        if speculation := (data.get("metrics") or {}).get("speculative_decoding"):
            self.speculation = {name: _count(speculation[name]) for name in _SPECULATION if name in speculation}
            self.steps = _steps(speculation)
            self.rounds = _rounds(speculation, self.steps)
        elif details := (data.get("sglext") or {}).get("spec_tokens_details"):
            self.speculation = {ours: _count(details[name]) for ours, name in _SGLANG.items() if name in details}

    def _take_drafted(self, counts: Any, names: Mapping[str, str]) -> None:
        """Take drafted and accepted tokens if both are given: an answer without drafts gives neither."""
        drafted = {ours: _countable(counts, name) for ours, name in names.items()}
        known = {ours: tokens for ours, tokens in drafted.items() if tokens is not None}
        self.speculation = known if len(known) == len(drafted) else self.speculation

    def _take_usage(self, usage: dict[str, Any], tokens: int | None) -> None:
        """Take what is known; a later usage may leave out what an earlier one counted."""
        if (prompt := _tokens(usage, _PROMPT)) is not None:
            self.prompt_tokens = prompt
        if tokens is not None:
            self.completion_tokens = tokens
        details = usage.get("completion_tokens_details") or usage  # SGLang's are in usage itself
        if (reasoned := details.get("reasoning_tokens")) is not None:
            self._reasoning_reported = _count(reasoned)
        if (cached := _cached(usage)) is not None:
            self._cached = cached

    def _take_choice(self, t_s: float, choice: dict[str, Any], tokens: int | None) -> None:
        """Take an event's output: text, a call of a tool, or a running count that grew (half a character, say)."""
        reasoning, answer = _texts(choice)
        text = reasoning + answer
        counted = self._counts[-1] if self._counts else 0
        if text or (tokens is not None and counted is not None and tokens > counted) or _is_call(choice):
            self._add_chunk(t_s, tokens, text, len(reasoning))
            self.completion_tokens = tokens  # a count of before this output is none of the whole
        if token_ids := choice.get("token_ids"):
            self._token_ids.extend(token_ids)
        if reason := choice.get("finish_reason"):
            self.finish_reason, self._finished_s = storable(_string(reason), _MOST_CHARS_OF_REASON), t_s

    def _add_chunk(self, t_s: float, tokens: int | None, text: str, thought: int) -> None:
        self.chunk_s.append(t_s)
        self._counts.append(tokens)
        self._texts.append(text)
        self._thought.append(thought)

    def _fail(self, error: str) -> None:
        self.error = self.error or storable(error, MOST_CHARS)  # the first error explains the later ones

    @property
    def text(self) -> str:
        """Return the whole output; halves of a character from two chunks are joined."""
        return storable("".join(self._texts))

    @property
    def chunk_tokens(self) -> tuple[int, ...] | None:
        """Tokens in each chunk; None unless the server counted every chunk and their sum is its final count."""
        counts = [count for count in self._counts if count is not None]
        if len(counts) < len(self._counts) or not counts or counts[-1] != self.completion_tokens:
            return None
        tokens = tuple(after - before for before, after in zip([0, *counts], counts, strict=False))
        return tokens if min(tokens) >= 0 else None

    @property
    def cached_prompt_tokens(self) -> int | None:
        """Return how many tokens of the prompt came from a cache; None if unknown, or if they exceed the prompt."""
        if (prompt := self.prompt_tokens) is None:
            return None
        cached = prompt - self._computed if self._cached is None and self._computed is not None else self._cached
        return cached if cached is not None and 0 <= cached <= prompt else None

    @property
    def token_ids(self) -> tuple[int, ...] | None:
        """Return the output's tokens, if the server reports them. Their number is still taken from `usage`."""
        return tuple(self._token_ids) or None

    @property
    def reasoning(self) -> Reasoning:
        """The end of the reasoning, by the server's own fields, or else by the tags in the text."""
        chunks = _Chunks(self._texts, self._thought, self.chunk_s, self.chunk_tokens)
        reasoning = _reasoning(chunks, self._reasoning_reported, self.steps, self.completion_tokens)
        if not reasoning.chars:
            return reasoning
        return reasoning._replace(chars=len(storable("".join(self._texts)[: reasoning.chars])))

    def problem(self) -> str | None:
        """Return why this answer failed; None for a complete one."""
        instead = "" if self._no_chunk is None else f"; it had an event that is no part of an answer: {self._no_chunk}"
        problems = (
            (self.finish_reason is None, f"the stream ended without a finish_reason{instead}"),
            (self.finish_reason in _GAVE_UP, f"the server gave up on the request (finish_reason {self.finish_reason})"),
            (not (self.done or self.whole), "the stream ended without [DONE]"),
            (self.completion_tokens is None, "the stream gave no usage: its tokens cannot be counted"),
            (not self.chunk_s, "the stream carried no output"),
        )
        return self.error or next((text for wrong, text in problems if wrong), None)


def _without_prompt(event: bytes) -> bytes:
    """Remove the prompt's tokens, which vLLM repeats: parsing 8,000 of them delays other streams by a millisecond.

    Inside a text the quotes would be escaped, so this cannot match a text.
    """
    before, key, rest = event.partition(_PROMPT_TOKEN_IDS)
    return before + key + rest[rest.index(b"]") :] if key else event


def _json(text: str) -> Any:
    """`json.loads` for text without surrounding white space, in two thirds of the time."""
    value, end = _decode(text)
    if end != len(text):
        raise ValueError("more than one JSON value")
    return value


def _usage_elsewhere(data: dict[str, Any], choices: list[Any] | None) -> dict[str, Any] | None:
    """Return the usage from where Moonshot and Groq put it, or None."""
    if choices and (usage := choices[0].get("usage")):
        return dict(usage)
    groq = data.get("x_groq")
    return groq.get("usage") if groq else None


def _texts(choice: dict[str, Any]) -> tuple[str, str]:
    """Return the reasoning and the rest of a choice of `/v1/completions` or `/v1/chat/completions`."""
    delta = choice.get("delta")
    if delta is None:
        return "", _string(choice.get("text") or "")
    reasoning = delta.get("reasoning") or delta.get("reasoning_content") or ""
    content = delta.get("content") or delta.get("refusal") or ""
    if isinstance(content, list):
        return _texts_of_parts(content)
    return _string(reasoning), _string(content)


def _is_call(choice: dict[str, Any]) -> bool:
    """Return whether a chunk carries a part of a tool's call, which no text shows."""
    return bool((choice.get("delta") or {}).get("tool_calls"))


def _texts_of_parts(parts: list[dict[str, Any]]) -> tuple[str, str]:
    """Return the reasoning and the rest of a content in parts, as Mistral's reasoning models write it."""
    thoughts = [inner["text"] for part in parts for inner in part.get("thinking") or ()]
    return "".join(map(_string, thoughts)), "".join(_string(part.get("text") or "") for part in parts)


class Reasoning(NamedTuple):
    """Reasoning before the answer. None: unknown; `first_answer_s` is also None if no answer came. `rounds` and
    `accepted_tokens` cover the rounds that began before the answer.
    """

    tokens: int | None
    chars: int
    first_answer_s: float | None
    rounds: int | None = None
    accepted_tokens: int | None = None


class _Chunks(NamedTuple):
    """The chunks of an answer: texts, leading characters that are reasoning by the server's own fields, arrival times,
    and token counts if the server reports them.
    """

    texts: list[str]
    thought: list[int]
    times_s: list[float]
    tokens: tuple[int, ...] | None


def _reasoning(chunks: _Chunks, reported: int | None, steps: Steps | None, total: int | None) -> Reasoning:
    """Measure the reasoning. Tokens are the server's own count, or the count of the chunks before the answer. A chunk
    that ends the reasoning and begins the answer counts as reasoning; its time is the answer's first. vLLM 0.32 counts
    between the tags that the model wrote: where the template wrote the first one it reports 0.
    """
    texts = chunks.texts
    chars = _thought_chars(chunks) if any(chunks.thought) else _tagged_chars("".join(texts))
    first = _chunk_of(texts, chars)
    first_s = chunks.times_s[first] if first < len(texts) else None
    if not chars:
        hidden = None if steps is None else _before(steps, reported, total) if reported else (0, 0)
        return Reasoning(reported or 0, 0, first_s, *(hidden or ()))
    begun = first + (sum(map(len, texts[:first])) < chars)  # a chunk with both
    counted = None if chunks.tokens is None else sum(chunks.tokens[:begun])
    before = None if steps is None else _before(steps, counted or reported, total)
    return Reasoning(reported or counted, chars, first_s, *(before or ()))


def _thought_chars(chunks: _Chunks) -> int:
    """Return the number of characters before the end of the reasoning."""
    begins = next(index for index, thought in enumerate(chunks.thought) if thought)
    ends = begins
    while ends < len(chunks.texts) and chunks.thought[ends] == len(chunks.texts[ends]):
        ends += 1
    return sum(map(len, chunks.texts[:ends])) + (chunks.thought[ends] if ends < len(chunks.texts) else 0)


def _before(steps: Steps, tokens: int | None, total: int | None) -> tuple[int, int] | None:
    """Return the rounds that began within this many tokens, and the tokens that they accepted. None unless the rounds
    account for all tokens but the first, which comes with the prompt: steps without a draft are not listed. The last
    round may accept more tokens than requested.
    """
    if tokens is None or total is None:
        return None
    made, rounds, accepted_before, last = 1, 0, 0, 1
    for _, accepted in steps:
        if made < tokens:
            rounds, accepted_before = rounds + 1, accepted_before + accepted
        made, last = made + accepted + 1, accepted + 1
    return (rounds, accepted_before) if 0 <= made - total < last else None


def _tagged_chars(text: str) -> int:
    """Return the characters up to the end of the reasoning, its tag included; all of them if it does not end."""
    end = text.find(_THOUGHT)
    if end < 0:
        return len(text) if text.lstrip().startswith(_THINK) else 0
    after = end + len(_THOUGHT)
    return after + len(text[after:]) - len(text[after:].lstrip())


def _chunk_of(texts: list[str], chars: int) -> int:
    """Return the first chunk that extends beyond this many characters, or the number of chunks."""
    seen = 0
    for index, text in enumerate(texts):
        seen += len(text)
        if seen > chars:
            return index
    return len(texts)


def _steps(speculation: dict[str, Any]) -> Steps | None:
    """Return the request's rounds in their order, if they are listed."""
    if (drafted := speculation.get("per_step_drafted")) is not None:
        steps = [(_count(d), _count(a)) for d, a in zip(drafted, speculation["per_step_accepted"], strict=True)]
        _count(sum(accepted for _, accepted in steps))
        return steps
    return [] if speculation.get("num_spec_steps") == 0 else None


def _rounds(speculation: dict[str, Any], steps: Steps | None) -> Rounds | None:
    """Return the request's rounds, by a histogram for each draft length or by the list of them; None without."""
    by_length, rounds = speculation.get("acceptance_histogram_by_draft_length"), Counter[tuple[int, int]]()
    if by_length is not None:
        rows = by_length.items() if isinstance(by_length, dict) else enumerate(by_length)
        for drafted, counts in rows:
            for accepted, count in enumerate(counts):
                rounds[_count(int(drafted)), accepted] += _count(count)
    elif steps is not None:
        rounds.update(steps)
    else:
        return None
    return {cell: _count(count) for cell, count in sorted(rounds.items()) if count}


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.80} is not text")
    return value


def _tokens(usage: dict[str, Any], names: tuple[str, ...]) -> int | None:
    """Return the first count found under these names, or None."""
    return next((_count(value) for name in names if (value := usage.get(name)) is not None), None)


def _cached(usage: dict[str, Any]) -> int | None:
    """Return the prompt's cached tokens in the first form found, or None."""
    for name in _DETAILS:
        if (details := usage.get(name)) and (found := _countable(details, _CACHED_OF_DETAILS)) is not None:
            return found
    for name in _CACHED:
        if name in usage and (found := _countable(usage, name)) is not None:
            return found
    return None


def _countable(values: Any, name: str) -> int | None:
    """Return a number of tokens that no other figure needs: None if it is none."""
    try:
        return _count(values[name])
    except (TypeError, LookupError):
        return None


def _count(value: Any) -> int:
    """Validate a number of tokens, small enough for its column."""
    if type(value) is not int or not 0 <= value < 2**31:  # a truth value is no count
        raise TypeError(f"{value!r:.80} is not a number of tokens")
    return value


def _message(data: dict[str, Any]) -> str:
    error = data.get("error") or data
    return str(error.get("message") or error) if isinstance(error, dict) else str(error)


class EventReader:
    """Splits a byte stream, which TCP cuts anywhere, into the data of server-sent events.

    Lines end in LF, CRLF or CR, and a byte order mark may precede the first; several `data:` lines of one event are
    joined by LF; comments, other fields and events without data are skipped. After `error:`, a field of its own,
    llama.cpp wrote its errors until 2025.
    """

    __slots__ = ("_after_cr", "_begun", "_data", "_tail")

    def __init__(self) -> None:
        self._tail: list[bytes] = []  # of a line that has not ended; joined once, however many pieces it comes in
        self._data: list[bytes] = []
        self._after_cr = self._begun = False

    def feed(self, received: bytes) -> list[bytes]:
        """Return the events completed by these bytes, oldest first."""
        if self._after_cr or b"\r" in received:
            received = self._with_line_feeds(received)
        self._tail.append(received)
        if b"\n" not in received:
            return []
        lines = b"".join(self._tail).split(b"\n")
        if not self._begun:
            self._begun, lines[0] = True, lines[0].removeprefix(codecs.BOM_UTF8)
        self._tail = [lines.pop()]
        events = []
        for line in lines:
            if line[:5] == b"data:":
                self._data.append(line[5:].strip())
            elif not line and self._data:
                if event := b"\n".join(self._data).strip():
                    events.append(event)
                self._data = []
            elif line[:6] == b"error:":
                self._data.append(line[6:].strip())
        return events

    def _with_line_feeds(self, received: bytes) -> bytes:
        """Replace the ends of lines by LF. A CR at the end of a piece ends its line; the LF of a CRLF may follow."""
        if self._after_cr:
            received = received.removeprefix(b"\n")
        self._after_cr = received.endswith(b"\r")
        return received.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def close(self) -> list[bytes]:
        """Return the event that the server did not end with a blank line, if there is one."""
        return self.feed(b"\n\n")
