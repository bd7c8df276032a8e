"""Explains from its log why an engine did not start or ended: the cause first, with a link to advice. It also decides
whether the other arms of a study would fail in the same way.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from lab.storable import storable
from lab.study import Arm, Study

TROUBLESHOOTING = "docs/troubleshooting.md"
_MAX_LINES = 15
_MAX_CHARS = 500
_EXPLAINING_LINES = 3
_FROM_OUTSIDE = (signal.SIGILL, signal.SIGBUS, signal.SIGKILL, signal.SIGSEGV)
_READ_BYTES = 1 << 19  # from the end, where the last error is
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
#: Prefixes before an engine's own messages: vLLM's `(EngineCore pid=12) ERROR 11-21 04:00:00 [core.py:1] `, SGLang's
#: `[2026-11-21 04:00:00 TP0] `, TensorRT-LLM's `[11/21/2026-04:00:00] [TRT-LLM] [E] `.
_MARKS = re.compile(
    r"^(?P<process>(?:\([^()]*\bpid=\d+[^()]*\) ?)*)"
    r"(?:(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \S+ \[[^\]]*\] ?"
    r"|\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[^\]]*\] "
    r"|\[\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d\] \[TRT-LLM\] (?:\[RANK \d+\] ?)?\[(?P<letter>[A-Z])\] ?)?"
)
_HARMLESS = ("DEBUG", "INFO", "WARNING", "V", "I", "W")
_TRACEBACK = "Traceback (most recent call last):"
#: Python's lines between an exception and the one raised from it.
_IGNORED = ("Exception ignored in", "--- Logging error ---")
_CAUSED = "The above exception was the direct cause of the following exception:"
_WHILE_HANDLED = "During handling of the above exception, another exception occurred:"
_EXCEPTION = re.compile(r"^(?!INFO|WARNING|ERROR|DEBUG)(?P<type>[A-Za-z_][\w.<>]*)(?:: ?(?P<message>.*))?$")
#: `torch.OutOfMemoryError: ...`, argparse's `vllm serve: error: ...`, and ends without a traceback.
_TELLING = re.compile(
    r"^(?:[\w.]*(?:Error|Exception|Interrupt|Failure)\b(?::|$)|(?:[\w ./-]+: )?error: |docker: |terminate called )"
    r"|[Ss]egmentation|[Kk]illed"
)
#: Exceptions that only report that another process, or a step inside, has failed.
_WRAPPER = re.compile(
    r"root cause|initialization failed|failed to start|engine process failed|EngineDeadError"
    r"|see the error messages? above|died (?:during|unexpectedly)"
    r"|(?:worker|scheduler|process|proc\(s\)).{0,40} (?:is|has|was) (?:dead|died|terminated)"
    r"|ChildFailedError|ProcessRaisedException|ProcessExitedException|^(?:SystemExit|KeyboardInterrupt|CancelledError)\b"
    r"|^(?:EOFError|BrokenPipeError|ConnectionResetError)\b|Executor worker|Executor failed|ExceptionGroup",
    re.IGNORECASE,
)
#: How the engine's parent reports the signal that ended one of its processes.
_CHILD_SIGNAL = re.compile(r"(?:Failed core proc\(s\): \{[^}]*: |Exit code: |exitcode[=:] ?)-(?P<signal>\d+)")
#: The same without the signal.
_CHILD_GONE = re.compile(r"Worker proc \S+ died unexpectedly|scheduler is dead")
#: pydantic appends its input, which repeats the command line.
_PYDANTIC_END = re.compile(r" \[type=\w+, input_value=.*$|^For further information.*$")
#: Messages about a model that the hub lacks or restricts, or about a hub that cannot be reached.
_NO_MODEL = re.compile(
    r"gated|Repository ?Not ?Found|RepoError|not a valid model identifier|is not a local folder|Entry ?Not ?Found"
    r"|couldn't connect|OfflineMode|offline mode|\b40[134] Client Error|does not appear to have a file named config"
    r"|Repo id must be|Invalid repository ID|Unrecognized model in",
    re.IGNORECASE,
)
#: Anchors of rows in docs/troubleshooting.md, and the messages that each is about; the first match wins.
ROWS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (anchor, re.compile(words, re.IGNORECASE))
    for anchor, words in (
        ("killed", r"killed by signal 9\b|no memory is left"),
        ("engine-flags", r"unrecognized arguments|: error: argument|ignored explicit argument"),
        ("no-access", r"\bgated\b|40[13] Client Error|is restricted"),
        (
            "hub-unreachable",
            r"couldn't connect|OfflineMode|offline mode|outgoing traffic has been disabled|ConnectError",
        ),
        ("no-model", _NO_MODEL.pattern),
        ("gpu-held", r"Free memory on device"),
        ("kv-cache", r"KV cache memory|No available memory for the cache blocks|out of memory|Not enough memory"),
        ("port", r"address already in use|Errno 98\b|Errno 48\b"),
        ("auxiliary-layers", r"shape '\[-1, \d+\]' is invalid"),
        ("engine-import", r"ModuleNotFoundError|ImportError|cannot open shared object|killed by signal 4\b"),
        ("speculation-refused", r"SpeculativeConfig|spec(?:ulative)? decod\w+ is not supported"),
        ("engine-settings", r"ValidationError"),
        ("slow-start", r"not ready within"),
    )
)

#: Messages about the host: a driver or a GPU that fails, a missing library, a disk that is full or away.
_OF_HOST = re.compile(
    r"no CUDA-capable device|CUDA driver version is insufficient|NVIDIA driver on your system is too old"
    r"|Found no NVIDIA driver|Driver/library version mismatch|driver/library version mismatch|NVMLError"
    r"|CUDA(?: driver)? initialization|CUDA error: (?:unknown error|initialization error|system not yet initialized"
    r"|uncorrectable|all CUDA-capable devices are busy|CUDA-capable device\(s\) is/are busy)|fallen off the bus"
    r"|nvidia-container-cli|Cannot connect to the Docker daemon|cannot open shared object file|killed by signal [47]\b"
    r"|No space left on device|Disk quota exceeded|Read-only file system|Stale file handle|Input/output error"
    r"|Transport endpoint is not connected",
)
_HELD = "Free memory on device"
_NO_GPU_MEMORY = re.compile(rf"{_HELD}|out of memory|No available memory for the cache", re.IGNORECASE)


class _Line(NamedTuple):
    process: str  # the prefix of a process among several
    text: str
    harmless: bool  # below an error, by the engine's own log


@dataclass
class _Exception:
    """The end of a traceback; `caused_by` is the exception that it was raised from."""

    lines: list[str]
    position: int  # in the log
    caused_by: _Exception | None = None
    while_handling: _Exception | None = None

    @property
    def sentence(self) -> str:
        """`ValueError: no such thing`, without the module, with what pydantic explains below it."""
        match = _EXCEPTION.match(self.lines[0])
        if match is None:  # cannot be: it is what a traceback ends with
            return self.lines[0]
        said = [_PYDANTIC_END.sub("", line.strip()).strip() for line in (match["message"] or "", *self.lines[1:])]
        said = [line.removeprefix("Value error, ").removeprefix("Assertion failed, ") for line in said if line]
        parts = 1
        if (
            said and "validation error" in said[0]
        ):  # then the field, unless the whole is meant, and what is wrong with it
            parts = 2 if self.lines[1:2] and self.lines[1].startswith(" ") else 3
        return ": ".join((match["type"].rpartition(".")[2], *said[:parts]))

    @property
    def is_wrapper(self) -> bool:
        return _WRAPPER.search(self.sentence) is not None

    def root(self) -> _Exception:
        """Return the first exception of the chain. An exception raised while another was handled is its own root,
        unless it only reports a failure elsewhere.
        """
        before = self.caused_by or (self.while_handling if self.is_wrapper else None)
        return self if before is None else before.root()


def explained(how: str, log: Path, *, status: int | None = None) -> str:
    """Explain why an engine ended: the cause in the first line, then `how` it ended, and further errors of its log.

    `status` is its exit status, 128 + its number for a signal. `how` comes first if the log names no cause.
    """
    found = signal_of(status) or cause(log)
    errors = error_excerpt(log)
    if found is None:
        return f"{how}; {_advice(how, errors)}its log ends:\n{errors}"
    rest = [line for line in errors.splitlines() if line not in found]
    return "\n".join((found, f"{how}; {_advice(found, errors)}".rstrip("; "), *rest))


def signal_of(status: int | None) -> str | None:
    """Return the sentence for an exit status that stands for a signal from outside or a crash; None for another.

    Of a child of our own, such as the engine's guard, Python gives the signal's number as a negative status.
    """
    number = 0 if status is None else -status if status < 0 else status - 128
    return _killed("the engine", number) if number in _FROM_OUTSIDE else None


def _killed(what: str, number: int) -> str:
    try:
        name = f" ({signal.Signals(number).name})"
    except ValueError:
        name = ""
    likely = ", most likely because the host or its container had no memory left" if number == signal.SIGKILL else ""
    return f"{what} was killed by signal {number}{name}{likely}"


def cause(log: Path) -> str | None:
    """Return the first exception in the log that wraps no other, in one line; None if the log has no error."""
    lines = list(_raised(_end(log)))
    exceptions = sorted((each.root() for each in _exceptions(lines)), key=lambda each: each.position)
    own = next((each for each in exceptions if not each.is_wrapper), None)
    if own is not None:
        return _cut(own.sentence)
    if killed := next((match for line in lines if (match := _CHILD_SIGNAL.search(line.text))), None):
        return _killed("a process of the engine", int(killed["signal"]))
    if gone := next((match for line in lines if (match := _CHILD_GONE.search(line.text))), None):
        return f"{gone[0]}: no error of its own, like a process killed because no memory is left"
    telling = (line.text.strip() for line in lines if not line.harmless and _TELLING.search(line.text))
    return next((_cut(text.removeprefix("error: ")) for text in telling if not _WRAPPER.search(text)), None)


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_CHARS else f"{text[: _MAX_CHARS - 1]}…"


def _raised(lines: Sequence[_Line]) -> Iterator[_Line]:
    """Leave out exceptions that Python reports and that nobody raised further."""
    is_ignored = False
    for line in lines:
        is_ignored = is_ignored or line.text.startswith(_IGNORED)
        if not is_ignored:
            yield line
        elif _EXCEPTION.match(line.text) and not line.text.startswith((*_IGNORED, _TRACEBACK)):
            is_ignored = False


def _exceptions(lines: Sequence[_Line]) -> Iterator[_Exception]:
    """Yield the last exception of each chain of tracebacks; those of different processes may be mixed."""
    for process in dict.fromkeys(line.process for line in lines):
        own = [(position, line) for position, line in enumerate(lines) if line.process == process]
        yield from _of_process(own)


def _of_process(lines: Sequence[tuple[int, _Line]]) -> Iterator[_Exception]:
    last: _Exception | None = None
    state, link = "outside", ""
    for position, (_, text, harmless) in lines:
        stripped = text.strip()
        if harmless:
            continue
        if stripped.endswith(_TRACEBACK):
            if last is not None and not link:
                yield last
                last = None
            state = "stack"
        elif state == "stack" and _EXCEPTION.match(text):
            last = _Exception([stripped], position, *((last, None) if link == _CAUSED else (None, last)))
            state, link = "message", ""
        elif stripped in (_CAUSED, _WHILE_HANDLED):
            state, link = "outside", stripped
        elif state == "message" and last is not None and stripped and len(last.lines) < _EXPLAINING_LINES:
            last.lines.append(text.rstrip())
    if last is not None:
        yield last


def error_excerpt(log: Path) -> str:
    """Return the errors in the log with their explanations, each once and in order; without any, its last lines."""
    lines = [line.text for line in _end(log)]
    errors = list(dict.fromkeys(line[:_MAX_CHARS] for line in _error_lines(lines)))
    return "\n".join((errors or [line[:_MAX_CHARS] for line in lines if line.strip()])[-_MAX_LINES:])


def _error_lines(lines: list[str]) -> Iterator[str]:
    """Yield the line of each error, and the indented lines below it (pydantic's explanation)."""
    explaining = False
    for line in lines:
        if _TELLING.search(line):
            explaining = True
            yield line.rstrip()
        elif (
            explaining and line.startswith("  ") and not line.lstrip().startswith(("File ", "For further information"))
        ):
            yield line.rstrip()
        else:
            explaining = False


def _end(log: Path) -> list[_Line]:
    with log.open("rb") as file:
        file.seek(max(0, file.seek(0, 2) - _READ_BYTES))
        return [_line(text) for text in storable(file.read().decode(errors="replace")).splitlines()]


def _line(text: str) -> _Line:
    plain = _COLOUR.sub("", text)
    if (match := _MARKS.match(plain)) is None:  # never: the pattern matches nothing at all, too
        return _Line("", plain, harmless=False)
    level = match["level"] or match["letter"]
    return _Line(match["process"].strip(), plain[match.end() :], harmless=level in _HARMLESS)


def _advice(*texts: str) -> str:
    """Link the row of docs/troubleshooting.md about the first of the texts that has one; empty if none has."""
    anchor = next((anchor for text in texts for anchor, words in ROWS if words.search(text)), None)
    return "" if anchor is None else f"what to do: {TROUBLESHOOTING}#{anchor}; "


def is_of_host(why: str) -> bool:
    """Return whether the host's driver, GPU, libraries or disk ended an engine, by the cause in the first line."""
    return _OF_HOST.search(why.partition("\n")[0]) is not None


def lacks_gpu_memory(why: str) -> bool:
    """Return whether an engine found too little GPU memory: for what it was configured to hold, or held by others."""
    return _NO_GPU_MEMORY.search(why.partition("\n")[0]) is not None


def finds_gpu_memory_held(why: str) -> bool:
    """Return whether an engine found GPU memory taken before it allocated any."""
    return _HELD in why.partition("\n")[0]


def for_every_arm(study: Study, arm: Arm, why: str) -> bool:
    """Return whether the remaining arms would fail like this one, whose engine did not start because of `why`. They
    would if the engine cannot get the target, or if the arm has neither speculation nor settings of its own and all
    arms use its engine. A running server proves nothing about another one.
    """
    if arm.server is not None:
        return False
    is_plain = not (arm.speculation or arm.flags or arm.config or arm.environment)
    if _NO_MODEL.search(why) and (is_plain or study.target in why):
        return all(other.server is None for other in study.arms)
    return is_plain and all(other.engine == arm.engine for other in study.arms)


def sentence(arm: Arm, why: str) -> str:
    """Return the cause, which is the first line of `why`, then all of `why`."""
    return f"no engine of this study can start; that of arm {arm.name!r} failed: {why}"
