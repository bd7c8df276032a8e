"""One Drafthouse for the end-to-end tests: real services, real vLLM, reference models, a real browser."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.services.homes import REPOSITORY, Home, new_home, up

ENGINE_PYTHON = Path(os.environ.get("DRAFTHOUSE_ENGINES_DIR", REPOSITORY / ".engines")) / "vllm" / "bin" / "python"
CHROMIUM_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
)


def chromium() -> str:
    """The browser that `make test` has installed."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    assert found, "no chromium: run bin/install-chromium, as `make test` does"
    return found


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """Everything up, with the reference models in place."""
    it = new_home(tmp_path_factory.mktemp("e2e"))
    prepare = (ENGINE_PYTHON, "models/prepare.py", "--to", it.folder / "models")
    subprocess.run(prepare, cwd=REPOSITORY, check=True, timeout=120)
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
    it.set_default_timeout(20_000)
    yield it
    it.close()
