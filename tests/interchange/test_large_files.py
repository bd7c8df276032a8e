"""A large file that is one object is read in pieces, and gives what the reader of whole files gives."""

from __future__ import annotations

import json
from array import array
from dataclasses import replace
from typing import Any

import pytest

from interchange import files, json_reader
from interchange.files import ForeignFile, read_paths
from interchange.json_reader import documents
from interchange.reading import read_runs
from lab.errors import ForeignFileError
from tests.interchange.sample_files import DETAILED, SAMPLES

_TEXT = """ {"a": [], "text": "half \\ud83d\\ude00 \\u00e9 é", "empty": {}, "n": -12.5e-3, "request_rate": Infinity,
 "itls": [[0.25, 0.5], [], [1, 0.5], [null], 3], "deep": [{"x": [1, {"y": "]}"}]}, [2], "s"],
 "numbers": [1, 2.5, null, "x"], "last": true}
"""
_LENGTHS = (1, 2, 3, 50, 2**20)


def read(content: bytes, monkeypatch: pytest.MonkeyPatch, length: int) -> list[Any]:
    monkeypatch.setattr(files, "LARGE_BYTES", 0)
    monkeypatch.setattr(files, "_PIECE_BYTES", length)
    return [document.value for document in documents(ForeignFile("a", content))]


@pytest.mark.parametrize("length", _LENGTHS)
def test_finite_gaps_are_arrays_and_all_else_is_the_same(monkeypatch: pytest.MonkeyPatch, length: int) -> None:
    (value,) = read(_TEXT.encode(), monkeypatch, length)
    assert value["itls"][0] == array("d", [0.25, 0.5])
    assert [type(gaps) for gaps in value["itls"]] == [array, list, list, list, int]
    value["itls"][0] = list(value["itls"][0])
    assert value == json.loads(_TEXT)
    assert list(value) == list(json.loads(_TEXT))
    assert read('\ufeff{"a": 1}'.encode(), monkeypatch, length) == [{"a": 1}]


@pytest.mark.parametrize("length", _LENGTHS)
@pytest.mark.parametrize("text", ["[1]", "3", "{} {}", "{}", '{"itls": [[0.5]]}\n{"itls": [[0.5]]}'])
def test_what_is_not_one_object_is_read_whole(monkeypatch: pytest.MonkeyPatch, text: str, length: int) -> None:
    expected = [json.loads(part) for part in text.replace("} {", "}\n{").splitlines()]
    assert read(text.encode(), monkeypatch, length) == expected


@pytest.mark.parametrize("length", _LENGTHS)
@pytest.mark.parametrize(
    "text",
    [
        *("", "{", '{"a"', '{"a":', '{"a": [1', '{"a": [[1]', '{"a": [[1],]}', '{"a": [,[1]]}', '{"a": 1,}', "{}x"),
        *('{"a": 1, "a": 2}', "{1: 2}", '{"a" 1}', '{"a": [1 2]}', '{"a": [[1] [2]]}', '{"a": "\n"}', '{"a": "\xff"}'),
        *('{"a": [[1]}', '{"a": 1]', '{"a": tru}', '{"itls": [[1e400]]}', '{"a": "\\ud800"}'),
    ],
)  # fmt: skip
def test_damage_is_named_as_in_a_small_file(monkeypatch: pytest.MonkeyPatch, text: str, length: int) -> None:
    content = text.encode("latin-1")
    with pytest.raises(ForeignFileError) as small:
        documents(ForeignFile("a", content))
    with pytest.raises(ForeignFileError) as large:
        read(content, monkeypatch, length)
    assert str(large.value) == str(small.value)


def test_a_file_of_large_elements_is_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_reader, "_LONGEST", 100)
    (value,) = read(b'{"itls": [[0.5], [0.5]], "b": "%s"}' % (b"x" * 200), monkeypatch, 10)
    assert value["itls"] == [[0.5], [0.5]]


def test_the_runs_of_real_files_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read_runs(read_paths([SAMPLES]))
    monkeypatch.setattr(files, "LARGE_BYTES", 0)
    monkeypatch.setattr(files, "_PIECE_BYTES", 4096)
    assert replace(read_runs(read_paths([SAMPLES])), files=()) == replace(whole, files=())


@pytest.mark.parametrize("gap", ["-1.0", "1e17", '"x"', "Infinity", "true"])
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


def test_a_document_in_pieces_has_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LARGE_BYTES", 0)
    assert [document.line for document in documents(ForeignFile("a", b'\n\n{"a": 1}'))] == [3]
