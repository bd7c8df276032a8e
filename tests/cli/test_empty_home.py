"""Every verb works in a home that was never set up: with an answer, or with a sentence that says what is missing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cli.app import VERBS
from tests.cli.homes import REPOSITORY, new_home
from tests.interchange.sample_files import APPENDED
from warehouse.app_db import engine
from warehouse.ingest import publication

#: What each verb prints there: on standard output with exit status 0, or the error with status 2.
ANSWERS = {
    ("presets",): "friday-night",
    ("datasets",): "spec_bench",
    ("datasets", "add", "spec_bench", str(REPOSITORY / "datasets" / "spec_bench_sample.jsonl")): "24 prompts",
    ("plan", "demo"): "target: the model 'reference' is not prepared yet",
    ("jobs",): "No jobs yet.",
    ("study", "list"): "No study was named",
    ("workers",): "No worker has registered yet",
    ("cancel", "nothing"): "no job 'nothing'",
    ("retry", "nothing"): "no job 'nothing'",
    ("priority", "nothing", "1"): "no job 'nothing'",
    ("logs", "nothing"): "",
    ("compare", "nothing"): "no results of 'nothing'",
    ("gate", "nothing", "--against", "nightly"): "there is no series 'nightly': the series are none",
    ("series", "check"): "No alarm is open.",
    ("bisect", "a", "--good", "1", "--bad", "2", "--over", "vllm versions"): "there is no series a",
    ("acceptance", "nothing"): "no results of 'nothing'",
    ("advise", "nothing"): "no results of 'nothing'",
    ("report", "nothing"): "no results of 'nothing'",
    ("tune", "nothing"): "no results of 'nothing'",
    ("cost", "nothing"): "no results of 'nothing'",
    ("prices",): "The price book is empty",
    ("user", "list"): "There are no users yet",
    ("token", "list"): "There are no tokens yet",
    ("user", "add", "ada", "--role", "administrator"): "ada is an administrator of this lab.",
    ("prices", "add", "H200", "--per-hour", "3.5", "--source", "a list"): "price 1: H200 at 3.5 USD",
    ("checks",): "what to do",
    ("sql", "select count(*) as runs from results where origin = 'measured'"): "0",
    ("import", str(APPENDED)): "2 of 2 runs are new",
    ("export", "nothing", "--to", "nowhere.csv"): "nothing",
    ("published",): "friday-night-2025-12",
    ("archive", "--older-than", "90d"): "has requests in the warehouse's file",
    ("migrate",): "are up to date",
    ("rebuild",): "rebuilt",
}
#: Tried elsewhere: they start services, ask engines, or measure.
NOT_HERE = {
    "up",
    "demo",
    "install",
    "kit",
    "verify",
    "neighbours",
    "worker",
    "ingester",
    "web",
    "doctor",
    "submit",
    "replicate",
    "pull",
}


@pytest.fixture
def _migrations_copied(migrated: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The databases of a home's first use are copies of what the migrations made once: each takes half a second."""

    def copy_databases(home: Path, _master: Path, published: Path) -> None:
        if not published.exists():
            shutil.copytree(migrated, home, dirs_exist_ok=True)

    monkeypatch.setattr(engine, "migrate_app", lambda _url: None)
    monkeypatch.setattr(publication, "migrate_master", copy_databases)


@pytest.mark.usefixtures("_migrations_copied")
@pytest.mark.parametrize("arguments", ANSWERS, ids=lambda arguments: " ".join(arguments[:2]))
def test_a_verb_answers_in_an_empty_home(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    answer = new_home(tmp_path / "home").ask(*arguments)
    assert answer.returncode in {0, 2}, answer
    assert ANSWERS[arguments] in (answer.stdout if answer.returncode == 0 else answer.stderr)
    assert "drafthouse migrate" not in answer.stdout + answer.stderr


def test_every_verb_is_tried() -> None:
    assert {arguments[0] for arguments in ANSWERS} == set(VERBS) - NOT_HERE


def test_a_study_is_queued_in_an_empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "engines.toml").write_text(
        '[vllm]\nkind = "vllm"\ncommand = ["true"]\n'
    )  # none that takes seconds to ask
    monkeypatch.setenv("DRAFTHOUSE_ENGINES_FILE", str(tmp_path / "engines.toml"))
    monkeypatch.setenv("DRAFTHOUSE_WORKERS_ELSEWHERE", "true")
    home = new_home(tmp_path / "home")
    assert "is queued" in home.ask("submit", "demo").stdout
    assert "is queued" in home.ask("replicate", "friday-night-2025-12").stdout
