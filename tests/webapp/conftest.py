from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from streamlit import config
from streamlit.components.v2.component_manager import BidiComponentManager
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from access.web.gate import gate
from host.settings import Settings
from interchange.store import Import, import_paths
from jobs.presets import load_preset
from lab.study import Study
from tests.actors import ADMIN
from tests.interchange.sample_files import SAMPLES
from tests.lab.studies import study
from tests.webapp.homes import environment, make_home
from tests.webapp.measured import measure_study, measured_only_to_be_read
from tests.webapp.three_arms import ARMS
from warehouse.ingest.service import ingest_all
from webapp.pages.submit import form_options
from webapp.shared import published_data

MAIN = Path(__file__).parents[2] / "webapp" / "server" / "main.py"

DEFAULT_PAGE = "home"

OpenPage = Callable[..., AppTest]
#: Tools whose samples say little of their runs.
LITTLE_KNOWN = ("genai-bench", "guidellm", "sglang-bench-serving")

SLO = {"ttft_ms": 1000, "tpot_ms": 30}

# The server's own settings, which AppTest does not look for.
_SERVED = tomllib.loads((MAIN.parents[1] / ".streamlit" / "config.toml").read_text(encoding="utf-8"))
for section in ("runner", "browser"):
    for name, value in _SERVED[section].items():
        config.set_option(f"{section}.{name}", value)


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    """A home of this test's own, and the environment that leads the pages to it."""
    made = make_home(tmp_path)
    with using_home(made, monkeypatch):
        yield made


@contextmanager
def using_home(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lead the pages to this home, without anything cached from another one."""
    for name, value in environment(settings).items():
        monkeypatch.setenv(name, value)
    forget_everything()
    yield
    forget_everything()


@pytest.fixture(autouse=True)
def _workers_stay(workers_stay: None) -> None:
    """However long the pages take that a test opens."""


ReadStudy = Callable[..., str]


@pytest.fixture
def read_study(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[ReadStudy]:
    """Leads the pages from this test's home to one in which nothing but a study was measured, and returns its job.

    It is called as `measure_study` is. All tests of a process that read the same study share its home, and the figures
    that were drawn of it: they change nothing there.
    """
    assert settings

    def lead(study: Study, **how: Any) -> str:
        shared, job_id = measured_only_to_be_read(study, **how)
        for name, value in environment(shared).items():
            monkeypatch.setenv(name, value)
        forget_everything()
        return job_id

    yield lead
    forget_everything()


@dataclass(frozen=True)
class MeasuredHome:
    """A home with three published studies, by the ids of their jobs."""

    settings: Settings
    baseline_only: str
    one_repeat: str  # the baseline and one arm
    three_arms: str  # the newest: three repeats, with an SLO; its hardware has no price


@pytest.fixture(scope="session")
def measured_home(tmp_path_factory: pytest.TempPathFactory) -> MeasuredHome:
    """Shared by all tests of a process that add nothing to its warehouse."""
    settings = make_home(tmp_path_factory.mktemp("measured"))
    baseline_only = measure_study(settings, study(name="baseline only", arms=[{"name": "no draft"}]))
    one_repeat = measure_study(settings, study(name="one repeat"))
    three_arms = measure_study(settings, study(name="three arms", arms=ARMS, repeats=3, slo=SLO))
    return MeasuredHome(settings, baseline_only, one_repeat, three_arms)


@pytest.fixture(scope="session")
def imported_home(tmp_path_factory: pytest.TempPathFactory) -> tuple[Settings, dict[str, Import]]:
    """With the samples of every tool, and nothing else; and what was imported, by the samples' folder."""
    settings = make_home(tmp_path_factory.mktemp("imported"))
    folders = sorted(path for path in SAMPLES.iterdir() if path.is_dir())
    imports = {folder.name: import_paths(settings, [folder], actor=ADMIN) for folder in folders}
    ingest_all(settings)
    return settings, imports


@pytest.fixture
def imports(
    settings: Settings, imported_home: tuple[Settings, dict[str, Import]], monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, Import]]:
    """Leads the pages from this test's home to the one with the samples of every tool, which it only reads."""
    assert settings
    shared, imported = imported_home
    with using_home(shared, monkeypatch):
        yield imported


def forget_everything() -> None:
    """All that is cached, but for what belongs to one published file: the file is part of its key, and tests that read
    the same one need not draw its figures again.
    """
    for cached in (
        published_data._engine,
        form_options.presets,
        form_options.engines,
        form_options.datasets,
        form_options._missing,
    ):
        cached.clear()
    published_data.settings.cache_clear()
    gate.cache_clear()


@pytest.fixture(scope="session")
def components() -> BidiComponentManager:
    """One for all pages, as a server has. Left alone, each AppTest reads the metadata of all installed packages for its
    own: half a second of processor time.
    """
    return BidiComponentManager()


@pytest.fixture
def open_page(settings: Settings, components: BidiComponentManager, monkeypatch: pytest.MonkeyPatch) -> OpenPage:
    """Opens a page by its file's name, with URL parameters, as a first visit does."""
    # Streamlit puts the page in this place, where processes started by other tests would look for what they run.
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])

    def open_(page: str, **query: str) -> AppTest:
        app = AppTest.from_file(str(MAIN), default_timeout=600)
        app._bidi_component_manager = components
        for key, value in query.items():
            app.query_params[key] = value
        if page != DEFAULT_PAGE:
            app._page_hash = calc_hash(page)  # switch_page knows pages by their URL only after a first run
        app.run()
        assert not app.exception, app.exception
        return app

    return open_


@pytest.fixture
def demo() -> Study:
    return load_preset("demo")
