"""Files that are damaged or meant to do harm: refused with file, line or key and reason, and nothing imported."""

from __future__ import annotations

import gzip
import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest

from interchange import files as reading
from interchange import json_reader
from interchange.files import ForeignFile, read_paths
from interchange.reading import read_runs
from lab.errors import ForeignFileError
from tests.interchange.sample_files import SAMPLES

_GOOD = (SAMPLES / "vllm-bench/spec-code-c1.json").read_bytes()


def refused(content: bytes | str | object, name: str = "some.json") -> str:
    if not isinstance(content, bytes):
        content = (content if isinstance(content, str) else json.dumps(content)).encode()
    with pytest.raises(ForeignFileError) as caught:
        read_runs([ForeignFile(name, content)])
    return str(caught.value)


def guidellm_report(version: int) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((SAMPLES / "guidellm/spec-code-synchronous.json").read_text())
    report["metadata"]["version"] = version
    return report


def copied(sample: str, to: Path) -> Path:
    return Path(shutil.copytree(SAMPLES / sample, to / "copied"))


def changed(**keys: Any) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(_GOOD)
    return content | keys


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "some.json: this is an empty file, not JSON"),
        (b" \n ", "some.json: this is an empty file, not JSON"),
        (_GOOD[:2000], "some.json: line 1:"),
        (_GOOD + b'\n{"model_id":', "some.json: line 2: the file ends too early"),
        (b"not json", "some.json: this is text, not JSON: import the JSON file that the tool writes beside it"),
        (b"{not: json}", "some.json: line 1: this is not JSON (Expecting property name"),
        (b"[project]\nname = 1\n", "some.json: this is a configuration file (TOML or INI), not JSON"),
        (b"# made\nrun: 1\n", "some.json: this is YAML, not JSON"),
        (b"a,b\n1,2\n", "some.json: this is CSV, not JSON"),
        (b"a\tb\n1\t2\n", "some.json: this is TSV, not JSON"),
        (b"<html>", "some.json: this is HTML or XML, not JSON"),
        (b"\x00\x01\x02", "this is a binary file"),
        (gzip.compress(_GOOD), "this is a gzip file, not JSON: archives are never opened: unpack it"),
        (b"PK\x03\x04\x14\x00\x00\x00\x08\x00", "this is a ZIP archive, not JSON"),
        (pickle.dumps({"model_id": "x"}), "this is a pickle, not JSON: pickles are never opened"),
        (_GOOD.replace(b"reference", b"r\xe9f\xe9rence"), "line 1: this is not UTF-8"),
        (b"[" * 100_000, "nested more than 64 levels deep"),
        (b"[" * 200 + b"]" * 200, "nested more than 64 levels deep"),
        (b'{"a": 1, "b": {"c": 1, "c": 2}}', "duplicate key 'c' in one object"),
        (b'{"a": ' + b"9" * 5000 + b"}", "a number has too many digits"),
        (b'{"a": [1, Infinity]}', "a[1]: inf cannot be stored as a number"),
        (b'{"a": 1e999}', "a: inf cannot be stored as a number"),
        (b'{"a": -Infinity}', "a: -inf cannot be stored as a number"),
        (b'{"a": "\\ud800"}', "a: half a surrogate pair is not text"),
        (b'{"a": 1}', "not a supported result: its first keys are a. Supported are results of vllm-bench-serve, "),
        (b"[]", "not a supported result: it has no keys that identify it"),
        (b"null", "this is text, not JSON"),
    ],
)
def test_what_is_no_result_is_refused_with_the_reason(content: bytes, sentence: str) -> None:
    assert sentence in refused(content)


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"duration": "long"}, "some.json: duration: input should be a valid number, not 'long'"),
        ({"duration": -1.0}, "duration: input should be greater than or equal to 0, not -1.0"),
        ({"completed": True}, "completed: input should be a valid integer, not True"),
        ({"completed": 8.5}, "completed: input should be a valid integer, not 8.5"),
        (
            {"total_output_tokens": 10**30},
            "total_output_tokens: input should be less than or equal to 9007199254740992",
        ),
        ({"ttfts": {"a": 1}}, "ttfts: input should be a valid list, not an object"),
        ({"ttfts": [0.1]}, "itls: it has 8 values where ttfts has 1: the file is damaged"),
        ({"itls": [[0.1, "x"]] * 8}, "itls[0][1]: input should be a valid number, not 'x'"),
        ({"output_lens": [32.5] * 8}, "output_lens[0]: input should be a valid integer, not 32.5"),
        ({"ttfts": [-0.1] * 8}, "ttfts[0]: input should be greater than or equal to 0, not -0.1"),
        ({"model_id": "a\nb"}, "model_id: a name of one line"),
        ({"model_id": "x" * 2000}, "model_id: a name of one line"),
        ({"model_id": 7}, "model_id: input should be a valid string, not 7"),
        ({"spec_decode_acceptance_rate": 130.0}, "more tokens were accepted than drafted"),
        ({"duration": 5e-324}, "cannot be computed from its figures"),
        ({"model_id": None}, "model_id: this is missing in a result of vllm bench serve"),
    ],
)
def test_a_wrong_value_is_refused_with_its_key(keys: dict[str, Any], sentence: str) -> None:
    assert sentence in refused(changed(**keys))


def test_an_unknown_version_is_refused_with_those_that_are_supported() -> None:
    assert "metadata.version: found version 3; supported are versions 1 and 2" in refused(guidellm_report(version=3))
    summary = json.loads((SAMPLES / "aiperf/spec-code-c2/profile_export_aiperf.json").read_text())
    assert "schema_version: found 2.0; supported are 1.0 to 1.4" in refused(summary | {"schema_version": "2.0"})


def test_damaged_results_of_a_folder_are_named_and_the_rest_is_read(tmp_path: Path) -> None:
    folder = copied("aiperf/spec-code-c2", tmp_path)
    (folder / "good.json").write_bytes(_GOOD)
    (folder / "cut.json").write_bytes(_GOOD[:-5])
    (folder / "wrong.json").write_text(json.dumps(changed(duration="long")))
    (folder / "newer.json").write_text(json.dumps(guidellm_report(version=3)))
    (folder / "locked.json").mkdir()
    read = read_runs(read_paths([folder]))
    assert sorted(run.tool for run in read.runs) == ["aiperf", "vllm-bench-serve"]
    assert [sentence.rpartition("/")[2] for sentence in read.refused] == [
        "cut.json: line 1: the file ends too early",
        "newer.json: metadata.version: found version 3; supported are versions 1 and 2 of the report",
        "wrong.json: duration: input should be a valid number, not 'long'",
    ]


def test_a_damaged_half_of_a_run_leaves_the_other_half(tmp_path: Path) -> None:
    folder = copied("aiperf/spec-code-c2", tmp_path)
    with (folder / "profile_export.jsonl").open("a") as lines:
        lines.write("{")
    read = read_runs(read_paths([folder]))
    (run,) = read.runs
    assert (run.tool, run.requests, len(read.refused)) == ("aiperf", None, 1)


@pytest.mark.parametrize(
    "content", [b"[12:02:23] INFO started\n", b"[project]\nname = 'x'\n", b"{{ template }}\n", b""]
)
def test_files_that_only_begin_like_json_are_skipped_and_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "good.json").write_bytes(_GOOD)
    for number in range(25):
        (tmp_path / f"{number:02}.log").write_bytes(content)
    read = read_runs(read_paths([tmp_path]))
    assert (len(read.runs), read.refused) == (1, ())
    (skipped,) = read.skipped
    assert skipped.startswith("25 files (")
    assert skipped.endswith("19.log and 5 more")


def test_a_large_file_of_a_folder_that_is_no_result_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "good.json").write_bytes(_GOOD)
    for name, head in (("model.safetensors", b"\x00"), ("requests.json", b"{")):
        with (tmp_path / name).open("wb") as opened:
            opened.write(head)
            opened.truncate(2**29)
    read = read_runs(read_paths([tmp_path]))
    assert len(read.runs) == 1
    assert [sentence.partition("):")[0] for sentence in read.skipped] == ["2 files (a binary file"]
    (tmp_path / "requests.json").write_bytes(b'{"a": "' + b"x" * reading.LARGEST_FILE_BYTES)
    (refused,) = read_runs(read_paths([tmp_path])).refused
    assert "is more than the limit of 128 MiB per file" in refused


def test_a_folder_without_a_result_names_everything_that_cannot_be_read(tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text(json.dumps(guidellm_report(version=3)))
    (tmp_path / "notes.txt").write_text("notes")
    with pytest.raises(
        ForeignFileError, match=r"(?s)none of the 3 files has a run: .*a\.json: .*b\.json: .*notes\.txt"
    ):
        read_runs(read_paths([tmp_path]))


def test_a_file_of_a_gigabyte_is_refused_before_it_is_read(tmp_path: Path) -> None:
    large = tmp_path / "large.json"
    with large.open("wb") as opened:
        opened.truncate(2**30)
    with pytest.raises(ForeignFileError, match="1024 MiB is more than the limit of 128 MiB per file"):
        read_runs(read_paths([large]))


def test_an_upload_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LARGEST_FILE_BYTES", 100)
    with pytest.raises(ForeignFileError, match="is more than the limit of"):
        ForeignFile("large.json", _GOOD)


def test_several_files_together_are_bounded_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LARGEST_IMPORT_BYTES", len(_GOOD) + 1)
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_bytes(_GOOD)
    with pytest.raises(ForeignFileError, match="import fewer at a time"):
        read_runs(read_paths([tmp_path]))


def test_a_file_of_too_many_values_is_refused_before_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_reader, "MOST_VALUES", 1000)
    assert "values are more than the limit of 1000 per file" in refused(b"[" + b"[]," * 2000 + b"[]]")


def test_a_name_like_a_path_or_with_control_characters_is_only_shown() -> None:
    sentence = refused(b"nothing", "../../etc/\x1b[31mpasswd\n")
    assert sentence.startswith("../../etc/?[31mpasswd?: this is text, not JSON")


def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    for name in (Path("/dev/zero"), tmp_path / "missing.json"):
        with pytest.raises(ForeignFileError):
            read_runs(read_paths([name]))
    with pytest.raises(ForeignFileError, match="no file to import"):
        read_runs(read_paths([tmp_path]))


def test_links_in_a_folder_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "secret.json").write_bytes(_GOOD)
    (tmp_path / "results" / "link.json").symlink_to(tmp_path / "secret.json")
    with pytest.raises(ForeignFileError, match="no file to import"):
        read_runs(read_paths([tmp_path / "results"]))


def test_two_tools_in_one_file_are_read_and_a_stranger_refused() -> None:
    sglang = (SAMPLES / "sglang-bench-serving/spec-random64x48-c4.jsonl").read_bytes()
    assert len(read_runs([ForeignFile("both.jsonl", _GOOD + b"\n" + sglang)]).runs) == 2
    assert "line 2: not a supported result" in refused(_GOOD + b'\n{"a": 1}')


def test_a_tool_that_the_user_insists_on_is_checked() -> None:
    with pytest.raises(ForeignFileError, match="choose vllm-bench-serve or auto"):
        read_runs([ForeignFile("a.json", _GOOD)], "guidellm")
    with pytest.raises(ForeignFileError, match="no such format: excel"):
        read_runs([ForeignFile("a.json", _GOOD)], "excel")
    assert read_runs([ForeignFile("a.json", _GOOD)], "vllm-bench-serve").runs
