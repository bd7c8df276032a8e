"""Real engines, started as seldom as the tests allow: a vLLM takes half a minute of processor time to be ready.

`home` is a whole Drafthouse, whose one study test_the_loop submits: three starts, because its worker is killed once.
What the test's own process measures are one study on vLLM (`vllm_study`, in `real_home`) and one on transformers
(`assisted_study`, in a home of its own). Each process of vLLM imports it for nine seconds of a processor, so none has
one for its worker, and only the arm whose worker is killed has one for its core. The target is that of the reference
pair before it is padded, which says the same in a tenth of the processor's time.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page

from benchmarks.processes import measured_study
from host.settings import Settings
from jobs.engines.capabilities import Capabilities, capabilities
from jobs.presets import load_preset
from lab.study import Workload
from tests.chromium import chromium
from tests.cli.homes import Home, new_home, up
from tests.jobs.datasets.rows import write_rows
from tests.workers import homes
from tests.workers.engine_runtime.stand_ins import worked
from warehouse.bundles.run_bundle import Bundle, find_bundles, read_bundle

#: As of another version, over the environment of this one; and what stands beside a real engine, without its start.
MORE_TABLES = f"""
[vllm-again]
kind = "vllm"
command = ["{{engines}}/vllm/bin/vllm", "serve"]
[vllm-again.cpu_environment]
VLLM_CPU_KVCACHE_SPACE = "1"
[stand-in]
kind = "vllm"
command = ["{sys.executable}", "-m", "{homes.STAND_IN}"]
[stand-in.environment]
PYTHONPATH = "{homes.REPOSITORY}"
"""
#: Enough for two windows of two streams.
PROMPTS, STREAMS = 12, 2
#: Its draft serves prompts of every length as well as the target does, in a hundredth of the time.
SMALL_TARGET = "reference-draft"
OWN = {"own_output_lengths": True, "output_tokens": 12}
WORKLOADS: list[dict[str, Any]] = [
    {"dataset": "reference", "category": "code", "output_tokens": 8},
    {"dataset": "random", "input_tokens": 100, "output_tokens": 8},
    {"dataset": "prefix_repetition", "prefix_tokens": 64, "num_prefixes": 2, "input_tokens": 16, "output_tokens": 8},
    {"dataset": "story", "output_tokens": 8},
    {"dataset": "summarisation_sample", "output_tokens": 8},
    {"dataset": "sharegpt_sample", **OWN},
    {"dataset": "spec_bench_sample", "output_tokens": 8},
    {"dataset": "burstgpt_sample", **OWN},
    {"dataset": "swe_bench_sample", **OWN},
    {"dataset": "mlperf_summarisation_sample", **OWN},
]
#: Of a home whose studies may ask for that.
POLICY = '[engines.vllm]\nflags = ["distributed-executor-backend"]\n'
#: An arm with a configuration, flags and an environment of its own.
FILE_ARM: dict[str, Any] = {
    "name": "file",
    "engine": "vllm-again",
    "baseline": True,
    "config": {
        "max-model-len": 1024,
        "enforce-eager": True,
        "no-enable-prefix-caching": True,
        "dtype": "float32",
        "seed": 7,
        "distributed-executor-backend": "uni",
    },
    "flags": {"max_num_seqs": 5},
    "environment": {"OMP_NUM_THREADS": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "0"},
    "speculation": {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3},
}


@dataclass(frozen=True)
class Probed:
    """A home in which an engine was asked for what it has."""

    home: homes.Home
    answer: Capabilities

    @property
    def saved(self) -> Path:
        """The engine's answers: copied into another home, they spare it the ten seconds of asking."""
        return self.home.settings.home / "engines" / "capabilities"


@pytest.fixture(scope="package")
def probed(tmp_path_factory: pytest.TempPathFactory, migrated: Path) -> Iterator[Probed]:
    """With this checkout's engines and a second table, and the reference models prepared."""
    folder = tmp_path_factory.mktemp("real")
    engines = folder / "both.toml"
    engines.write_text((homes.REPOSITORY / "engines.toml").read_text() + MORE_TABLES)
    ours = {"engines_file": engines, "engines_dir": Settings().engines_dir.absolute()}
    with homes.new_home(folder, migrated, **ours) as it:
        homes.link_reference_models(it)
        (it.settings.home / "policy.toml").write_text(POLICY)
        yield Probed(it, capabilities(it.settings, "vllm"))


@pytest.fixture(scope="package")
def real_home(probed: Probed) -> homes.Home:
    return probed.home


@pytest.fixture(scope="package")
def vllm_study(real_home: homes.Home) -> list[Bundle]:
    """Every kind of dataset on one vLLM, which was started with a configuration, in rounds with a stand-in beside it.

    The bundles are those of vLLM.
    """
    rows = [{"prompt": f"def f{n}(", "output_tokens": n + 3} for n in range(PROMPTS)]
    own = write_rows(real_home.folder / "own.jsonl", rows)
    job = worked(
        real_home,
        target=SMALL_TARGET,
        order="side_by_side",
        arms=[FILE_ARM, {"name": "beside it", "engine": "stand-in"}],
        workloads=[*WORKLOADS, {"dataset": own, **OWN}],
        loads=[{"max_concurrency": STREAMS, "num_prompts": PROMPTS}],
    )
    assert (job.state, job.error) == ("done", None)
    return [bundle for bundle in bundles_of(real_home, job.job_id) if bundle.run.arm.name == FILE_ARM["name"]]


@pytest.fixture(scope="package")
def assisted_study(tmp_path_factory: pytest.TempPathFactory, migrated: Path) -> Iterator[list[Bundle]]:
    """A preset scaled down, as `python -m benchmarks presets` runs them all: without its third arm, and with a longer
    workload in place of one of long prompts.
    """
    folder = tmp_path_factory.mktemp("assisted")
    ours = {"engines_file": homes.REPOSITORY / "engines.toml", "engines_dir": Settings().engines_dir.absolute()}
    with homes.new_home(folder, migrated, **ours) as it:
        _link_unpadded_models(it.settings.models_dir)
        yield _assisted(it)


def _link_unpadded_models(folder: Path) -> None:
    folder.mkdir()
    (folder / "target").symlink_to(homes.REPOSITORY / "models" / "target")
    for name in ("draft", "prompts"):
        (folder / name).symlink_to(Settings().models_dir.absolute() / name)


def _assisted(home: homes.Home) -> list[Bundle]:
    study = load_preset("assisted-generation", reference=True)
    changes = {"arms": study.arms[:2], "workloads": (study.workloads[0], Workload(category="code", output_tokens=24))}
    _, seconds = measured_study(home.settings, study.model_copy(update=changes))
    print(f"{study.name}: {seconds:.1f} s")
    return list(map(read_bundle, find_bundles(home.settings.bundles)))


def bundles_of(home: homes.Home, job_id: str) -> list[Bundle]:
    every = map(read_bundle, find_bundles(home.settings.bundles))
    return [bundle for bundle in every if bundle.run.job_id == job_id]


@pytest.fixture(scope="package")
def home(tmp_path_factory: pytest.TempPathFactory, probed: Probed) -> Iterator[Home]:
    """Everything up, with the reference models in place and the engines' answers known."""
    it = new_home(tmp_path_factory.mktemp("e2e"))
    shutil.copytree(probed.saved, it.folder / "engines" / "capabilities")
    _link_unpadded_models(it.folder / "models")
    (it.folder / "policy.toml").write_text(POLICY)
    with up(it):
        yield it


@pytest.fixture(scope="module")
def browser() -> Iterator[BrowserContext]:
    """Of a module, not of the session: its event loop runs in this thread, and other tests start their own there."""
    with chromium() as it:
        yield it


@pytest.fixture
def page(browser: BrowserContext) -> Iterator[Page]:
    it = browser.new_page()
    yield it
    it.close()
