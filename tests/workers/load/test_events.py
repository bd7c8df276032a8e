"""Events are complete, wherever TCP cut the stream."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from workers.load.answer import EventReader

# What a JSON text on one line can be: any bytes without line ends, and no spaces at the rim (they carry nothing).
payloads = st.lists(
    st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), min_size=1).map(
        lambda text: ("{" + text + "}").encode()
    ),
    max_size=8,
)
line_ends = st.sampled_from([b"\n", b"\r\n"])
noise = st.sampled_from([b"", b": ping\n", b": ping\n\n", b"event: chunk\n", b"id: 7\r\n", b"\n", b"retry: 1\n\n"])


def read(pieces: list[bytes]) -> list[bytes]:
    reader = EventReader()
    return [event for piece in pieces for event in reader.feed(piece)] + reader.close()


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(stream) + 1) for place in places), len(stream)]
    return [stream[start:end] for start, end in pairwise(edges)]


@given(st.data(), payloads, st.lists(st.integers(min_value=0), max_size=20))
def test_the_cuts_between_reads_do_not_matter(data: st.DataObject, events: list[bytes], places: list[int]) -> None:
    stream = b""
    for event in events:
        end = data.draw(line_ends)
        stream += data.draw(noise) + data.draw(st.sampled_from([b"data: ", b"data:"])) + event + end + end
    assert read(cut(stream, places)) == events


@given(payloads)
def test_byte_by_byte_gives_the_same_events(events: list[bytes]) -> None:
    stream = b"".join(b"data: " + event + b"\n\n" for event in events)
    assert read([bytes([byte]) for byte in stream]) == events


def test_an_event_is_given_as_soon_as_its_blank_line_is_there() -> None:
    reader = EventReader()
    assert reader.feed(b"data: a\n\ndata: b\n") == [b"a"]
    assert reader.feed(b"\n") == [b"b"]
    assert reader.close() == []


def test_several_data_lines_are_one_event() -> None:
    assert read([b"data: {\ndata: }\n\n"]) == [b"{\n}"]


def test_a_last_event_without_its_blank_line_is_not_lost() -> None:
    assert read([b"data: [DONE]"]) == [b"[DONE]"]
