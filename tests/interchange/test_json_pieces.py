"""A large file is read in pieces, and gives what the reader of whole files gives."""

from __future__ import annotations

import json
from array import array
from dataclasses import replace
from typing import Any

import pytest

from interchange import files, json_pieces
from interchange.files import ForeignFile, read_paths
from interchange.json_pieces import read_in_pieces
from interchange.json_reader import documents
from interchange.store import read_runs
from lab.errors import ForeignFileError
from tests.interchange.sample_files import DETAILED, SAMPLES

_TEXT = """ {"a": [], "text": "half \\ud83d\\ude00 \\u00e9 é", "empty": {}, "n": -12.5e-3, "rate": Infinity,
 "itls": [[0.25, 0.5], [], [1, 0.5], [null], 3, [1e400]], "deep": [{"x": [1, {"y": "]}"}]}, [2], "s"],
 "numbers": [1, 2.5, null, "x"], "last": true}
"""


_LENGTHS = (1, 2, 3, 50, 2**20)


def read(text: str | bytes, length: int) -> Any:
    content = text if isinstance(text, bytes) else text.encode()
    pieces = (content[start : start + length] for start in range(0, len(content), length))
    return read_in_pieces(pieces, json.JSONDecoder())


@pytest.mark.parametrize("length", _LENGTHS)
def test_pieces_of_any_length_give_the_same_value_with_arrays_for_lists_of_finite_gaps(length: int) -> None:
    value = read(_TEXT, length)
    assert value["itls"][0] == array("d", [0.25, 0.5])
    assert [type(gaps) for gaps in value["itls"]] == [array, list, list, list, int, list]
    value["itls"][0] = list(value["itls"][0])
    assert value == json.loads(_TEXT)
    assert list(value) == list(json.loads(_TEXT))
    assert read('\ufeff{"a": 1}', length) == {"a": 1}


@pytest.mark.parametrize("length", _LENGTHS)
@pytest.mark.parametrize(
    "text",
    [
        *("", "[1]", "3", "{} {}", "{", '{"a"', '{"a":', '{"a": [1', '{"a": [[1]', '{"a": [[1],]}', '{"a": [,[1]]}'),
        *('{"a": 1,}', '{"a": 1, "a": 2}', "{1: 2}", '{"a" 1}', '{"a": [1 2]}', '{"a": [[1] [2]]}', '{"a": "\n"}'),
        *('{"a": [[1]}', '{"a": 1]', '{"a": tru}', "{}x"),
    ],
)  # fmt: skip
def test_all_else_is_left_to_the_reader_of_whole_files(text: str, length: int) -> None:
    assert read(text, length) is None


def test_a_file_of_large_elements_or_bytes_that_are_no_text_is_left_to_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_pieces, "_LONGEST", 100)
    assert read('{"a": [[1], [2]], "b": "%s"}' % ("x" * 200), 10) is None
    assert read(b'{"a": "\xff"}', 10) is None


def test_the_runs_of_real_files_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read_runs(read_paths([SAMPLES]))
    monkeypatch.setattr(files, "LARGE_BYTES", 0)
    monkeypatch.setattr(files, "_PIECE_BYTES", 4096)
    assert replace(read_runs(read_paths([SAMPLES])), files=()) == replace(whole, files=())


@pytest.mark.parametrize("gap", ["-1.0", "1e17", '"x"', "NaN", "true"])
def test_a_wrong_gap_is_named_in_the_same_words(monkeypatch: pytest.MonkeyPatch, gap: str) -> None:
    content = json.loads(DETAILED.read_text())
    content["itls"][1] = [0.5, "wrong"]
    file = ForeignFile("result.json", json.dumps(content).replace('"wrong"', gap).encode())
    with pytest.raises(ForeignFileError) as whole:
        read_runs([file])
    monkeypatch.setattr(files, "LARGE_BYTES", 0)
    with pytest.raises(ForeignFileError) as in_pieces:
        read_runs([file])
    assert str(in_pieces.value) == str(whole.value)
    assert "itls[1][1]" in str(whole.value)


def test_a_document_in_pieces_knows_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LARGE_BYTES", 0)
    assert [document.line for document in documents(ForeignFile("a", b'\n\n{"a": 1}'))] == [3]
