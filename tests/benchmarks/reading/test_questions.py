"""The synthetic warehouse answers every question, and is the same each time."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.reading import questions, slices
from benchmarks.reading.filling import RUNS_A_JOB, Size, fill
from host.settings import Settings
from lab.errors import DrafthouseError
from tests.warehouse.asking import ask, contents

TINY = Size(jobs=1, requests_per_run=20)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    settings = Settings(home=tmp_path_factory.mktemp("made"))
    fill(settings, TINY)
    return settings


def test_it_has_the_rows_that_were_asked_for(made: Settings) -> None:
    assert (TINY.runs, TINY.requests) == (RUNS_A_JOB, 20 * RUNS_A_JOB)
    assert ask(made, "select count(*) from results where origin = 'measured'") == [(TINY.runs,)]
    assert ask(made, "select count(*), count(distinct run_id) from requests") == [(TINY.requests, TINY.runs)]
    assert ask(made, "select sum(count) from histograms where metric = 'ttft'") == [(TINY.requests,)]
    assert ask(made, "select count(*) from request_records where not is_completed or ttft_ms <= 0") == [(0,)]


def test_the_same_seed_makes_the_same_warehouse_and_another_one_another(made: Settings, tmp_path: Path) -> None:
    again, other = Settings(home=tmp_path / "again"), Settings(home=tmp_path / "other")
    fill(again, TINY)
    fill(other, Size(TINY.jobs, TINY.requests_per_run, seed=1))
    assert contents(again) == contents(made)
    assert contents(other)["recent_requests"] != contents(made)["recent_requests"]


def test_every_question_is_asked_and_timed(made: Settings) -> None:
    answered = questions.ask_all(made, 1)
    assert len(answered) > 10
    assert all(milliseconds[0] > 0 for _, milliseconds in answered)


def test_the_rivals_answers_are_ours(made: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    slices.run(made, 1, "tiny")
    printed = capsys.readouterr().out
    assert "pandas, in memory" in printed


def test_a_rival_with_another_answer_is_no_rival() -> None:
    with pytest.raises(DrafthouseError, match="by Drafthouse and 2"):
        slices._check("x", {("a",): (1.0,)}, {("a",): (2.0,)})
