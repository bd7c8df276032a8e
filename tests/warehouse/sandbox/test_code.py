"""The code of answers passes its tests or not, reaches nothing outside, and has no score where that cannot be told."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.cli.homes import REPOSITORY
from tests.processes import is_gone
from tests.warehouse.ingest.processes import until
from tests.warehouse.sandbox.patience import ENOUGH_S, patient  # noqa: F401 - a fixture
from warehouse.sandbox import code_runner
from warehouse.sandbox.code_runner import scores_by_tests
from warehouse.sandbox.system_calls import CannotConfineError, confine

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the filter is Linux's")
TESTS = "assert double(2) == 4"
RIGHT = "def double(x):\n    return 2 * x\n"


def scores(*answers: str, tests: str = TESTS) -> list[float | None]:
    return asyncio.run(scores_by_tests([(answer, tests) for answer in answers], ENOUGH_S))


def test_an_answer_is_right_if_its_code_passes_the_tests() -> None:
    answers = {
        RIGHT: 1.0,
        f"Here it is:\n```python\n{RIGHT}```\n": 1.0,
        "def double(x):\n    return x\n": 0.0,
        "def double(x)": 0.0,
        "I do not know.": 0.0,
        "": 0.0,
        "\0": 0.0,
        "\ud800": 0.0,
        "(" * 100_000: 0.0,
        f"{RIGHT}if __name__ == '__main__':\n    double(int(input()))": 1.0,
        f"{RIGHT}print(input())": 0.0,
        f"import numpy\n{RIGHT}": 0.0,
        "x = 2\ndef double(x):\n    return double(x)\n": 0.0,
    }
    assert scores(*answers) == list(answers.values())


def test_what_libraries_print_is_not_taken_for_a_score(monkeypatch: pytest.MonkeyPatch) -> None:
    prints = "import os; print('1.0', flush=True); os.write(1, b'stray')"
    monkeypatch.setattr(code_runner, "_CHILD", code_runner._CHILD.replace("sys.exit(", f"{prints}; sys.exit("))
    assert scores("I do not know.", RIGHT) == [0.0, 1.0]


def test_what_answers_usually_import_and_do_works_without_any_file() -> None:
    code = """
import collections.abc, datetime, decimal, fractions, hashlib, itertools, logging, random, re, statistics, string, time
import traceback, typing, warnings
from dataclasses import dataclass
from enum import Enum
Pair = typing.NamedTuple("Pair", [("x", int)])
@dataclass(order=True)
class Of:
    x: "int" = 2
class Colour(Enum):
    RED = 1
warnings.warn("a warning")
logging.getLogger().warning("written")
try:
    1 / 0
except ZeroDivisionError:
    traceback.print_exc()
datetime.datetime.strptime("2026-01-01", "%Y-%m-%d").astimezone()
time.localtime(), time.sleep(0.01), random.random(), decimal.Decimal(1) / 3
hashlib.sha1(b"").hexdigest(), "\\d", "a\\N{BULLET}".encode("utf-16"), re.sub("a", "b", "a" * 1000)
def double(x):
    print("x" * 100_000)
    return Of().x * x
"""
    assert scores(code) == [1.0]


def test_the_same_answer_has_the_same_score_each_time() -> None:
    code = f"import random\nseen = (list(set('abcdefghij')), random.random())\n{RIGHT}"
    tests = f"{TESTS}\nassert seen[0][0] in 'abcde' and seen[1] < 0.5"
    assert len(set(scores(*[code] * 5, tests=tests))) == 1


REACHING_OUT = {
    "reads a file": "open('{kept}').read()",
    "writes a file": "open('{made}', 'w')",
    "writes by a descriptor": "import os; os.open('{made}', os.O_CREAT | os.O_WRONLY)",
    "removes a file": "import os; os.unlink('{kept}')",
    "renames a file": "import os; os.rename('{kept}', '{made}')",
    "changes a mode": "import os; os.chmod('{kept}', 0)",
    "makes a folder": "import os; os.mkdir('{made}')",
    "lists a folder": "import os; os.listdir('/')",
    "makes a socket": "import socket; socket.socket()",
    "forks": "import os; os.fork()",
    "starts a program": "import subprocess; subprocess.run(['/usr/bin/touch', '{made}'])",
    "becomes a program": "import os; os.execv('/usr/bin/touch', ['touch', '{made}'])",
    "starts a thread": "import threading; threading.Thread(target=print).start()",
    "kills its parent": "import os; os.kill(os.getppid(), 9)",
    "signals the tests": "import os; os.kill({pid}, 9)",
    "kills its group": "import os; os.killpg(0, 9)",
    "reads its parent's memory": "import ctypes; ctypes.CDLL(None).process_vm_readv({pid}, None, 0, None, 0, 0)",
    "traces its parent": "import ctypes; ctypes.CDLL(None).ptrace(16, {pid}, 0, 0)",
    "lifts its limits": "import resource; resource.setrlimit(resource.RLIMIT_CPU, (99, 99))",
    "becomes another user": "import os; os.setuid(1)",
    "calls in 32 bits": "import ctypes; ctypes.CDLL(None).syscall(0x40000000 + 2, b'{kept}', 0)",
}


def test_an_answer_that_reaches_out_is_wrong_and_nothing_happens_outside(tmp_path: Path) -> None:
    kept, made = tmp_path / "kept", tmp_path / "made"
    kept.write_text("as it was")
    codes = [code.format(kept=kept, made=made, pid=os.getpid()) for code in REACHING_OUT.values()]
    # What is right but for that, and catches what it can.
    answers = [f"{RIGHT}try:\n    {code}\nexcept BaseException:\n    pass\n" for code in codes]
    found = dict(zip(REACHING_OUT, scores(*answers), strict=True))
    del found["lifts its limits"]  # resource is not there, so nothing was called
    assert found == dict.fromkeys(found, 0.0)
    assert (kept.read_text(), kept.stat().st_mode & 0o777 != 0, made.exists()) == ("as it was", True, False)
    assert scores(*answers[:1], RIGHT) == [0.0, 1.0]  # and the next one has its score


def test_an_answer_that_ends_before_the_tests_is_wrong_whatever_it_says() -> None:
    leaving = (
        "import sys; sys.exit(0)",
        "import os; os._exit(0)",
        "raise SystemExit",
        "import os; os.write(3, b'passed')",
        "import os; os.close(3)",
    )
    assert scores(*leaving) == [0.0] * len(leaving)


def test_what_never_ends_prints_on_or_takes_memory_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        code_runner, "_CHILD", code_runner._CHILD.replace("sys.exit(", "code_child.CPU_S = 1; sys.exit(")
    )
    endless = (
        "import signal\nfor number in (14, 24, 15):\n    signal.signal(number, signal.SIG_IGN)\nwhile True:\n    pass"
    )
    assert scores(endless, "while True:\n    print('x' * 10_000)") == [0.0, 0.0]
    assert scores("held = bytearray(4 << 30)\n" + RIGHT, "import os\nos.write(3, b'x' * 10_000_000)\n" + RIGHT) == [
        0.0,
        0.0,
    ]


def test_a_missing_module_and_missing_tests_leave_no_score() -> None:
    assert scores(f"import asyncio\n{RIGHT}") == [None]
    assert scores(f"try:\n    import asyncio\nexcept ImportError:\n    pass\n{RIGHT}") == [1.0]
    assert scores(RIGHT, tests="42") == [None]
    assert scores(RIGHT, tests="assert double(") == [None]


def test_no_answers_need_no_process_and_late_ones_have_no_score() -> None:
    assert scores() == []
    assert asyncio.run(scores_by_tests([(RIGHT, TESTS)] * 2, -1.0)) == [None, None]


def _children() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def test_no_process_is_left_when_it_is_cancelled() -> None:
    before = set(_children())

    async def cancelled() -> set[psutil.Process]:
        asked = asyncio.ensure_future(scores_by_tests([("while True: pass", TESTS)], ENOUGH_S))
        while len(running := set(_children()) - before) < 2:  # noqa: ASYNC110 - no event of ours
            await asyncio.sleep(0.05)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        return running

    ran = asyncio.run(cancelled())
    until(lambda: all(map(is_gone, ran)))


#: A filter that refuses further filters, as a container's own may: seccomp fails with EPERM.
_WITHOUT_FILTERS = """
import asyncio, ctypes, platform, sys
from warehouse.sandbox import system_calls as ours
number = ours._SECCOMP[list(ours._AUDIT_ARCH).index(platform.machine())]
listed = [
    (ours._LOAD, 0, 0, ours._AT_NUMBER),
    (ours._JUMP_IF_EQUAL, 0, 1, number),
    (ours._RETURN, 0, 0, ours._REFUSE),
    (ours._RETURN, 0, 0, ours._ALLOW),
]
program = ours._Program(len(listed), (ours._Instruction * len(listed))(*(ours._Instruction(*each) for each in listed)))
libc = ctypes.CDLL(None)
libc.prctl(ours._PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
assert libc.prctl(22, 2, ctypes.byref(program), 0, 0) == 0  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
from warehouse.sandbox.code_runner import scores_by_tests
print(asyncio.run(scores_by_tests([("x = 1", "assert x == 1"), ("x = 1", "assert x == 2")], 600.0)))
"""


def test_nothing_runs_and_nothing_has_a_score_where_processes_cannot_be_confined() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_FILTERS], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "[None, None]\n", "")


def test_an_architecture_without_a_list_is_not_confined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(CannotConfineError, match="no list of system calls for linux on riscv64"):
        confine()
