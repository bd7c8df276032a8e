"""What other tools' files tell is judged, compared and priced as far as they tell it, and else a sentence."""

from __future__ import annotations

import json

import pytest

from tests.cli.homes import Home, home_with_databases
from tests.interchange.sample_files import SAMPLES

VERBS = (
    ("compare",),
    ("compare", "--table"),
    ("compare", "--metric", "acceptance"),
    ("compare", "--metric", "cost", "--price-per-hour", "3.5"),
    ("acceptance",),
    ("advise",),
    ("report",),
    ("cost", "--price-per-hour", "3.5"),
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> tuple[Home, list[str]]:
    """With every sample of every tool."""
    made = home_with_databases(tmp_path_factory.mktemp("imports"))
    for folder in sorted(path for path in SAMPLES.iterdir() if path.is_dir()):
        answer = made.ask("import", str(folder))
        assert answer.returncode == 0, (folder, answer.stderr)
    jobs = json.loads(made.ask("sql", "select distinct job_id from results where origin = 'imported'", "--json").stdout)
    return made, [row["job_id"] for row in jobs]


@pytest.mark.parametrize("verb", VERBS, ids=[" ".join(verb) for verb in VERBS])
def test_every_verb_answers_or_says_in_a_sentence_why_it_cannot(
    home: tuple[Home, list[str]], verb: tuple[str, ...]
) -> None:
    made, jobs = home
    assert len(jobs) > 5
    for job_id in jobs:
        answer = made.ask(verb[0], job_id, *verb[1:])
        assert answer.returncode in (0, 2), (job_id, answer)
        assert (answer.returncode == 2) == answer.stderr.startswith("drafthouse: ")
