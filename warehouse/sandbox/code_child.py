"""The process that runs the code of answers on tests, see `warehouse.sandbox.code_runner`.

It reads a JSON object a line, `{"answer": ..., "expected": ...}`, and writes the score of each: 1.0, 0.0 or null. Each
runs in a child that confines itself first (`warehouse.sandbox.system_calls`) and writes a random token to a pipe after
the last test: only that counts, and no exit status, because an answer may end its process before the tests. Nothing
can be opened by then, so the modules that answers use are imported here, before there is any answer.

An answer that looks for the token in its own process, or whose values are equal to everything, passes tests that it
should not: it shares a process with them. That makes a score wrong and nothing else.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import linecache
import os
import random
import resource
import select
import signal
import sys
import time
import types
import warnings
from dataclasses import dataclass
from importlib.machinery import BuiltinImporter, ModuleSpec
from pathlib import Path

from lab.quality.code_answers import compiles, has_tests, head_and_tests, sources
from warehouse.sandbox.limits import end_with, forbid_opening, limit_memory, set_limit
from warehouse.sandbox.system_calls import confine

#: Processor time of one answer with its tests, and how much longer it may take where others use the processors.
CPU_S, _ELAPSED_S = 5, 30.0
_ENDS_WITHIN_S = 1.0
MEMORY_MIB = 512
#: Modules of the standard library that answers use, and some whose use is never right. An answer that fails and tried
#: to import another one has no score.
_PRELOADED = """
    __future__ abc array ast base64 binascii bisect calendar cmath codecs collections collections.abc colorsys
    contextlib contextvars copy copyreg csv dataclasses datetime decimal difflib doctest enum errno fnmatch
    fractions functools gc hashlib heapq hmac html html.parser inspect io itertools json keyword locale
    logging math numbers operator os os.path pathlib pickle platform posixpath pprint queue random re reprlib
    secrets shlex shutil signal socket statistics string struct subprocess sys tempfile textwrap threading
    time timeit token tokenize traceback types typing unicodedata unittest urllib.parse uuid warnings weakref
    xml.etree.ElementTree zlib _strptime _decimal encodings.ascii encodings.idna encodings.latin_1
    encodings.utf_16 encodings.utf_32 encodings.raw_unicode_escape encodings.unicode_escape encodings.cp1252
    encodings.cp437
"""
#: What a child writes if it could not confine itself, and if something is missing that is not the answer's fault.
_UNCONFINED, _MISSING = b"!", b"?"
_MOST_BYTES = 4096
_PIPE = 3


@dataclass(frozen=True)
class _Ending:
    """How a child ended. `killed_by` is the signal, 0 if there was none."""

    passed: bool
    unknown: bool
    killed_by: int

    @property
    def score(self) -> float | None:
        return 1.0 if self.passed else None if self.unknown else 0.0


class _OnlyPreloaded:
    """Finds no module: one of the standard library is missing here, and not in the answer."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG004
        if name.partition(".")[0] in sys.stdlib_module_names:
            os.write(_PIPE, _MISSING)
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def main(parent: int, output: int) -> int:
    """Answer each line of standard input until it ends, on the descriptor `output`.

    Where children cannot be confined, nothing has a score.
    """
    end_with(parent)
    _preload()
    confines = _confines()
    for line in sys.stdin.buffer:
        request = json.loads(line)
        score = _ending(request["answer"], request["expected"]).score if confines else None
        os.write(output, f"{json.dumps(score)}\n".encode())
    return 0


def _preload() -> None:
    for name in _PRELOADED.split():
        with contextlib.suppress(ImportError):  # a Python that was built without it
            importlib.import_module(name)
    time.tzset()
    time.localtime()
    importlib.import_module("hashlib").sha256(b"").hexdigest()
    linecache.clearcache()
    linecache.updatecache = lambda *_: []  # lines of a traceback, which would be read from files


def _confines() -> bool:
    """Return whether a right program passes here, and programs that reach out are ended by the filter."""
    reaching_out = ("open('/dev/null')", "import os; os.kill(os.getppid(), 0)", "import os; os.fork()")
    ended = [_ending(code, "assert True").killed_by for code in reaching_out]
    return _ending("x = 1", "assert x == 1").passed and ended == [signal.SIGSYS] * len(reaching_out)


def _ending(answer: str, expected: str) -> _Ending:
    token = os.urandom(16).hex().encode()  # no letter of which is one of the marks
    reading, writing = os.pipe()
    harness = os.getpid()
    child = os.fork()
    if not child:
        _in_child(harness, writing, token, answer, expected)
    os.close(writing)
    received, in_time = _received(reading)
    is_starved = not in_time and _state(child) != "S"  # it waits for a processor, not for something that never comes
    has_ended = in_time and _ends(child)
    os.close(reading)
    os.kill(child, signal.SIGKILL)
    _, status, used = os.wait4(child, 0)
    killed_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    # Killed by the system, for want of memory say, and neither by us nor for its processor time.
    is_killed = has_ended and killed_by == signal.SIGKILL and used.ru_utime + used.ru_stime < CPU_S - 0.5
    confined = not received.startswith(_UNCONFINED)
    unknown = is_starved or is_killed or not confined or received.startswith(_MISSING)
    return _Ending(confined and received.endswith(token), unknown, killed_by)


def _received(reading: int) -> tuple[bytes, bool]:
    """Return what a child writes until it closes its pipe or writes too much, and whether that was in time."""
    poll = select.poll()
    poll.register(reading, select.POLLIN)
    until_s, received = time.monotonic() + _ELAPSED_S, b""
    while len(received) < _MOST_BYTES:
        left_s = until_s - time.monotonic()
        if left_s <= 0 or not poll.poll(left_s * 1000):
            return received, False
        piece = os.read(reading, _MOST_BYTES)
        if not piece:
            break
        received += piece
    return received, True


def _state(child: int) -> str:
    """Return the kernel's letter for the process's state: R runs or waits for a processor, S sleeps."""
    return Path(f"/proc/{child}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]


def _ends(child: int) -> bool:
    """Return whether a child that closed its pipe ends soon; it does not if an answer closed the pipe."""
    until_s = time.monotonic() + _ENDS_WITHIN_S
    while os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        if time.monotonic() > until_s:
            return False
        time.sleep(0.001)
    return True


def _in_child(harness: int, writing: int, token: bytes, answer: str, expected: str) -> None:
    """Compile the programs, confine this process, run them, write the token; never returns."""
    write, leave = os.write, os._exit
    os.dup2(writing, _PIPE)
    programs: list[types.CodeType] = []
    try:
        _limit(harness)
        with contextlib.suppress(
            SyntaxError, ValueError, RecursionError, MemoryError
        ):  # a text that is not a program is not a right answer
            programs = _compiled(answer, expected)
        confine()
    except BaseException:  # noqa: BLE001 - whatever it is, nothing was run
        write(_PIPE, _UNCONFINED)
        leave(1)
    try:
        module = types.ModuleType("answer")
        sys.modules["answer"] = module  # where dataclasses look for it
        for program in programs:
            exec(program, vars(module))  # noqa: S102 - that is its purpose
        if programs:
            write(_PIPE, token)
    except BaseException:  # noqa: BLE001 - the answer's own, SystemExit too
        leave(1)
    leave(0)


def _limit(harness: int) -> None:
    end_with(harness)
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    os.closerange(_PIPE + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    sys.stdin = io.StringIO()
    sys.meta_path[:] = [BuiltinImporter, _OnlyPreloaded]
    warnings.simplefilter("ignore")
    random.seed(0)
    set_limit(resource.RLIMIT_CPU, CPU_S)
    limit_memory(MEMORY_MIB)
    forbid_opening()


def _compiled(answer: str, expected: str) -> list[types.CodeType]:
    """Return the answer's programs and the tests. Raises what an answer that is not Python makes the compiler raise.

    This comes before the filter, because the compiler looks for a file to quote the line of an error from. It finds
    none: no file can be opened by now.
    """
    head, tests = head_and_tests(expected)
    if not has_tests(tests) or not compiles(tests):
        os.write(_PIPE, _MISSING)
        os._exit(1)
    programs = [compile(source, "<answer>", "exec", dont_inherit=True) for source in sources(answer, head)]
    return [*programs, compile(tests, "<tests>", "exec", dont_inherit=True)]
