"""Files of rows in every format, read as a whole or refused with the place of the first invalid row."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from jobs.datasets import files, formats
from jobs.datasets.files import DatasetFile, read_file
from lab.errors import UserError
from tests.jobs.datasets.rows import write_text

words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip)
rows_of_text = st.lists(words, min_size=1, max_size=6)


def read(path: Path) -> DatasetFile:
    return read_file(path, formats.custom_row, f"dataset {path.name}")


def read_text(text: str) -> DatasetFile:
    with TemporaryDirectory() as folder:
        return read(write_text(Path(folder) / "own", text))


@given(rows_of_text, st.sampled_from(["\n", "\n\n", " \n", "\r\n"]))
def test_json_lines_give_every_text_as_it_was(texts: list[str], between: str) -> None:
    assert [row.text for row in read_text(between.join(json.dumps({"prompt": t}) for t in texts)).rows] == texts


@given(rows_of_text, st.sampled_from([None, 1]), st.booleans())
def test_a_json_list_gives_every_text_as_it_was(texts: list[str], indent: int | None, ascii_only: bool) -> None:  # noqa: FBT001 - hypothesis gives it
    text = json.dumps([{"prompt": text} for text in texts], indent=indent, ensure_ascii=ascii_only)
    assert [row.text for row in read_text(text).rows] == texts


@given(st.lists(words, min_size=2, max_size=6), st.data())
def test_the_first_wrong_line_is_named(texts: list[str], data: st.DataObject) -> None:
    wrong = data.draw(st.integers(0, len(texts) - 1))
    lines = [json.dumps({"prompt": text}) for text in texts]
    lines[wrong] = data.draw(st.sampled_from(['{"prompt": ', "7", '{"prompt": 1}', '{"prompt": " "}', "nul", "{}"]))
    with pytest.raises(UserError, match=rf"dataset own, line {wrong + 1}: "):
        read_text("\n".join(lines))


@given(st.binary(max_size=40))
def test_any_bytes_are_rows_or_a_sentence(content: bytes) -> None:
    with TemporaryDirectory() as folder:
        (Path(folder) / "own").write_bytes(content)
        with contextlib.suppress(UserError):
            assert read(Path(folder) / "own").rows


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('{"prompt": "half', "line 2: this is not valid JSON"),
        ('{"prompt": ' + "9" * 5_000 + "}", "line 2: this is not valid JSON"),
        ("[1]", "line 2: a row must be an object like"),
        ('{"text": "a"}', "line 2: the row has no prompt"),
        ('{"prompt": "a", "messages": [{"role": "user", "content": "b"}]}', "line 2: the row has both"),
        ('{"messages": []}', "line 2: messages"),
        ('{"messages": [{"role": "robot", "content": "b"}]}', r"line 2: messages\.0\.role"),
        ('{"prompt": 7}', "line 2: prompt must be non-empty text, got '7'"),
        ('{"prompt": "  "}', "line 2: prompt must be non-empty text"),
        ('{"prompt": "a", "category": 3}', "line 2: category must be non-empty text"),
        ('{"prompt": "a", "output_tokens": 0}', "line 2: output_tokens"),
        ('{"prompt": "a", "output_tokens": 2.5}', "line 2: output_tokens"),
        ('{"prompt": "a", "arrival_s": -1}', "line 2: arrival_s"),
        ('{"prompt": "a", "arrival_s": NaN}', "line 2: arrival_s"),
        ('{"prompt": "\\ud800"}', "line 2: prompt holds half a character"),
    ],
)
def test_a_bad_row_is_named_with_its_line_and_reason(line: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        read_text('{"prompt": "good"}\n' + line + "\n")


def test_blank_lines_and_other_tools_keys_are_left_alone() -> None:
    (row,) = read_text('\ufeff\n{"prompt": "a\\u2028b", "source": 5}\n\n').rows
    assert row.text == "a\u2028b"


def test_a_parquet_file_is_read_and_a_broken_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "own.parquet"
    parquet.write_table(pa.table({"prompt": ["a", "b"], "category": ["x", None]}), path)
    assert [(row.text, row.category) for row in read(path).rows] == [("a", "x"), ("b", None)]
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(UserError, match=r"dataset own\.parquet is not a Parquet file that can be read"):
        read(path)


def test_a_small_parquet_file_with_a_gigabyte_of_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.parquet"
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 1100, pa.int32()), pa.array(["a" * 2**20]))
    parquet.write_table(pa.table({"prompt": texts}), path, compression="zstd")
    assert path.stat().st_size < 20_000
    with pytest.raises(UserError, match="row 1025: its texts have more than 1,073,741,824 characters so far"):
        read(path)


def test_a_dataset_in_another_encoding_says_so(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_bytes('{"prompt": "é"}'.encode("latin-1"))
    with pytest.raises(UserError, match="cannot be read: 'utf-8' codec"):
        read(path)


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="dataset own has no usable row"):
        read_text("\n\n")


@pytest.mark.parametrize("kind", ["device", "folder"])
def test_only_a_regular_file_is_read(tmp_path: Path, kind: str) -> None:
    """A device may have no end, and a pipe is waited for."""
    with pytest.raises(UserError, match="is not a regular file: a dataset must be one"):
        read(Path("/dev/null") if kind == "device" else tmp_path)


def test_a_file_larger_than_any_dataset_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_text(tmp_path / "own", '{"prompt": "a"}')
    monkeypatch.setattr(files, "_MOST_BYTES", path.stat().st_size - 1)
    with pytest.raises(UserError, match=r"dataset own has 0\.0 GiB: a dataset has 0 at most"):
        read(path)
