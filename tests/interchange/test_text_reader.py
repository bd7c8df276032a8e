"""YAML, CSV and LoadGen's text of strangers: nothing hostile is built, and what is wrong is named with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from interchange.files import ForeignFile, read_paths
from interchange.reading import read_runs
from interchange.text_reader import text_documents
from lab.errors import ForeignFileError

REPORT = "version: '0.1'\n"


def value(text: str) -> object:
    return text_documents(ForeignFile("r.yaml", text.encode()), "YAML")[0].value


def test_yaml_has_the_values_of_json() -> None:
    text = "version: '0.1'\ndate: 2025-11-05T18:00:42Z\nnone: .inf\nnan: .nan\n1: on\n"
    expected = {"version": "0.1", "date": "2025-11-05T18:00:42Z", "none": None, "nan": None, "1": True}
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: &x [1]\nb: *x\n", "r.yaml: line 3: this is not YAML (aliases are not read)"),
        ("a: 1\na: 2\n", "r.yaml: line 3: this is not YAML (duplicate key 'a' in one object)"),
        ("? [1]\n: 2\n", "r.yaml: line 2: this is not YAML (a key that is no text)"),
        ("a: !!python/object/apply:os.system [ls]\n", "r.yaml: line 2: this is not YAML (could not determine"),
        ("a: [1\n", "r.yaml: line 3: this is not YAML (expected ',' or ']'"),
        ("--- 2\n", "r.yaml: line 2: this is not YAML (but found another document)"),
        ("a: " + "[" * 2000, "r.yaml: it is nested too deep"),
        ("a: " + "[" * 70 + "]" * 70, "r.yaml: a[0][0]: it is nested more than 64 levels deep"),
        ("a: " + "9" * 5000 + "\n", "r.yaml: this is not YAML (Exceeds the limit"),
        ("a: " + "x" * 2**21, "r.yaml: 2.0 MiB of YAML are more than the limit of 2: import it in parts, or as JSON"),
    ],
)
def test_yaml_that_is_not_read_says_why(text: str, sentence: str) -> None:
    with pytest.raises(ForeignFileError) as caught:
        read_runs([ForeignFile("r.yaml", (REPORT + text).encode())])
    assert str(caught.value).startswith(sentence)


def test_csv_with_another_number_of_values_names_the_line() -> None:
    text = "build_commit,model_filename,n_prompt,n_gen,avg_ts,x\na,m,1,0,2.5,1\na,m,1\n"
    with pytest.raises(ForeignFileError, match=r"r.csv: line 3: this row does not have each of the 6 columns"):
        read_runs([ForeignFile("r.csv", text.encode())])


def test_other_yaml_and_csv_in_a_folder_are_skipped_by_kind(tmp_path: Path) -> None:
    (tmp_path / "compose.yml").write_text("version: '3'\nservices: {a: &x {}, b: *x}\n")
    (tmp_path / "values.yaml").write_text("metrics:\n  enabled: true\n")
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    head = "version: '0.1'\nscenario: {load: {name: vllm-benchmark}}\nmetrics:\n"
    (tmp_path / "report.yaml").write_text(f"{head}  requests: {{total: 3}}\n  throughput: {{requests_per_sec: 1.5}}\n")
    read = read_runs(read_paths([tmp_path]))
    assert [run.metrics["request_per_s"] for run in read.runs] == [1.5]
    assert sorted(line.partition(": ")[0] for line in read.skipped) == ["1 file (CSV)", "2 files (YAML)"]
    (tmp_path / "broken.yaml").write_text(f"{head}  requests: [\n")
    assert read_runs(read_paths([tmp_path])).refused[0].endswith("broken.yaml: line 5: this is not YAML (" + _FLOW)


_FLOW = "expected the node content, but found '<stream end>')"
