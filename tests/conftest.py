"""Settings of the test tools, and homes, that many tests share."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Generator, Iterator
from pathlib import Path

import hypothesis
import pytest
import sqlalchemy as sa
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from host.settings import Settings
from jobs.fleet import worker_registry
from tests.migrated import migrated_home
from tests.workers.homes import Home, new_home, until
from tests.workers.valkey import Broker
from warehouse.app_db.engine import open_engine

# No limit on the time of one example: the machine also runs engines, and pytest-timeout watches the whole test. The
# same examples each time, so that a change is judged by itself; `--hypothesis-profile=explore` looks for new ones.
_SLOW = [hypothesis.HealthCheck.too_slow]
hypothesis.settings.register_profile(
    "drafthouse", deadline=None, suppress_health_check=_SLOW, max_examples=50, derandomize=True
)
hypothesis.settings.register_profile("explore", deadline=None, suppress_health_check=_SLOW, max_examples=1000)
hypothesis.settings.load_profile("drafthouse")

# Homes of tests lie in memory where there is room for them: every bundle and every commit is synced to its disk, and
# half of the suite would wait for that.
_MEMORY, _ROOM_BYTES = Path("/dev/shm"), 6 * 2**30
if _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ROOM_BYTES:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))

# Homes of tests are new: without these an engine of each would compile its kernels anew, for half a minute.
_COMPILED = Path(__file__).parents[1] / ".engines" / "caches-of-tests"
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(_COMPILED / "torchinductor"))
os.environ.setdefault("VLLM_CACHE_ROOT", str(_COMPILED / "vllm"))

# No test asks a model hub in the network, whatever models its studies name.
os.environ["HF_HUB_OFFLINE"] = "1"

#: Which tests share a process of pytest-xdist. Engines never measure two at once, because they are bound to the same
#: processor; other files share servers and a browser that take seconds to start, or homes that are filled once. Any
#: other file is a group of its own. The groups begin in this order: those that measure first, then the longest.
_GROUPS = {
    "tests/e2e/": "engines",
    "tests/validity_for_real/": "measuring",
    "tests/benchmarks/test_small_versions.py": "measuring",
    "tests/webapp/browser/": "browser",
    "tests/workers/test_crashes.py": "crashes",
    "tests/webapp/pages/": "pages",
    "tests/webapp/links/": "pages",
    "tests/workers/slots/test_two_slots.py": "slots",
    "/transformers_server/": "transformers",
    "tests/workers/": "workers",
    "tests/cli/": "verbs",
    "tests/warehouse/store/": "object store",
}
#: How far tests, and the processes that they start, step back behind those that measure. Those with stand-ins for
#: engines use little, and go before every other program of the machine, where the system permits it.
_STEP_BACK, _STEP_BACK_BY_GROUP = 10, {"engines": 0, "measuring": -10}
_USUAL_NICENESS = os.getpriority(os.PRIO_PROCESS, 0)


def _group(nodeid: str) -> str:
    groups = (group for part, group in _GROUPS.items() if part in nodeid)
    return next(groups, nodeid.partition("::")[0])


class _Groups(LoadScopeScheduling):  # type: ignore[misc]
    """Gives all tests of a group to one process. (`--dist loadgroup` does not know its groups under pytest 9.2.)"""

    def _split_scope(self, nodeid: str) -> str:
        return _group(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> _Groups:
    return _Groups(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the groups begin in their order; short files fill the end."""
    order = list(dict.fromkeys(_GROUPS.values()))
    items.sort(key=lambda item: order.index(_group(item.nodeid)) if _group(item.nodeid) in order else len(order))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Replace halves of characters in what a test has logged: pytest-xdist cannot send them."""
    report = yield
    report.sections = [(title, text.encode(errors="replace").decode()) for title, text in report.sections]
    return report


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Set the priority of a process of pytest-xdist. Who is not root can only lower it."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        with contextlib.suppress(PermissionError):
            niceness = _USUAL_NICENESS + _STEP_BACK_BY_GROUP.get(_group(item.nodeid), _STEP_BACK)
            os.setpriority(os.PRIO_PROCESS, 0, niceness)


@pytest.fixture(scope="session")
def migrated() -> Path:
    """A home with databases made by the migrations; tests copy it."""
    return migrated_home()


@pytest.fixture(scope="module")
def shared(migrated: Path, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A home that a module fills once and then only reads."""
    home = tmp_path_factory.mktemp("shared") / "home"
    shutil.copytree(migrated, home)
    return Settings(home=home)


@pytest.fixture
def workers_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that a test registers is there until its end, though it never shows its presence again."""
    monkeypatch.setattr(worker_registry, "AWAY_AFTER_S", 3600.0)


@pytest.fixture
def settings(migrated: Path, tmp_path: Path) -> Settings:
    """Of a home of this test's own, in which nothing runs."""
    home = tmp_path / "home"
    shutil.copytree(migrated, home)
    return Settings(home=home, ingest_every_s=0.05)


@pytest.fixture
def database(settings: Settings) -> Iterator[sa.Engine]:
    """The app database of the settings, whichever fixture of this name the test has."""
    with open_engine(settings.app_database_url) as engine:
        yield engine


@pytest.fixture
def home(tmp_path: Path, migrated: Path) -> Iterator[Home]:
    """Without a broker: whoever needs to be woken is woken by hand."""
    with new_home(tmp_path, migrated) as it:
        yield it
        assert it.engine_processes() == []


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A real Valkey."""
    it = Broker(tmp_path / "valkey")
    it.start()
    yield it
    it.stop()


@pytest.fixture
def woken_home(tmp_path: Path, migrated: Path, broker: Broker) -> Iterator[Home]:
    """With a broker, for real worker processes."""
    with new_home(tmp_path, migrated, broker_url=broker.url) as it:
        yield it
        until(lambda: not it.engine_processes(), "the engines of a worker killed at the end of a test are gone")
