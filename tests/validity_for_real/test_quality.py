"""An arm that answers worse is found by its scores, and one that samples otherwise by its completions."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.validity_for_real.conftest import NGRAM, TRIES, serving
from tests.validity_for_real.server import word
from tests.workers.engine_runtime.stand_ins import worked
from tests.workers.homes import Home, new_home, worker_environment
from warehouse.ingest.service import ingest_all
from warehouse.queries.comparing.comparisons import compare_study
from warehouse.queries.comparing.quality import ArmQuality, qualities
from warehouse.queries.connect import open_warehouse

pytestmark = [pytest.mark.engine, pytest.mark.timeout(5400)]

PROMPTS, COMPLETIONS, TOKENS = 160, 150, 16
LOADS = [{"max_concurrency": 8, "num_prompts": PROMPTS}]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, migrated: Path) -> Iterator[Home]:
    with new_home(tmp_path_factory.mktemp("quality"), migrated) as made:
        yield made


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving("none", "drafting", "drops_words", "samples", "samples_few") as it:
        yield it


def judged(home: Home, port: int, rows: list[dict[str, str]], names: list[str], **study: Any) -> dict[str, ArmQuality]:
    """The quality of each arm against the first one, as Compare and the command read it.

    Again where the machine held a run up: an invalid run is compared with nothing.
    """
    file = home.folder / f"{names[0]}.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    servers: dict[str, dict[str, Any]] = {
        name: {"name": name, "engine": "endpoint", "server": {"base_url": f"http://127.0.0.1:{port}/{name}"}}
        for name in names
    }
    servers[names[0]]["baseline"] = True
    for name in names[1:]:
        servers[name]["speculation"] = NGRAM
    workload = {"dataset": str(file), "output_tokens": TOKENS, "score": "contains"} | study.pop("workload", {})
    for _ in range(TRIES):
        job = worked(home, arms=list(servers.values()), workloads=[workload], **study)
        assert (job.state, job.error) == ("done", None)
        ingest_all(home.settings)
        with open_warehouse(home.settings.warehouse_file) as con:
            found = {each.arm: each for each in qualities(con, compare_study(con, job.job_id))}
            query = "select arm, why_invalid from results where job_id = ? and not is_valid"
            invalid = con.execute(query, [job.job_id]).fetchall()
        if not invalid:
            break
        print(f"held up: {invalid}")
    assert found.keys() == set(names[1:]), invalid
    return found


def test_a_draft_that_loses_words_is_worse_an_honest_one_not(home: Home, port: int) -> None:
    texts = [f"Prompt {number}: go on." for number in range(PROMPTS)]
    rows = [{"prompt": text, "category": "count", "expected": word(text, TOKENS - 2).strip()} for text in texts]
    found = judged(home, port, rows, ["none", "drafting", "drops_words"], loads=LOADS)
    honest, lossy = found["drafting"].quality, found["drops_words"].quality
    assert honest is not None
    assert lossy is not None
    assert (honest.word, honest.candidate, honest.prompts) == ("not worse", 1.0, PROMPTS)
    assert lossy.word == "worse"
    assert 0.8 < lossy.candidate < 0.95
    assert found["drafting"].distribution is None  # greedy: nothing is sampled
    command = (str(Path(sys.executable).with_name("drafthouse")), "compare", home.runs()[-1].job_id)
    printed = subprocess.run(command, env=worker_environment(home), capture_output=True, text=True, check=False).stdout
    assert "quality of drops_words on " in printed
    assert ": worse: score " in printed


def test_completions_of_one_prompt_show_a_sampler_without_rare_words(home: Home, port: int) -> None:
    rows = [{"prompt": "Draw a word.", "category": "draw"}] * COMPLETIONS
    study = {
        "loads": [{"max_concurrency": 8, "num_prompts": COMPLETIONS}],
        "sampling": {"temperature": 1.0},
        "workload": {"output_tokens": 2, "score": None},
    }
    lossy = judged(home, port, rows, ["samples", "samples_few"], **study)["samples_few"].distribution
    assert lossy is not None
    assert (lossy.baseline, lossy.candidate, lossy.differs) == (COMPLETIONS, COMPLETIONS, True)
    assert 0 < lossy.power <= 1
