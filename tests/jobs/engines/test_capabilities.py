"""An engine reports its capabilities once per installation."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from host.settings import Settings
from jobs.engines.capabilities import Capabilities, all_capabilities, capabilities
from jobs.fleet.worker_registry import known_engines, register_worker, store_engines
from jobs.submission import check_study
from lab.errors import StudyError, UserError
from tests.workers.engine_runtime.stand_ins import PLAIN
from tests.workers.homes import Home

ANSWER = {"flags": ["max-model-len", "seed"], "methods": ["ngram", "eagle3"]}
PYTHON = """#!/bin/sh
echo asked >> {folder}/asked
echo "INFO: vLLM says what it likes"
{then}
"""


def install(folder: Path, version: str = "0.14.1", then: str = f"echo '{json.dumps(ANSWER)}'") -> None:
    """An environment with a vLLM whose Python answers at once; again is another version in its place."""
    for name in ("vllm", "python"):
        program = folder / "bin" / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(PYTHON.format(folder=folder, then=then))
        program.chmod(0o755)
    packages = folder / "lib" / "python3.11" / "site-packages"
    for old in packages.glob("*.dist-info"):
        old.rmdir()
    (packages / f"vllm-{version}.dist-info").mkdir(parents=True)


def host(folder: Path, *engines: str) -> Settings:
    """A host with these tables."""
    (folder / "engines.toml").write_text("\n".join(engines))
    return Settings(home=folder / "home", engines_file=folder / "engines.toml", engines_dir=folder)


def table(name: str, command: str = "{engines}/env/bin/vllm", more: str = "") -> str:
    return f'[{name}]\nkind = "vllm"\ncommand = ["{command}", "serve"]\n{more}'


def times_asked(folder: Path) -> int:
    return len((folder / "env" / "asked").read_text().splitlines())


def test_an_engine_is_asked_once_and_again_when_it_is_installed_anew(tmp_path: Path) -> None:
    install(tmp_path / "env")
    settings = host(tmp_path, table("vllm"))
    for _ in range(3):
        has = capabilities(settings, "vllm")
    assert (has.version, has.methods, has.flags) == ("0.14.1", ("ngram", "eagle3"), ("max-model-len", "seed"))
    assert times_asked(tmp_path) == 1
    install(tmp_path / "env", version="0.15.0")
    assert capabilities(settings, "vllm").version == "0.15.0"
    assert times_asked(tmp_path) == 2


def test_an_answer_of_before_types_were_asked_for_has_none_of_them(tmp_path: Path) -> None:
    install(tmp_path / "env")
    assert capabilities(host(tmp_path, table("vllm")), "vllm").flag_types is None
    install(tmp_path / "env", then=f"echo '{json.dumps(ANSWER | {'types': {'seed': 'integer', 'x': ['a']}})}'")
    assert capabilities(host(tmp_path, table("vllm")), "vllm").flag_types == {"seed": "integer", "x": ("a",)}


def test_two_tables_over_one_environment_are_two_engines_and_one_question(tmp_path: Path) -> None:
    install(tmp_path / "env")
    every = all_capabilities(host(tmp_path, table("vllm"), table("vllm-fp8")))
    assert [(has.engine, has.version) for has in every if has.kind == "vllm"] == [
        ("vllm", "0.14.1"),
        ("vllm-fp8", "0.14.1"),
    ]
    assert times_asked(tmp_path) == 1


def test_an_answer_that_was_damaged_on_disk_is_asked_for_again(tmp_path: Path) -> None:
    install(tmp_path / "env")
    settings = host(tmp_path, table("vllm"))
    capabilities(settings, "vllm")
    (remembered,) = (settings.home / "engines" / "capabilities").glob("*.json")
    remembered.write_text('{"flags"')
    assert capabilities(settings, "vllm").flags is None
    assert capabilities(settings, "vllm").flags is not None


@pytest.mark.parametrize("then", ["exit 1", "echo no answer"])
def test_a_silent_engine_has_its_kinds_methods_and_unknown_flags(tmp_path: Path, then: str) -> None:
    install(tmp_path / "env", then=then)
    has = capabilities(host(tmp_path, table("vllm")), "vllm")
    assert "medusa" in has.methods
    assert has.flags is None


LOUD_VLLM = """
import argparse, dataclasses, os, sys, typing
print("loading", end="")
os.write(1, b"\\r50%")
SpeculativeMethod = typing.Literal["ngram"]
FlexibleArgumentParser = argparse.ArgumentParser

@dataclasses.dataclass
class SpeculativeConfig:
    model: str = ""

def make_arg_parser(parser):
    parser.add_argument("--seed")
    print("made", end="", flush=True)
    return parser
"""


def test_what_an_engine_prints_does_not_hide_its_answer(tmp_path: Path) -> None:
    install(tmp_path / "env")
    for module in ("vllm.utils", "vllm.config", "vllm.entrypoints.openai.cli_args"):
        file = tmp_path.joinpath("loud", *module.split(".")).with_suffix(".py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(LOUD_VLLM)
    python = tmp_path / "env" / "bin" / "python"
    python.write_text(f'#!/bin/sh\nshift\nPYTHONPATH={tmp_path / "loud"} exec {sys.executable} "$@"\n')
    has = capabilities(host(tmp_path, table("vllm")), "vllm")
    assert (has.methods, has.flags, has.speculation) == (("ngram",), ("help", "seed"), ("model",))


@pytest.mark.parametrize(
    ("prints", "version"),
    [
        ("echo starting; echo 0.12.0", "0.12.0"),
        ("echo vllm 0.32.0+cpu; echo 'leaked 2 objects at shutdown'", "0.32.0+cpu"),
        ("echo v0.5.6.post2; echo", "v0.5.6.post2"),
        ("echo 1.2.0rc3", "1.2.0rc3"),
        ("echo 'there is no such image'", None),
        ("echo 'pulled 12'", None),
    ],
)
def test_an_engine_in_a_container_reports_only_its_version(tmp_path: Path, prints: str, version: str | None) -> None:
    program = tmp_path / "docker"
    program.write_text(f"#!/bin/sh\n{prints}\n")
    program.chmod(0o755)
    more = f'version_command = ["{program}", "run", "image"]'
    has = capabilities(host(tmp_path, table("vllm", str(program), more)), "vllm")
    assert (has.version, has.flags) == (version, None)


def test_an_engine_that_is_not_installed_is_left_out_or_refused(tmp_path: Path) -> None:
    settings = host(tmp_path, table("vllm"))
    assert [has.engine for has in all_capabilities(settings)] == ["endpoint"]
    with pytest.raises(UserError, match="is not installed"):
        capabilities(settings, "vllm")


def report(home: Home, *engines: Capabilities) -> None:
    """A worker on another host has reported these engines."""
    register_worker(
        home.database, "gpu-host/1", host="gpu-host", hardware="NVIDIA H200", gpus=2, is_dead=lambda _: False
    )
    store_engines(home.database, "gpu-host/1", engines)


H200 = Capabilities(
    engine="gpu-vllm",
    kind="vllm",
    version="0.32.0",
    methods=("eagle3",),
    flags=("tensor-parallel-size", "speculative-config"),
    gpus=("NVIDIA H200",) * 2,
)


def test_an_engine_of_a_worker_elsewhere_is_enough_and_judges_flags(home: Home) -> None:
    report(home, H200)
    assert known_engines(home.database) == [H200]
    head = {"method": "eagle3", "model": "/models/on/that/host", "num_speculative_tokens": 3}
    arm = {"name": "a", "engine": "gpu-vllm", "flags": {"tensor_parallel_size": 2}, "speculation": head}
    check_study(home.settings, home.study(arms=[PLAIN, arm]))
    with pytest.raises(StudyError, match=r"gpu-vllm 0\.32\.0 has no flag --tensor-parallel: did you mean"):
        check_study(home.settings, home.study(arms=[PLAIN, arm | {"flags": {"tensor_parallel": 2}}]))


def test_hardware_that_a_study_names_decides_whose_engines_count(home: Home) -> None:
    """This host has vLLM without the flag, the worker with an H200 has another vLLM with it."""
    report(home, H200.model_copy(update={"engine": "vllm"}))
    two = {"name": "a", "baseline": True, "flags": {"tensor_parallel_size": 2}}
    check_study(home.settings, home.study(arms=[two], hardware="h200"))
    with pytest.raises(StudyError, match="needs 3 GPUs"):
        check_study(home.settings, home.study(arms=[two | {"flags": {"tensor_parallel_size": 3}}], hardware="h200"))
    with pytest.raises(StudyError, match="no worker has the hardware 'B200'; workers have NVIDIA H200"):
        check_study(home.settings, home.study(arms=[two], hardware="B200"))


def test_an_engine_that_nobody_has_is_answered_with_those_that_are_here(home: Home) -> None:
    with pytest.raises(StudyError, match=r"there is no engine 'sglang' here: .* has absent, endpoint, vllm"):
        check_study(home.settings, home.study(arms=[PLAIN, {"name": "a", "engine": "sglang"}]))


def test_names_of_files_are_made_absolute_when_a_study_is_submitted(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home.folder)
    draft = {"method": "draft_model", "model": "model", "num_speculative_tokens": 3}
    study = home.study(
        target="./model",
        arms=[PLAIN, {"name": "a", "speculation": draft}],
        workloads=[{"dataset": "prompts.jsonl", "output_tokens": 8}, {"dataset": "reference", "output_tokens": 8}],
    )
    settled = check_study(home.settings.model_copy(update={"workers_elsewhere": True}), study)
    assert settled.target == str(home.folder / "model")
    assert settled.arms[1].speculation is not None
    assert settled.arms[1].speculation.model == str(home.folder / "model")
    assert [workload.dataset for workload in settled.workloads] == [str(home.folder / "prompts.jsonl"), "reference"]
