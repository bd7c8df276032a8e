"""Requests as vLLM's and SGLang's clients save them: an array for each of their times (seconds) and counts."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import Field, ValidatorFunctionWrapHandler, WrapValidator

from interchange.typed_json import LARGEST, Anything, Counts, Numbers, Part, Record, all_known, either, error_text
from lab.metrics.record_table import Floats
from warehouse.bundles.imported_run import ImportedRequest


def _unless_plain(value: object, validate: ValidatorFunctionWrapHandler) -> object:
    """Validate lists of numbers, which are nearly all of a file, without a copy if all are valid."""
    if not isinstance(value, list) or all(map(_is_plain, value)):
        return value if isinstance(value, list) else validate(value)
    return validate([list(values) if isinstance(values, array) else values for values in value])


def _is_plain(values: object) -> bool:
    if isinstance(values, array):
        return bool(min(values) >= 0 and max(values) <= LARGEST)
    if not isinstance(values, list):
        return False
    return not values or bool(set(map(type, values)) == {float} and min(values) >= 0 and max(values) <= LARGEST)


class RequestArrays(Record):
    """The arrays that both clients write; each has one value per request."""

    ttfts: Numbers | None = None
    itls: Annotated[list[Numbers | None], Field(fail_fast=True), WrapValidator(_unless_plain)] | None = None
    input_lens: Counts | None = None
    output_lens: Counts | None = None
    errors: Anything | None = None
    generated_texts: Anything | None = None


class TimedArrays(RequestArrays):
    """The arrays of vLLM's client, which records when each request was sent and answered."""

    latencies: Numbers | None = either(("latencies",), ("e2els",))  # the second of TensorRT-LLM's copy of it
    start_times: Numbers | None = None


def read(part: Part, arrays: RequestArrays) -> list[ImportedRequest] | None:
    """Return the requests; None if the file has none. Raises ForeignFileError for arrays of other lengths."""
    if arrays.ttfts is None or arrays.itls is None:
        return None
    count = len(arrays.ttfts)
    kind, latencies, starts = RequestArrays, None, None
    if isinstance(arrays, TimedArrays):
        kind, latencies, starts = TimedArrays, arrays.latencies, all_known(arrays.start_times)
    _refuse_other_lengths(part, arrays, kind)
    unknown = [None] * count
    inputs, outputs = arrays.input_lens or unknown, arrays.output_lens or unknown
    texts = arrays.generated_texts or unknown
    first_s = min(starts or (), default=0.0)
    return [
        _request(
            index,
            error=_error(arrays.errors, index, arrays.ttfts[index], outputs[index]),
            sent_s=starts[index] - first_s if starts else None,
            ttft_s=arrays.ttfts[index],
            gaps_s=_gaps_s(gaps),
            latency_s=latencies[index] if latencies else None,
            lengths=(inputs[index], outputs[index]),
            text=texts[index],
        )
        for index, gaps in enumerate(arrays.itls)
    ]


def _refuse_other_lengths(part: Part, arrays: RequestArrays, kind: type[RequestArrays]) -> None:
    """Raise ForeignFileError if an array that `kind` declares does not have as many values as `ttfts`."""
    count = len(arrays.ttfts or ())
    for key in kind.model_fields:
        items = getattr(arrays, key)
        if items is not None and len(items) != count:
            raise part.error(key, f"it has {len(items)} values where ttfts has {count}: the file is damaged")


def _gaps_s(gaps: Sequence[float | None] | None) -> Floats | None:
    """Return the gaps; None if one of them is unknown."""
    if gaps is None or (not isinstance(gaps, array) and None in gaps):
        return None
    return np.asarray(gaps, dtype=np.float64)


def _request(
    index: int,
    *,
    error: str | None,
    sent_s: float | None,
    ttft_s: float | None,
    gaps_s: Floats | None,
    latency_s: float | None,
    lengths: tuple[int | None, int | None],
    text: object,
) -> ImportedRequest:
    """Build one request. For a failed request only the error and the prompt are known."""
    prompt_tokens, tokens = lengths
    if error is not None or ttft_s is None:
        return ImportedRequest(index, error or "no first token", sent_s, prompt_tokens=prompt_tokens)
    decoding_s = _decoding_s(ttft_s, gaps_s, latency_s)
    return ImportedRequest(
        index,
        sent_s=sent_s,
        ttft_ms=ttft_s * 1000,
        tpot_ms=decoding_s * 1000 / (tokens - 1) if decoding_s is not None and tokens and tokens > 1 else None,
        e2e_ms=None if decoding_s is None else (ttft_s + decoding_s) * 1000,
        chunk_gaps_ms=None if gaps_s is None else array("d", (gaps_s * 1000).tobytes()),
        prompt_tokens=prompt_tokens,
        completion_tokens=tokens,
        output_text=text if isinstance(text, str) else None,
    )


def _decoding_s(ttft_s: float, gaps_s: Floats | None, latency_s: float | None) -> float | None:
    """Return the time after the first token, from the latency if the file has it; else a TTFT of 0, which clients write
    where they timed no token, leaves it unknown.
    """
    if latency_s is not None:
        return max(latency_s - ttft_s, 0.0)
    return sum(gaps_s.tolist()) if gaps_s is not None and ttft_s else None


def _error(errors: Sequence[object] | None, index: int, ttft_s: float | None, tokens: float | None) -> str | None:
    """Return the error or None. In a file without errors, a request with neither token nor wait has failed."""
    if errors is not None:
        return error_text(errors[index], "it failed") if errors[index] else None
    return None if ttft_s or tokens else "neither a token nor a wait is recorded"
