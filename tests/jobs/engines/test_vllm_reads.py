"""What real vLLM's own parser reads in the commands of studies that the policy lets through: what they name alone."""

from __future__ import annotations

import itertools
import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from host.settings import Settings
from jobs.engines.profiles import Profile, whole_environment
from jobs.policy import policy_file, setting_problems
from lab.roles import Role
from lab.study import Study
from tests.workers.homes import Home
from workers.engine_runtime.launch import Command, engine_command

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]

#: Run by vLLM's Python: prints for each command what differs from `vllm serve MODEL`, or null if vLLM refuses it.
READER = """
import argparse, contextlib, dataclasses, io, json, sys, warnings
from vllm.entrypoints.cli.serve import cmd_init
from vllm.utils.argparse_utils import FlexibleArgumentParser

warnings.simplefilter("ignore")
parser = FlexibleArgumentParser()
commands = parser.add_subparsers(required=False, dest="subparser")
for command in cmd_init():
    command.subparser_init(commands)


def read(words):
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            return vars(parser.parse_args(["serve", *words]))
    except (SystemExit, Exception):
        return None


def differences(before, after, name=""):
    if dataclasses.is_dataclass(before) and type(before) is type(after):
        for field in dataclasses.fields(before):
            pair = getattr(before, field.name, None), getattr(after, field.name, None)
            yield from differences(*pair, f"{name}.{field.name}")
    elif repr(before) != repr(after):
        yield name, repr(after)


usual = read(["model"])
for line in sys.stdin:
    given = read(json.loads(line))
    told = given and {name: text for dest in usual for name, text in differences(usual[dest], given[dest], dest)}
    print("read:" + json.dumps(told), flush=True)
"""
VALUES: list[Any] = [
    *("--trust-remote-code", "--trust-remote-code=true", " --trust-remote-code", "-O3", "-tp=2", "\n--host=0.0.0.0"),
    *("1\n--host=0.0.0.0", "1 --trust-remote-code", "auto,--middleware=a.b", "\u2028--enable-lora", "@/etc/hosts"),
    *(
        '{"a": "\\u002fetc"}',
        '["\\u002fetc"]',
        '"\\u002fetc"',
        '{"mode": 0, "mode": "a.b"}',
        '{"a": NaN}',
        "{",
        "[",
        "{}",
    ),
    *('{"backend": "os.system"}', '{"mode": {"backend": "a.b"}}', "null", "None", "", "=x", "auto", "fp8", "1k", "3"),
    *(True, False, 0, 3, -1, 0.5, "/etc", "~root", "eve/model"),
]
#: What only a configuration can hold.
NESTED: list[Any] = [
    *(["1", "--trust-remote-code"], [1, 2, 4], [1, "--api-key=x"], [["--enable-lora"]], [{"a": "--enable-lora"}], []),
    *(
        {},
        {"mode": 3},
        {"backend": "os.system"},
        {"mode": {"backend": "a.b"}},
        {"a": ["--enable-lora"]},
        {"a": {"b": {}}},
    ),
]
NAMES = [
    *("enforce-eager", "max-num-batched-tokens", "dtype", "cudagraph-capture-sizes", "limit_mm_per_prompt"),
    *("compilation-config.mode", "compilation_config.cudagraph_capture_sizes", "kv-cache-dtype", "load-format"),
    *("no-enable-prefix-caching", "default-chat-template-kwargs.enable_thinking", "generation-config", "seed"),
    *(
        "trust-remote-code",
        "trust-remote",
        "trust_remote_code",
        "TRUST-REMOTE-CODE",
        "no-trust-remote-code",
        "middleware",
    ),
    *("middlew", "compilation-config", "compilation-config.backend", "compilation-config.mode.backend", "hf-overrides"),
    *("worker-extension-cls", "O", "O3", "-O3", "tp", "seed=1 --trust-remote-code", "seed --enable-lora", "config"),
    *(
        "enforce-eager.x",
        "seed=--host",
        "cudagraph-capture-sizes+",
        "compilation-config.mode+",
        "help",
        "omni",
        "",
        "-",
    ),
]
#: What the commands say of themselves.
OURS = {"subparser", "model_tag", "host", "port", "served_model_name", "generation_config"}


def attempts(home: Home) -> Iterator[tuple[str, Study]]:
    """Every name with every value in every place; a flag of another name stands behind, which none may swallow."""
    for name, value in itertools.product(NAMES, [*VALUES, *NESTED]):
        places: list[dict[str, Any]] = [{"config": {name: value}}]
        if value in VALUES:
            places += [{"flags": {name: value}}, {"flags": {name: value}, "config": {"max-logprobs": 5}}]
        for place in places:
            arm = {"name": "a", "baseline": True} | place
            arm["flags"] = place.get("flags", {}) | {"max_num_seqs": 7}
            yield name, home.study(arms=[arm])


Reader = Callable[[Command], dict[str, str] | None]


@pytest.fixture(scope="module")
def read() -> Iterator[Reader]:
    """One process, because importing vLLM takes ten seconds."""
    engines = Settings().engines_dir.absolute()
    profile = Profile(kind="vllm", command=(str(engines / "vllm" / "bin" / "vllm"),))
    python = str(engines / "vllm" / "bin" / "python")
    with subprocess.Popen(
        (python, "-c", READER),
        env=whole_environment(engines, profile, {}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        questions, answers = process.stdin, process.stdout
        assert questions is not None
        assert answers is not None

        def ask(command: Command) -> dict[str, str] | None:
            questions.write(json.dumps(command.argv[2:]) + "\n")  # what follows the stand-in's own words
            questions.flush()
            line = next(line for line in answers if line.startswith("read:"))  # vLLM prints what it likes before
            told: dict[str, str] | None = json.loads(line.removeprefix("read:"))
            return told

        yield ask
        questions.close()


def test_vllm_reads_what_an_accepted_study_names_and_nothing_else(home: Home, read: Reader) -> None:
    policy_file(home.settings).write_text("")
    refused, accepted, taken = 0, 0, 0
    for name, study in attempts(home):
        if setting_problems(home.settings, study, Role.ADMINISTRATOR):
            refused += 1
            continue
        accepted += 1
        command = engine_command(home.settings, study, study.arms[0], home.folder / "log")
        if (differs := read(command)) is not None:  # else no engine starts
            taken += 1
            _expect_what_is_named(name, study, command, differs)
    print(f"{refused} refused, {accepted} accepted, of which vLLM took {taken}")
    assert taken > 100
    assert refused > 1000


def _expect_what_is_named(name: str, study: Study, command: Command, differs: dict[str, str]) -> None:
    said = f"{study.arms[0]}: {differs}"
    named = name.replace("-", "_").removeprefix("no_")
    also = {"max_num_seqs", *(key.replace("-", "_") for key in study.arms[0].config), named.partition(".")[0]}
    own = {key: text for key, text in differs.items() if key not in OURS}
    assert not [key for key in own if key not in {named, *also} and not key.startswith(f"{named}.")], said
    assert differs["max_num_seqs"] == "7", said
    assert differs["model_tag"] == repr(study.target), said
    assert differs["served_model_name"] == repr([study.target]), said
    assert differs["host"] == "'127.0.0.1'", said
    assert differs["port"] == command.endpoint.base_url.rpartition(":")[2], said
    if named != "generation_config":
        assert differs["generation_config"] == "'vllm'", said
    assert not [text for text in own.values() if "/" in text], said


def test_a_configuration_reaches_vllm_as_its_file_would_have(home: Home, read: Reader) -> None:
    """Lists, tables, true and false of a real study; a flag of the same name would win."""
    config = {
        "kv-cache-dtype": "fp8",
        "cudagraph_capture_sizes": [1, 2, 4],
        "compilation-config": {"mode": 3, "cudagraph_mode": "NONE"},
        "enable-prefix-caching": False,
        "enforce-eager": True,
        "limit-mm-per-prompt": {"image": 2},
        "max-model-len": "2k",
        "seed": 7,
    }
    flags = {"compilation-config.mode": 0, "seed": 8}
    study = home.study(arms=[{"name": "a", "baseline": True, "config": config, "flags": flags}])
    of_config = study.model_copy(update={"arms": (study.arms[0].model_copy(update={"flags": {}}),)})
    both = (of_config, study)
    without, with_flags = (read(engine_command(home.settings, it, it.arms[0], home.folder / "log")) for it in both)
    assert without is not None
    assert with_flags is not None
    own = {key: text for key, text in without.items() if key not in OURS}
    assert {key: text for key, text in own.items() if not key.startswith("compilation_config")} == {
        "kv_cache_dtype": "'fp8'",
        "cudagraph_capture_sizes": "[1, 2, 4]",
        "enable_prefix_caching": "False",
        "enforce_eager": "True",
        "limit_mm_per_prompt": "{'image': 2}",
        "max_model_len": "2000",
        "seed": "7",
    }
    assert {"compilation_config.mode", "compilation_config.cudagraph_mode"} <= set(own)
    assert with_flags["seed"] == "8"
