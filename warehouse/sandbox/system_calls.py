"""A list of system calls that a process allows itself from now on; the kernel ends it at any other, or refuses the call
(seccomp, Linux).

The allowed calls read and write open files, allocate memory, wait, read the time, and exit. Nothing
can be opened, started, reached by a signal or a socket, or read from another process, whoever the user is: root too.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import sys
from collections.abc import Mapping

#: The kernel's names of the architectures; a call in the manner of another one (32 bits, say) has another number.
_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
#: The calls that are allowed, with the kernel's number for each architecture, None if it has no such call.
_ALLOWED: dict[str, tuple[int | None, ...]] = {
    "read": (0, 63),
    "write": (1, 64),
    "close": (3, 57),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "munmap": (11, 215),
    "brk": (12, 214),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sched_yield": (24, 124),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "nanosleep": (35, 101),
    "getpid": (39, 172),
    "exit": (60, 93),
    "gettimeofday": (96, 169),
    "getrusage": (98, 165),
    "times": (100, 153),
    "sigaltstack": (131, 132),
    "gettid": (186, 178),
    "time": (201, None),
    "futex": (202, 98),
    "restart_syscall": (219, 128),
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "clock_nanosleep": (230, 115),
    "exit_group": (231, 94),
    "getrandom": (318, 278),
}
#: Further calls that look at files and open them for reading, and that ask about the system; `forbid_opening` limits
#: which files open.
READING: dict[str, tuple[int | None, ...]] = {
    "open": (2, None),
    "stat": (4, None),
    "fstat": (5, 80),
    "lstat": (6, None),
    "lseek": (8, 62),
    "pread64": (17, 67),
    "access": (21, None),
    "uname": (63, 160),
    "fcntl": (72, 25),
    "getcwd": (79, 17),
    "readlink": (89, None),
    "sysinfo": (99, 179),
    "openat": (257, 56),
    "newfstatat": (262, 79),
    "readlinkat": (267, 78),
    "faccessat": (269, 48),
    "statx": (332, 291),
    "faccessat2": (439, 439),
}
_NONE: Mapping[str, tuple[int | None, ...]] = {}
_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 4, 38
#: The call seccomp, which unlike prctl can set a filter for the threads of libraries, too.
_SECCOMP = (317, 277)
_SET_MODE_FILTER, _FOR_ALL_THREADS = 1, 1
_KILL_PROCESS, _REFUSE, _ALLOW = 0x80000000, 0x00050000 | errno.EPERM, 0x7FFF0000
#: BPF's operations: load a word of the call's description, compare it with a constant, return.
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_AT_NUMBER, _AT_ARCHITECTURE = 0, 4


class CannotConfineError(Exception):
    """This machine has no such filter, or refused it."""


class _Instruction(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint16),
        ("if_true", ctypes.c_uint8),
        ("if_false", ctypes.c_uint8),
        ("constant", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(_Instruction)))


def confine(also: Mapping[str, tuple[int | None, ...]] = _NONE, *, ends: bool = True) -> None:
    """Allow this process nothing but the listed calls and those of `also` from now on. Raises CannotConfineError.

    Any other call ends the process, or without `ends` fails with EPERM. This holds for all of its threads. The process
    leaves no core dump either, wherever such dumps go.
    """
    machine = platform.machine()
    if sys.platform != "linux" or machine not in _AUDIT_ARCH or ctypes.sizeof(ctypes.c_void_p) != 8:
        raise CannotConfineError(f"no list of system calls for {sys.platform} on {machine}")
    which = list(_AUDIT_ARCH).index(machine)
    calls = (_ALLOWED | dict(also)).values()
    allowed = sorted(number for numbers in calls if (number := numbers[which]) is not None)
    instructions = _instructions(_AUDIT_ARCH[machine], allowed, _KILL_PROCESS if ends else _REFUSE)
    program = _Program(len(instructions), instructions)
    libc = ctypes.CDLL(None, use_errno=True)
    _set(libc, _PR_SET_DUMPABLE, 0)
    _set(libc, _PR_SET_NO_NEW_PRIVS, 1)
    call, mode, flags = (ctypes.c_long(number) for number in (_SECCOMP[which], _SET_MODE_FILTER, _FOR_ALL_THREADS))
    if (refused := libc.syscall(call, mode, flags, ctypes.byref(program))) != 0:
        why = os.strerror(ctypes.get_errno()) if refused < 0 else f"thread {refused} has a filter of its own"
        raise CannotConfineError(f"seccomp: {why}")


def _instructions(architecture: int, numbers: list[int], otherwise: int) -> ctypes.Array[_Instruction]:
    """Return a program that ends the process on another architecture, and does `otherwise` at any other call."""
    listed = [
        (_LOAD, 0, 0, _AT_ARCHITECTURE),
        (_JUMP_IF_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_LOAD, 0, 0, _AT_NUMBER),
        # To the last instruction, beyond the comparisons that follow and the one before it.
        *((_JUMP_IF_EQUAL, len(numbers) - index, 0, number) for index, number in enumerate(numbers)),
        (_RETURN, 0, 0, otherwise),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return (_Instruction * len(listed))(*(_Instruction(*each) for each in listed))


def _set(libc: ctypes.CDLL, option: int, value: int) -> None:
    words = (ctypes.c_ulong(word) for word in (value, 0, 0, 0))
    if libc.prctl(ctypes.c_int(option), *words) != 0:
        raise CannotConfineError(f"prctl({option}): {os.strerror(ctypes.get_errno())}")
