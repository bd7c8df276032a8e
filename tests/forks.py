"""Runs tests in several processes, forked from the one that has imported and collected them all: that takes 7 seconds
of a processor, where four processes of pytest-xdist, each with imports of its own, took 35.
"""

from __future__ import annotations

import atexit
import gc
import itertools
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe, wait
from typing import NoReturn

import pytest

Group = Sequence[pytest.Item]


def run_in_forks(
    session: pytest.Session,
    groups: Sequence[Group],
    filling: Sequence[Group],
    processes: int,
    before: Callable[[pytest.Item], None],
) -> None:
    """Each process takes the next group when it is done with one, calls `before` with each test, runs it and sends its
    reports here. One that ends by itself fails the run.

    One more process takes from `filling` alone, and runs on a processor that none of the others needs. They take from
    there too when nothing else is left.
    """
    config = session.config
    config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]  # removed at the end of this process
    first, last = _queue(groups), _queue(filling)
    sys.stdout.flush()
    gc.freeze()  # what a process never touches stays shared
    running = dict[Connection, int]()
    try:
        for queues in [(first, last)] * processes + [(last,)] * bool(groups and filling):
            received, sent = Pipe(duplex=False)
            if (process := os.fork()) == 0:
                for other in (*running, received):
                    other.close()
                if first not in queues:
                    _step_behind_all()
                _work(session, itertools.chain.from_iterable(map(_taken, queues)), sent, before)
            sent.close()
            running[received] = process
        _relay(session, running)
    finally:
        for process in running.values():
            os.kill(process, signal.SIGINT)
        for process in running.values():
            os.waitpid(process, 0)


def _relay(session: pytest.Session, running: dict[Connection, int]) -> None:
    """Pass on what the processes report, and take from `running` those that have ended."""
    hook, last = session.config.hook, dict.fromkeys(running, "its start")
    while running:
        for reports in wait(list(running)):
            assert isinstance(reports, Connection)
            try:
                report = hook.pytest_report_from_serializable(config=session.config, data=reports.recv())
            except EOFError:
                _, status = os.waitpid(running.pop(reports), 0)
                if status:
                    code = os.waitstatus_to_exitcode(status)
                    session.shouldfail = f"a process ended with {code} after {last[reports]}"
            else:
                last[reports] = f"the {report.when} of {report.nodeid}"
                hook.pytest_runtest_logreport(report=report)
            if session.shouldfail:
                raise session.Failed(session.shouldfail)


def _step_behind_all() -> None:
    if sys.platform == "linux":
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    else:
        os.nice(19)


@dataclass(frozen=True)
class _Queue:
    """Groups that every process may take from."""

    groups: Sequence[Group]
    numbers: int  # a pipe's end, from which the next one's place is read


def _queue(groups: Sequence[Group]) -> _Queue:
    numbers, pushed = os.pipe()
    os.write(pushed, b"".join(number.to_bytes(2, "big") for number in range(len(groups))))
    os.close(pushed)
    return _Queue(groups, numbers)


def _taken(queue: _Queue) -> Iterator[pytest.Item]:
    while number := os.read(queue.numbers, 2):
        yield from queue.groups[int.from_bytes(number, "big")]


def _work(
    session: pytest.Session, items: Iterator[pytest.Item], reports: Connection, before: Callable[[pytest.Item], None]
) -> NoReturn:
    """The life of a process: it has files of its own for what tests print, and leaves to its parent what that has
    registered to be done at its end.
    """
    status = 1
    try:
        atexit._clear()
        signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background of a shell it is ignored
        capture = session.config.pluginmanager.getplugin("capturemanager")
        capture.stop_global_capturing()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the parent prints
        capture.start_global_capturing()
        capture.suspend_global_capture()
        session.config.pluginmanager.register(_Sender(session.config, reports))
        item = next(items, None)
        while item is not None:
            before(item)
            following = next(items, None)
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            item = following
        status = 0
    except KeyboardInterrupt:
        pass  # the parent says so
    except BaseException:  # noqa: BLE001 - nothing here may go on as the parent does
        traceback.print_exc()
    finally:
        try:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            session._setupstate.teardown_exact(None)
            atexit._run_exitfuncs()
        finally:
            os._exit(status)


class _Sender:
    def __init__(self, config: pytest.Config, reports: Connection) -> None:
        self.config, self.reports = config, reports

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.reports.send(self.config.hook.pytest_report_to_serializable(config=self.config, report=report))
