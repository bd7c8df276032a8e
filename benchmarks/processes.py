"""A home for a benchmark, and its ingester."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from host.settings import ENVIRONMENT_PREFIX, Settings


@contextmanager
def own_home(settings: Settings) -> Iterator[Settings]:
    """Create a temporary home for this benchmark, with the models of the real one."""
    with tempfile.TemporaryDirectory(prefix="drafthouse-bench-") as folder:
        own = settings.model_copy(update={"home": Path(folder), "bundles_dir": None, "database_url": None})
        own.models_dir.symlink_to(settings.models_dir.absolute())
        yield own


@contextmanager
def ingesting(settings: Settings) -> Iterator[psutil.Process]:
    """Run the home's ingester in a process of its own."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ENVIRONMENT_PREFIX)}
    environment[f"{ENVIRONMENT_PREFIX}HOME"] = str(settings.home.absolute())
    command = [sys.executable, "-m", "warehouse.ingest.service"]
    with subprocess.Popen(command, env=environment, cwd=Path(__file__).parents[1]) as process:
        try:
            yield psutil.Process(process.pid)
        finally:
            process.kill()
