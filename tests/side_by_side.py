"""How `make test` shares tests between four processes (`pytest --processes 4 -p tests.side_by_side`), and its slowest
files.

Half of the tests' time is waiting for other processes, so there are twice as many as two processors: with processes
that each collected all tests, four took 550 s, three 602 s, and five or six as long as four. What is measured must not
depend on what runs beside it: the others yield to the process with the engines and to the one with all else that
measures, which wait for half of their time. A fifth one computes when the others leave a processor idle, as they do
for a twentieth of the time: with it a run took 491 s, and without it 507 and 499 s within the same hour.
"""

from __future__ import annotations

import itertools
import os
import resource
from collections import defaultdict
from collections.abc import Generator
from operator import itemgetter

import pytest

from tests.forks import run_in_forks

_MEASURING = ("engines", "measuring")
#: Which files share a process. Engines never measure two at once, because they are bound to the same processor; other
#: files share servers and a browser that take seconds to start, or homes filled once.
_TOGETHER = {
    "tests/e2e/": "engines",
    "tests/validity_for_real/": "measuring",
    "tests/benchmarks/test_small_versions.py": "measuring",
    "tests/webapp/browser/": "browser",
    "tests/workers/test_crashes.py": "crashes",
    "tests/workers/test_two_slots.py": "slots",
    "/transformers_server/": "transformers",
    "tests/webapp/pages/": "pages",
    "tests/webapp/links/": "pages",
    "tests/cli/": "verbs",
    "tests/workers/": "workers",  # most of them wait: two at once would leave a processor without work
}
#: The groups in the order in which they begin: those that measure, whose processes have not yielded yet, then the
#: longest, none of which may be left for the end. Those that do nothing but wait, as crashes, workers and slots do,
#: begin when two that compute go on beside them.
_BEGIN_WITH = (*_MEASURING, "browser", "crashes", "pages", "workers", "slots", "verbs", "transformers")
#: Files that only compute, most of them for a second: they run whenever a processor has nothing else to do, and at last
#: fill all of them.
_END_WITH = ("tests/lab/", "tests/warehouse/importers/", "tests/webapp/charts/")
_SLOWEST, _CPU = 10, "processor seconds"
#: How far the other processes, and all that they start, step back behind those that measure.
_NICENESS = 10


def group_of(nodeid: str) -> str:
    """What runs in one process: some files together, any other by itself, because its tests share homes and servers."""
    groups = (group for part, group in _TOGETHER.items() if part in nodeid)
    return next(groups, nodeid.partition("::")[0])


class _Seconds:
    """Sums, file by file, what all processes report."""

    def __init__(self) -> None:
        self.wall_s, self.cpu_s = defaultdict[str, float](float), defaultdict[str, float](float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file = report.nodeid.partition("::")[0]
        self.wall_s[file] += report.duration
        self.cpu_s[file] += sum(float(str(value)) for name, value in report.user_properties if name == _CPU)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section(f"slowest {_SLOWEST} files")
        terminalreporter.line("seconds  of a processor  file")
        for file, seconds in sorted(self.wall_s.items(), key=itemgetter(1), reverse=True)[:_SLOWEST]:
            terminalreporter.line(f"{seconds:7.1f}  {self.cpu_s[file]:14.1f}  {file}")
        wall_s, cpu_s = sum(self.wall_s.values()), sum(self.cpu_s.values())
        terminalreporter.line(f"{wall_s:7.1f}  {cpu_s:14.1f}  all {len(self.wall_s)} files")


def _yield(item: pytest.Item) -> None:
    """Lower the priority of a process from its first test on of another group than those that measure."""
    if group_of(item.nodeid) not in _MEASURING:
        os.setpriority(os.PRIO_PROCESS, 0, max(_NICENESS, os.getpriority(os.PRIO_PROCESS, 0)))


class _ProcessorTime:
    """Tells with each report the processor seconds of this process, and of the children that it waited for."""

    until_now_s = 0.0

    def pytest_runtest_logstart(self) -> None:
        self.until_now_s = _cpu_s()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        before_s, self.until_now_s = self.until_now_s, _cpu_s()
        report.user_properties = [(_CPU, self.until_now_s - before_s)]
        return report


def _cpu_s() -> float:
    usages = (resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--processes", type=int, default=0, help="run groups of files side by side in so many processes")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_ProcessorTime())
    config.pluginmanager.register(_Seconds())


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    processes: int = session.config.getoption("processes")
    if not processes or session.testsfailed or session.config.option.collectonly:
        return None  # pytest's own
    groups = [list(items) for _, items in itertools.groupby(session.items, lambda item: group_of(item.nodeid))]
    first = [items for items in groups if not items[0].nodeid.startswith(_END_WITH)]
    run_in_forks(session, first, groups[len(first) :], processes, _yield)
    return True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The groups first, then the other files from the last room to the first, and those that only compute."""
    others = [group for group in dict.fromkeys(group_of(item.nodeid) for item in items) if group not in _BEGIN_WITH]
    last = [group for group in others if group.startswith(_END_WITH)]
    between = [group for group in others if group not in last]
    places = {group: place for place, group in enumerate((*_BEGIN_WITH, *reversed(between), *last))}
    items.sort(key=lambda item: places[group_of(item.nodeid)])
