"""The code in the answers of a run is run on its tests after the window, and the result is stored and published."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from host import quiet
from lab.metrics.records import RequestRecord
from tests.warehouse.asking import ask
from tests.warehouse.runs import failed_request, records, request
from tests.warehouse.sandbox.patience import patient  # noqa: F401 - a fixture
from tests.workers.homes import Home, new_home, worked
from warehouse.bundles.run_bundle import find_bundles, read_bundle
from warehouse.ingest.service import ingest_all
from workers import unit_tests
from workers.unit_tests import with_unit_tests

#: The stand-in answers with the last line of the prompt.
ASKED = {
    "def double(x):\\n    return 2 * x": 1.0,
    "def double(x):\\n    return x": 0.0,
    "import sys; sys.exit(0)  # as if it had passed": 0.0,
    "import asyncio\\ndef double(x): return 2 * x": None,
}
TESTS = "assert double(2) == 4"


@pytest.fixture
def home(tmp_path: Path, migrated: Path) -> Iterator[Home]:
    with new_home(tmp_path, migrated) as made:
        rows = [{"prompt": f"Write double.\n{line}", "expected": TESTS} for line in ASKED]
        (tmp_path / "tested.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        yield made


def test_a_run_is_scored_by_tests_before_its_bundle_is_written(home: Home) -> None:
    workload = {"dataset": str(home.folder / "tested.jsonl"), "output_tokens": 8, "score": "unit_tests"}
    job = worked(
        home,
        arms=[{"name": "plain"}],
        workloads=[workload],
        loads=[{"max_concurrency": 2, "num_prompts": len(ASKED)}],
        engine_flags={"answer-last-line": True},
    )
    assert (job.state, job.error) == ("done", None)
    (folder,) = find_bundles(home.settings.bundles)
    bundle = read_bundle(folder)
    found = {record.prompt.rpartition("\n")[2]: record.tests_passed for record in records(bundle.requests)}
    assert found == ASKED
    ingest_all(home.settings)
    rows = ask(home.settings, "select prompt, tests_passed, score from request_records")
    assert sorted(rows) == sorted((f"Write double.\n{line}", score, score) for line, score in ASKED.items())
    assert ask(home.settings, "select requests_scored, task_score from run_metrics") == [(3, pytest.approx(1 / 3))]


def test_a_run_that_is_scored_otherwise_runs_no_code(home: Home) -> None:
    workload = {"dataset": str(home.folder / "tested.jsonl"), "output_tokens": 8, "score": "contains"}
    loads = [{"max_concurrency": 2, "num_prompts": len(ASKED)}]
    worked(home, arms=[{"name": "plain"}], workloads=[workload], loads=loads, engine_flags={"answer-last-line": True})
    (folder,) = find_bundles(home.settings.bundles)
    assert {record.tests_passed for record in records(read_bundle(folder).requests)} == {None}


def passed(home: Home, *requests: RequestRecord) -> list[float | None]:
    done = asyncio.run(with_unit_tests(requests, home.settings.home, "a job"))
    return [each.tests_passed for each in done]


def test_reasoning_is_no_code_and_failed_requests_have_no_score(home: Home) -> None:
    code = "def double(x): return 2 * x"
    thought = request(output_text=f"def def{code}", reasoning_chars=7, expected=TESTS)
    others = request(index=1, output_text=code, expected=None), failed_request(index=2, expected=TESTS)
    assert passed(home, thought, *others) == [1.0, None, None]


def test_it_waits_for_windows_of_others_but_not_for_ever(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import time\ntime.sleep(0.2)\ndef double(x): return 2 * x"
    right = request(output_text=code, expected=TESTS)
    waits_s = 0.5
    monkeypatch.setattr(unit_tests, "_PATIENCE_S", waits_s)
    with quiet.announced(home.settings.home, "window", "another job"):
        began_s = time.monotonic()
        assert passed(home, right) == [1.0]
        assert time.monotonic() - began_s > waits_s
    (beside,) = quiet.beside(home.settings.home, began_s, time.monotonic(), "another job")
    assert (beside.kind, beside.what) == ("command", "unit tests of a job")
