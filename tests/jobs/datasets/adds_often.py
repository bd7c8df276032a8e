"""A process that registers a file as a dataset again and again; its arguments are the name and the file."""

from __future__ import annotations

import sys
from pathlib import Path

from host.settings import load_settings
from jobs.datasets.listing import add_dataset
from tests.actors import ADMIN

if __name__ == "__main__":
    for _ in range(5):
        add_dataset(load_settings(), sys.argv[1], Path(sys.argv[2]), actor=ADMIN)
