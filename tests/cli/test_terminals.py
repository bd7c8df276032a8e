"""Texts of others steer no terminal, and no console is too old for what this command prints."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import unicodedata
from collections.abc import Iterator
from dataclasses import fields, replace
from datetime import UTC, datetime

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from cli import app, follow
from cli.output import print_entries, print_error, print_json, print_literally, print_table, print_text, printable
from host.settings import Settings
from jobs import queue
from jobs.submission import check_study
from jobs.table import Job
from lab.errors import StudyError
from lab.study.parsing import study_from_dict
from tests.actors import ADMIN
from tests.cli.homes import DRAFTHOUSE, REPOSITORY, Home, home_with_databases
from tests.warehouse.runs import failed_request, run_record
from tests.warehouse.studies import ROUNDS, RunSpec, write
from tests.workers.homes import Home as WorkersHome
from warehouse.app_db.engine import open_engine
from warehouse.app_db.schema import jobs
from warehouse.bundles.run_bundle import LOG_FILE, write_bundle
from warehouse.ingest.service import ingest_all

EVIL = "\x1b]0;owned\x07\x1b]52;c;cm0gLXJmIC8=\x07\x1b[31mRED\x9b31m\x08\u202eevil\x7f\u2066\ud83d"
#: What can come into the warehouse: the border has mended its halves of characters.
STORED = EVIL.replace("\ud83d", "\N{REPLACEMENT CHARACTER}")
#: The verbs that show what others wrote.
VERBS = (
    ("jobs",),
    ("jobs", "--json"),
    ("logs", "job-1"),
    ("sql", "select study_name, error, arm from results"),
    ("sql", "select study_name, error, arm, run_id, job_id, target, engine from results"),
    ("sql", "--json", "select study_name, error, arm from results"),
    ("sql", "select chr(27) || '[31mRED', chr(155) as \"\x1b[31m\", chr(8238)"),
    ("sql", f"select '{STORED}' from nothing"),
    ("compare", "job-1"),
    ("compare", "job-1", "--json"),
    ("compare", STORED),
    ("report", "job-1"),
    ("acceptance", "job-1"),
    ("advise", "job-1"),
    ("cost", "job-1", "--price-per-hour", "1"),
    ("submit", STORED),
    ("cancel", STORED),
)


def unseen(text: str) -> str:
    return "".join(sorted({c for c in text if c not in "\n\t" and unicodedata.category(c).startswith("C")}))


@given(st.text(st.characters(), max_size=50))
def test_what_is_printable_is_seen_and_nothing_that_is_seen_changes(text: str) -> None:
    assert unseen(printable(text)) == ""
    seen = "".join(c for c in text if not unseen(c))
    assert printable(seen) == seen


@pytest.mark.parametrize("columns", [2, 7])
def test_each_way_to_print_shows_escapes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: int
) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "60")
    print_table([EVIL] * columns, [[EVIL] * columns])
    print_entries(("a", "b"), [((EVIL, EVIL), [EVIL])])
    for print_it in (print_text, print_literally, print_error):
        print_it(EVIL)
    follow._lines(Console(), iter_jobs().__next__, lambda: None, lambda _job: EVIL)
    printed = capsys.readouterr()
    ours = re.compile(r"\x1b\[[01]m")  # bold, and its end
    assert unseen(ours.sub("", printed.out)) == unseen(printed.err) == ""
    assert r"\x1b]52" in printed.out


def test_json_has_the_same_values_and_nothing_that_steers(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({EVIL: [EVIL, "café ✓"]})
    printed = capsys.readouterr().out
    assert json.loads(printed) == {EVIL: [EVIL, "café ✓"]}
    assert unseen(printed) == ""
    assert "café ✓" in printed


def iter_jobs() -> Iterator[Job]:
    """A job that is queued, and then over."""
    job = Job(**dict.fromkeys((field.name for field in fields(Job)), None))  # type: ignore[arg-type]
    yield replace(job, state="queued")
    yield replace(job, state="done")


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home in which a server, an arm and a study are called what steers a terminal."""
    home = home_with_databases(tmp_path_factory.mktemp("evil"))
    settings = Settings(home=home.folder)
    for arm, pace in (("plain", 1.0), (f"drafted {STORED}", 1.1)):
        for repeat in range(3):
            drafts = None if arm == "plain" else ROUNDS
            write(settings, RunSpec(arm, repeat, pace, drafts), job_id="job-1", study_name=f"café ✓ {STORED}")
    failed = run_record(run_id="failed", job_id="job-1", study_name=STORED, status="failed", error=STORED)
    folder = write_bundle(settings.bundles, failed, (failed_request(error=STORED),), (), None)
    (folder / LOG_FILE).write_bytes(EVIL.encode("utf-8", "surrogatepass") + b"\xff\x9b31m\n")
    study = study_from_dict(
        {
            "name": "café \x9b31m \u202e evil",
            "target": "m",
            "arms": [{"name": "a"}],
            "workloads": [{"output_tokens": 8}],
            "loads": [{"max_concurrency": 1, "num_prompts": 1}],
        }
    )
    with open_engine(settings.app_database_url) as database:
        job_id = queue._insert(database, study, 0, ADMIN)
        with database.begin() as connection:
            row = dict(connection.execute(sa.select(jobs).where(jobs.c.job_id == job_id)).mappings().one())
            ended = {"state": "failed", "error": STORED, "finished_at": datetime.now(UTC), "job_id": "job-1"}
            connection.execute(jobs.insert().values(row | ended))
    ingest_all(settings)
    return home


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: printable(" ".join(verb)[:40]))
def test_no_verb_lets_texts_of_others_reach_the_terminal(evil: Home, verb: tuple[str, ...]) -> None:
    done = evil.ask(*verb)
    assert unseen(done.stdout) == unseen(done.stderr) == ""
    assert re.search(r"\\(x1b|u001b|x9b|u202e)", done.stdout + done.stderr)  # it was to be shown


@pytest.mark.parametrize(
    ("verb", "status"),
    [
        (("compare", "job-1", "--fail-if-slower", "5%"), 0),
        (("compare", "größer ✓"), 2),
    ],
)
def test_a_console_of_ascii_gets_question_marks_and_the_right_exit_status(
    evil: Home, verb: tuple[str, ...], status: int
) -> None:
    done = subprocess.run(
        (DRAFTHOUSE, *verb),
        cwd=REPOSITORY,
        env=evil.environment | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == status, done.stderr
    assert (done.stdout + done.stderr).isascii()
    assert b"Traceback" not in done.stderr


def test_json_on_a_console_of_ascii_has_the_same_values(evil: Home) -> None:
    query = "select distinct study_name from results order by all"
    environment = evil.environment | {"PYTHONIOENCODING": "ascii"}
    command = (DRAFTHOUSE, "sql", "--json", query)
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, check=True, timeout=600)
    assert {"study_name": f"café ✓ {STORED}"} in json.loads(done.stdout)


def test_an_error_of_ours_that_quotes_others_steers_no_terminal(
    evil: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> None:
        raise ZeroDivisionError(EVIL)

    monkeypatch.setattr(app, "command_line", broken)
    with pytest.raises(SystemExit) as end:
        app.main()
    assert end.value.code == 1
    printed = capsys.readouterr().err
    assert "ZeroDivisionError" in printed
    assert unseen(printed) == ""


@pytest.mark.parametrize("character", ["\u202e", "\x9b", "\x7f", "\u200b", "\ue000"])
def test_a_study_whose_texts_hold_what_nobody_sees_is_refused(home: WorkersHome, character: str) -> None:
    text = f"one{character}two"
    study = home.study(
        name=text, arms=[{"name": text, "baseline": True}, {"name": "b", "flags": {"trap": f"{text}\n"}}]
    )
    with pytest.raises(StudyError) as refused:
        check_study(home.settings, study)
    sentence = f"it has the character U+{ord(character):04X}, which cannot be seen: remove it"
    assert refused.value.problems == [(field, sentence) for field in ("name", "arms[0].name", "arms[1].flags.trap")]


def test_the_command_prints_through_its_output_alone() -> None:
    """So nothing that others wrote goes past `printable`."""
    found = []
    for path in sorted((REPOSITORY / "cli").rglob("*.py")):
        if path.name == "output.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                if called in {"print", "sys.stdout.write", "sys.stderr.write", "typer.echo", "rich.print"}:
                    found.append(f"{path.relative_to(REPOSITORY)}:{node.lineno} {called}")
    assert found == []
