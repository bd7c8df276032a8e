"""The cause of a failed start, from logs of real engines (`logs/`, shortened); and which one ends its job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.study import Study
from tests.lab.studies import study
from tests.workers.homes import REPOSITORY
from workers.engine_runtime.start_failure import (
    ROWS,
    TROUBLESHOOTING,
    cause,
    error_excerpt,
    explained,
    for_every_arm,
    sentence,
)

LOGS = Path(__file__).with_name("logs")
#: By log: how its cause begins, and the row of docs/troubleshooting.md.
CAUSES = {
    "core-killed": ("a process of the engine was killed by signal 9 (SIGKILL), most likely because the host", "killed"),
    "draft-missing": (
        "ValidationError: 1 validation error for SpeculativeConfig: Invalid repository ID or local directory",
        "no-model",
    ),
    "import-fails": ("ModuleNotFoundError: No module named 'no_such_module'", "engine-import"),
    "kv-cache-too-small": (
        "ValueError: To serve at least one request with the model's max seq len (1024), (",
        "kv-cache",
    ),
    "longer-than-the-model": (
        "ValidationError: 1 validation error for ModelConfig: User-specified max_model_len (999999) is greater",
        "engine-settings",
    ),
    "method-without-a-draft": (
        "ValidationError: 1 validation error for SpeculativeConfig: num_speculative_tokens was provided but",
        "speculation-refused",
    ),
    "model-not-in-the-cache": (
        "LocalEntryNotFoundError: Cannot find an appropriate cached snapshot",
        "hub-unreachable",
    ),
    "no-room-for-kv-cache": ("ValueError: No available memory for the cache blocks.", "kv-cache"),
    "no-such-folder": ("HFValidationError: Repo id must be in the form", "no-model"),
    "port-in-use": ("OSError: [Errno 98] Address already in use", "port"),
    "scheduler-out-of-memory": ("RuntimeError: Not enough memory. Please try to increase --mem-fraction", "kv-cache"),
    "switch-with-a-value": ("vllm serve: error: argument --enforce-eager/--no-enforce-eager: ignored", "engine-flags"),
    "transformers-no-model": ("the model /srv/models/empty cannot be loaded on cpu: Unrecognized model", "no-model"),
    "unknown-flag": ("vllm: error: unrecognized arguments: --max-modellen=8", "engine-flags"),
    "unknown-method": (
        "ValidationError: 1 validation error for SpeculativeConfig: method: Input should be 'ngram', 'medusa'",
        "speculation-refused",
    ),
    "worker-import-fails": ("ModuleNotFoundError: No module named 'no_such_module'", "engine-import"),
    "worker-killed": ("Worker proc VllmWorker-0 died unexpectedly: no error of its own", "killed"),
    "wrong-value": ("vllm serve: error: argument --max-model-len: invalid human_readable_int_or_auto", "engine-flags"),
}
CHAINED = """\
Traceback (most recent call last):
  File "a.py", line 1, in load
    open(path)
FileNotFoundError: [Errno 2] No such file or directory: 'weights.bin'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "b.py", line 1, in start
    raise LoadError("cannot load") from error
LoadError: cannot load
"""
WHILE_HANDLING = CHAINED.replace(
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:",
)
MIXED = """\
(Worker_TP0 pid=1) \x1b[31mERROR\x1b[0m 11-26 10:00:00 [a.py:1] Traceback (most recent call last):
(Worker_TP1 pid=2) INFO 11-26 10:00:00 [a.py:1] Loading
(Worker_TP0 pid=1) ERROR 11-26 10:00:00 [a.py:1]   File "a.py", line 1, in load
(EngineCore_DP0 pid=3) WARNING 11-26 10:00:00 [a.py:1] Traceback (most recent call last):
(EngineCore_DP0 pid=3) WARNING 11-26 10:00:00 [a.py:1] ImportError: an optional part is missing
(Worker_TP0 pid=1) ERROR 11-26 10:00:00 [a.py:1] torch.OutOfMemoryError: CUDA out of memory.
(EngineCore_DP0 pid=3) RuntimeError: Worker failed to start, see above for the root cause
"""
GATED = "OSError: You are trying to access a gated repo.\nthe engine ended with exit status 1"
OF_TARGET = "OSError: lab/secret is not a local folder and is not a valid model identifier"
OF_DRAFT = "OSError: lab/head is not a local folder and is not a valid model identifier"
NO_MEMORY = "torch.OutOfMemoryError: CUDA out of memory\nthe engine ended with exit status 1"
PLAIN: dict[str, Any] = {"name": "plain"}
DRAFTED = {
    "name": "drafted",
    "speculation": {"method": "eagle3", "model": "lab/head", "num_speculative_tokens": 3},
}
SERVER = {"name": "theirs", "engine": "endpoint", "server": {"base_url": "http://127.0.0.1:1"}}


def of(*arms: dict[str, Any]) -> Study:
    return study(target="lab/secret", arms=[arms[0] | {"baseline": True}, *arms[1:]])


def log_of(folder: Path, text: str) -> Path:
    (folder / "log").write_text(text)
    return folder / "log"


def test_every_captured_log_has_its_cause_in_the_table() -> None:
    assert {log.stem for log in LOGS.glob("*.log")} == set(CAUSES)


@pytest.mark.parametrize("name", CAUSES)
def test_a_failed_start_is_headed_by_its_cause_and_names_the_advice(name: str) -> None:
    begins, anchor = CAUSES[name]
    first, second, *rest = explained("the engine ended with exit status 1", LOGS / f"{name}.log", status=1).splitlines()
    assert first.startswith(begins)
    assert second == f"the engine ended with exit status 1; what to do: {TROUBLESHOOTING}#{anchor}"
    assert not any(line in first for line in rest)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (CHAINED, "FileNotFoundError: [Errno 2] No such file or directory: 'weights.bin'"),
        (WHILE_HANDLING, "LoadError: cannot load"),
        (WHILE_HANDLING.replace("cannot load", "Engine core initialization failed"), "FileNotFoundError: [Errno 2]"),
        (MIXED, "OutOfMemoryError: CUDA out of memory."),
        (f"Exception ignored in: <f>\n{CHAINED[:130]}\nINFO: all is well\n", None),
        ("Fatal Python error: Segmentation fault\n", "Fatal Python error: Segmentation fault"),
        ("docker: Error response from daemon: no such image.\n", "docker: Error response from daemon: no such image."),
        ("INFO: Started server process [1]\n", None),
        ("RuntimeError: Engine core initialization failed. See root cause above.\n", None),
    ],
)
def test_the_cause_is_the_first_exception_that_wraps_no_other(tmp_path: Path, text: str, expected: str | None) -> None:
    found = cause(log_of(tmp_path, text))
    assert found == expected or (expected and found and found.startswith(expected))


@pytest.mark.parametrize(
    ("status", "sentence_"),
    [
        (
            137,
            "the engine was killed by signal 9 (SIGKILL), most likely because the host or its container had no memory",
        ),
        (
            -9,
            "the engine was killed by signal 9 (SIGKILL), most likely because the host or its container had no memory",
        ),
        (139, "the engine was killed by signal 11 (SIGSEGV)"),
        (132, "the engine was killed by signal 4 (SIGILL)"),
    ],
)
def test_an_engine_that_a_signal_ended_is_headed_by_the_signal(tmp_path: Path, status: int, sentence_: str) -> None:
    why = explained("the engine ended", log_of(tmp_path, CHAINED), status=status).splitlines()
    assert why[0].startswith(sentence_)
    assert "LoadError: cannot load" in why


def test_a_long_cause_is_cut_and_says_so(tmp_path: Path) -> None:
    found = cause(log_of(tmp_path, f"ValueError: {'x' * 900}\n"))
    assert found is not None
    assert (len(found), found[-2:]) == (500, "x…")


def test_a_log_without_a_cause_is_shown_by_its_end(tmp_path: Path) -> None:
    why = explained("the engine was not ready within 600 s", log_of(tmp_path, "INFO: loading\n"))
    assert why == (
        f"the engine was not ready within 600 s; what to do: {TROUBLESHOOTING}#slow-start; its log ends:\nINFO: loading"
    )


def test_the_excerpt_has_no_colours_and_no_names_of_processes(tmp_path: Path) -> None:
    assert error_excerpt(log_of(tmp_path, MIXED)).splitlines() == [
        "ImportError: an optional part is missing",
        "torch.OutOfMemoryError: CUDA out of memory.",
        "RuntimeError: Worker failed to start, see above for the root cause",
    ]


def test_each_row_that_a_failure_names_is_in_the_document() -> None:
    document = (REPOSITORY / TROUBLESHOOTING).read_text()
    for anchor, _ in ROWS:
        assert document.count(f'<a id="{anchor}"></a>') == 1, anchor


@pytest.mark.parametrize(
    ("of_study", "why", "hopeless"),
    [
        (of(PLAIN, DRAFTED), GATED, True),
        (of(PLAIN, DRAFTED), NO_MEMORY, True),
        (of(PLAIN, DRAFTED | {"engine": "sglang"}), GATED, True),
        (of(PLAIN, DRAFTED | {"engine": "sglang"}), NO_MEMORY, False),
        (of(DRAFTED, PLAIN), OF_TARGET, True),
        (of(DRAFTED, PLAIN), OF_DRAFT, False),
        (of(DRAFTED, PLAIN), NO_MEMORY, False),
        (of(PLAIN | {"flags": {"max_model_len": 9}}, DRAFTED), NO_MEMORY, False),
        (of(PLAIN, SERVER), GATED, False),
        (of(SERVER, PLAIN), GATED, False),
    ],
)
def test_a_first_engine_ends_the_job_if_no_other_arm_can_start(of_study: Study, why: str, *, hopeless: bool) -> None:
    assert for_every_arm(of_study, of_study.arms[0], why) is hopeless


def test_the_job_is_headed_by_the_cause() -> None:
    first, *rest = sentence(of(PLAIN, DRAFTED).arms[0], GATED).splitlines()
    assert first == (
        "no engine of this study can start; that of arm 'plain' failed: OSError: You are trying to access a gated repo."
    )
    assert rest == GATED.splitlines()[1:]
