"""Settings of the test tools, and homes, that many tests share."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.migrated import migrated_home
from tests.workers.homes import Home, new_home, until
from tests.workers.valkey import Broker

# No limit on the time of one example: the machine also runs engines, and pytest-timeout watches the whole test. The
# same examples each time, so that a change is judged by itself; `--hypothesis-profile=explore` looks for new ones.
_SLOW = [HealthCheck.too_slow]
settings.register_profile("drafthouse", deadline=None, suppress_health_check=_SLOW, max_examples=50, derandomize=True)
settings.register_profile("explore", deadline=None, suppress_health_check=_SLOW, max_examples=1000)
settings.load_profile("drafthouse")

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


@pytest.fixture(scope="session")
def migrated() -> Path:
    """A home with databases made by the migrations; tests copy it."""
    return migrated_home()


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
