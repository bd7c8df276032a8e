"""Run a module as on a host of this name. Program: `python -m tests.fleet.named HOST MODULE ...`."""

from __future__ import annotations

import platform
import runpy
import sys


def main(host: str, module: str) -> None:
    platform.node = lambda: host
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _, named, *sys.argv = sys.argv
    main(named, sys.argv[0])
