"""Hypothesis strategies for requests: times in order, everything else arbitrary."""

from __future__ import annotations

from hypothesis import strategies as st

from lab.metrics.records import RequestRecord

_TEXT = st.text(st.characters(codec="utf-8"), max_size=40)
_COUNT = st.none() | st.integers(0, 2**31 - 1)


@st.composite
def request_records(draw: st.DrawFn) -> RequestRecord:
    """Draw a completed or failed request, with or without chunks and counts, and with hostile text."""
    times = sorted(draw(st.lists(st.floats(0, 1e6), min_size=4, max_size=12)))
    intended, sent, *chunks, end = times
    error = draw(st.none() | _TEXT)
    tokens = draw(st.none() | st.lists(st.integers(0, 64), min_size=len(chunks), max_size=len(chunks)).map(tuple))
    return RequestRecord(
        index=draw(st.integers(0, 2**31 - 1)),
        prompt_id=draw(_TEXT),
        category=draw(st.none() | _TEXT),
        prompt=draw(_TEXT),
        requested_output_tokens=draw(st.integers(2, 1000)),
        intended_send_s=intended,
        sent_s=draw(st.sampled_from([sent, None])) if error is not None else sent,
        first_token_s=chunks[0],
        end_s=end,
        chunk_s=tuple(chunks),
        chunk_tokens=tokens,
        prompt_tokens=draw(_COUNT),
        completion_tokens=draw(_COUNT),
        finish_reason=draw(st.none() | _TEXT),
        error=error,
        output_text=draw(_TEXT),
        spec_drafts=draw(_COUNT),
        spec_draft_tokens=draw(_COUNT),
        spec_accepted_tokens=draw(_COUNT),
        sent_prompt_tokens=draw(_COUNT),
        output_token_ids=draw(st.none() | st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=5).map(tuple)),
    )
