"""`drafthouse report`, as a person types it."""

from __future__ import annotations

import re
from pathlib import Path

from host.settings import Settings
from tests.cli.homes import Home, home_with_databases
from tests.warehouse.queries.comparing.session_study import ingest_sessions
from tests.warehouse.studies import RunSpec, write
from warehouse.ingest.service import ingest_all

_PNG = b"\x89PNG\r\n\x1a\n"


def printed_report(home: Home, *arguments: str) -> str:
    answer = home.ask("report", *arguments)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def test_it_has_the_answer_the_verdicts_the_link_and_the_provenance(studied: Home) -> None:
    text = printed_report(studied, "small")
    sentences = studied.ask("advise", "small").stdout.split("\n\n")[0].splitlines()
    assert f"**{sentences[0]}**" in text
    assert all(f"- {line}" in text for line in sentences if line.startswith("On "))
    rows = [line for line in text.splitlines() if line.startswith("| ") and "---" not in line][1:]
    assert len(rows) == 12  # three candidates, two workloads, two loads
    assert sum("▲ faster" in row for row in rows) == 8
    assert sum("= no difference" in row for row in rows) == 4
    assert re.search(r"\[Open this comparison\]\(http://\S+/compare\?job=\S+&metric=Output\+throughput\S*\)", text)
    for part in ("study small", "48 valid runs", "3 repeats a cell", "usual reading", "Drafthouse "):
        assert part in text.splitlines()[-1]
    assert "![" not in text  # a picture is a file, and none was asked for


def test_its_picture_lies_beside_the_file_and_the_text_refers_to_it(studied: Home, tmp_path: Path) -> None:
    file = tmp_path / "my report.md"
    assert printed_report(studied, "small", "--to", str(file)).strip() == f"{file} and {tmp_path / 'my report.png'}"
    assert "](my%20report.png)" in file.read_text()
    assert (tmp_path / "my report.png").read_bytes().startswith(_PNG)


def test_metric_and_reading_are_those_that_were_asked_for(studied: Home) -> None:
    text = printed_report(studied, "small", "--metric", "ttft", "--strict")
    assert text.startswith("## small: time to first token p50 against plain\n")
    assert "strict reading (Holm)" in text.splitlines()[-1]


def test_a_file_that_cannot_be_the_report_is_refused_in_a_sentence(studied: Home, tmp_path: Path) -> None:
    for file, why in (("report.html", "does not end in .md"), ("not there/report.md", "cannot be written")):
        assert why in studied.refusal("report", "small", "--to", str(tmp_path / file))


def test_a_study_of_sessions_has_a_table_by_turn(tmp_path: Path) -> None:
    home = home_with_databases(tmp_path)
    ingest_sessions(Settings(home=home.folder))
    lines = printed_report(home, "job-1").splitlines()
    began = lines.index("**Time per output token mean by turn of the session**")
    table = lines[lines.index("| --- | --- | --- | --- | --- | --- | --- |", began) + 1 :]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table[: table.index("")]]
    found = [(load, turn, verdict, length) for _, load, turn, _, _, verdict, length in rows]
    assert found == [
        ("c1-n16", "1", "▲ faster", "1.50"),
        ("c1-n16", "2", "▲ faster", "3.00"),
        ("c16-n16", "1", "▼ slower", "1.50"),
        ("c16-n16", "2", "▲ faster", "3.00"),
    ]
    assert lines[began + 2].startswith("- draft: ")


def test_a_name_writes_no_markup(tmp_path: Path) -> None:
    home = home_with_databases(tmp_path)
    settings = Settings(home=home.folder)
    for repeat in range(3):
        write(settings, RunSpec("plain", repeat), study_name="a|b <b>*bold*</b>")
        write(settings, RunSpec("same", repeat), study_name="a|b <b>*bold*</b>")
    ingest_all(settings)
    assert printed_report(home, "a|b <b>*bold*</b>").startswith(
        r"## a\|b \<b\>\*bold\*\</b\>: output throughput against plain"
    )
