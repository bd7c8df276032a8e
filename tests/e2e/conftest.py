"""One Drafthouse for the end-to-end tests: real services, real vLLM, reference models, a real browser."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.cli.homes import Home, new_home, up
from warehouse.settings import Settings

CHROMIUM_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
)
#: A shared machine may stand still for a minute.
PATIENCE_MS = 100_000
expect.set_options(timeout=PATIENCE_MS)


def chromium() -> str:
    """The browser that `make test` has installed."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    assert found, "no chromium: run bin/install-chromium, as `make test` does"
    return found


@pytest.fixture(scope="package")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """Everything up, with the reference models in place."""
    it = new_home(tmp_path_factory.mktemp("e2e"))
    it.folder.mkdir(parents=True, exist_ok=True)
    (it.folder / "models").symlink_to(Settings().models_dir.absolute())
    with up(it):
        yield it


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Of a module, not of the session: its event loop runs in this thread, and other tests start their own there."""
    with sync_playwright() as playwright:
        it = playwright.chromium.launch(executable_path=chromium(), args=list(CHROMIUM_FLAGS))
        yield it
        it.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    it = browser.new_page(viewport={"width": 1280, "height": 900})
    it.set_default_timeout(PATIENCE_MS)
    yield it
    it.close()
