"""One study of many arms, measured once: each arm's engine, ours or somebody else's, falls into one trap."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from lab.metrics.measure import Value, measure
from lab.validity import StudyRun, Verdict, judge
from lab.validity.evidence import Lengths
from tests.validity_for_real.expected import is_as_meant
from tests.warehouse.runs import records
from tests.workers.engine_runtime.stand_ins import worked
from tests.workers.homes import REPOSITORY, Home, new_home, program
from warehouse.bundles.run_bundle import Bundle, find_bundles, read_bundle, read_log

TOKENS, REQUESTS, STREAMS, TRIES = 32, 12, 2, 8
#: So many arms may be held up by a busy machine in a try that counts.
MAY_BE_HELD_UP = 1
NGRAM = {"method": "ngram", "num_speculative_tokens": 3}
MTP = {"method": "mtp", "num_speculative_tokens": 3}
FORCED = {"rejection_sample_method": "synthetic", "synthetic_acceptance_length": 2.0}
#: Servers that run already, each named after what it does.
THEIRS = (
    "hangs_up", "keeps_answers", "one_token", "forgets", "truncates", "holds_back", "warm_cache",
    "ends_early", "is_shared", "preempts", "reads_twice", "refuses_warm_up", "keeps_cache", "hides_counters",
    "counts_too_few", "closes_used", "warm_in_usage",
)  # fmt: skip
#: Engines that Drafthouse starts, and whose log it reads.
OURS: dict[str, dict[str, Any]] = {
    "healthy": {"baseline": True},
    "healthy draft": {"speculation": NGRAM},
    "counts_wrongly": {"flags": {"trap": "counts_wrongly"}},
    "compiles_late": {"flags": {"trap": "compiles_late"}},
    "own_sampling": {"flags": {"trap": "own_sampling"}},
    "counts_positions": {"flags": {"trap": "counts_positions"}, "speculation": NGRAM},
    "small_graphs": {"flags": {"trap": "small_graphs"}, "speculation": NGRAM},
    "forced": {"speculation": NGRAM | {"options": FORCED}},
    "requests_disagree": {"flags": {"trap": "requests_disagree"}, "speculation": NGRAM},
    "counts_the_whole": {"flags": {"trap": "counts_the_whole"}, "speculation": NGRAM},
    "drafts_nothing": {"flags": {"trap": "drafts_nothing"}, "speculation": NGRAM},
    "forbids_drafts": {"flags": {"trap": "forbids_drafts"}, "speculation": MTP},
    "lowers_budget": {"flags": {"trap": "lowers_budget"}, "speculation": NGRAM},
    "crowded": {"flags": {"trap": "crowded"}},
    "dies": {"flags": {"trap": "dies"}},
}
TABLE = """
[trapped]
kind = "vllm"
command = ["{python}", "-m", "tests.validity_for_real.server"]
[trapped.environment]
PYTHONPATH = "{repository}"
HOME_OF_TEST = "{home}"
"""


@dataclass(frozen=True)
class Judged:
    """What became of one arm."""

    bundle: Bundle
    metrics: dict[str, Value]
    verdict: Verdict

    @property
    def in_study(self) -> StudyRun:
        done = records(self.bundle.requests.completed)
        lengths = {
            each.prompt_id: Lengths(each.prompt_tokens, each.completion_tokens, len(each.output_text)) for each in done
        }
        outputs = {each.prompt_id: each.output_text for each in done}
        return StudyRun(self.bundle.run, self.metrics, outputs, lengths=lengths)


def prompts() -> list[dict[str, str]]:
    """Half as many different ones as there are requests, of 300 to 800 characters."""
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz     "))
    random = np.random.default_rng(7)
    texts = ["".join(random.choice(letters, 300 + 100 * place)) for place in range(REQUESTS // 2)]
    return [{"prompt": text, "category": "prose"} for text in (*texts, *texts)]


def arms(port: int) -> list[dict[str, Any]]:
    ours = [{"name": name, "engine": "trapped"} | arm for name, arm in OURS.items()]
    urls = {name: f"http://127.0.0.1:{port}/{name}" for name in ("none", *THEIRS)}
    theirs = [{"name": name, "engine": "endpoint", "server": {"base_url": url}} for name, url in urls.items()]
    return [*ours, *theirs]


@contextlib.contextmanager
def serving(*names: str) -> Iterator[int]:
    """Everybody else's servers, named after what they do; gives their port."""
    with program("tests.validity_for_real.servers", *names) as port:
        yield int(port)


def _measured(home: Home) -> list[dict[str, Judged]]:
    """Every arm, again while the machine holds up several, then those alone that it held up: a false alarm that has its
    reason in a check comes again.
    """
    dataset = prepared(home, prompts())
    with serving("none", *THEIRS) as port:
        baseline, *others = arms(port)
        tries = [_tried(home, dataset, [baseline, *others])]
        while len(tries) < TRIES and len(not_as_meant(tries[-1])) > MAY_BE_HELD_UP:
            tries.append(_tried(home, dataset, [baseline, *others]))
        for _ in range(TRIES):
            if held_up := [arm for arm in (baseline, *others) if not _is_as_meant(arm["name"], tries)]:
                again = [arm for arm in held_up if arm is not baseline]
                tries.append(_tried(home, dataset, [baseline, *again]))
    return tries


def not_as_meant(tried: dict[str, Judged]) -> dict[str, Verdict]:
    return {arm: judged.verdict for arm, judged in tried.items() if not is_as_meant(arm, judged.verdict)}


def _is_as_meant(arm: str, tries: list[dict[str, Judged]]) -> bool:
    return any(arm in judged and is_as_meant(arm, judged[arm].verdict) for judged in tries)


def prepared(home: Home, rows: list[dict[str, str]]) -> str:
    """Tell the home of the engine; gives the file of the prompts."""
    table = TABLE.format(python=sys.executable, repository=REPOSITORY, home=home.folder)
    with home.settings.engines_file.open("a", encoding="utf-8") as file:
        file.write(table)
    dataset = home.folder / "long.jsonl"
    dataset.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(dataset)


def _tried(home: Home, dataset: str, todo: list[dict[str, Any]]) -> dict[str, Judged]:
    every = measured_once(home, dataset, todo, [{"max_concurrency": STREAMS, "num_prompts": REQUESTS}])
    return {judged.bundle.run.arm.name: judged for judged in every}


def measured_once(
    home: Home, dataset: str, todo: list[dict[str, Any]], loads: list[dict[str, Any]], output_tokens: int = TOKENS
) -> list[Judged]:
    """Every arm under every load."""
    job = worked(home, arms=todo, workloads=[{"dataset": dataset, "output_tokens": output_tokens}], loads=loads)
    assert job.state == "done", job.error
    return judged_runs(home, job.job_id)


def judged_runs(home: Home, job_id: str) -> list[Judged]:
    """Of every bundle of a job."""
    bundles = map(read_bundle, find_bundles(home.settings.bundles))
    return [_judged(bundle) for bundle in bundles if bundle.run.job_id == job_id]


def _judged(bundle: Bundle) -> Judged:
    metrics = measure(bundle.run, bundle.requests, bundle.telemetry)
    log = read_log(bundle.folder, bundle.run)
    return Judged(bundle, metrics, judge(bundle.run, bundle.requests, bundle.telemetry, metrics, log))


@pytest.fixture(scope="package")
def tries(tmp_path_factory: pytest.TempPathFactory, migrated: Any) -> Iterator[list[dict[str, Judged]]]:
    """The arms by their names: all of them in one study, then those again that the machine held up."""
    with new_home(tmp_path_factory.mktemp("trapped"), migrated) as home:
        yield _measured(home)
        assert home.engine_processes() == []


@pytest.fixture(scope="package")
def study(tries: list[dict[str, Judged]]) -> dict[str, Judged]:
    """Every arm by its name, of the first try in which nothing held it up, else of the last one."""
    judged_arms: dict[str, Judged] = {}
    for name, judged in ((name, judged) for attempt in tries for name, judged in attempt.items()):
        if name not in judged_arms or not is_as_meant(name, judged_arms[name].verdict):
            judged_arms[name] = judged
    return judged_arms
