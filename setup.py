"""Builds the wheel: the whole tree below one folder, so that its rooms collide with nobody's packages.

MANIFEST.in lists what ships. docs/decisions/0019-one-folder-in-the-wheel.md says why.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

TREE = "drafthouse_lab"
ROOMS = ("lab", "host", "warehouse", "access", "interchange", "jobs", "workers", "webapp", "services", "cli")


class BelowOneFolder(build_py):  # type: ignore[misc] # this setuptools has no types
    """Copies what MANIFEST.in lists below TREE, beside the modules that are imported by their own names."""

    def run(self) -> None:
        if self.editable_mode:
            super().run()
            return
        tree = Path(self.build_lib, TREE)
        shutil.rmtree(tree, ignore_errors=True)  # an earlier build may have left what is deleted by now
        self.build_modules()
        self.run_command("egg_info")
        for name in self.get_finalized_command("egg_info").filelist.files:
            if ".egg-info" not in name:
                self.mkpath(str((tree / name).parent))
                self.copy_file(name, str(tree / name))


#: The environment of a clone imports each room from its folder.
_IN_A_CLONE = "editable_wheel" in sys.argv

setup(
    cmdclass={"build_py": BelowOneFolder},
    py_modules=["drafthouse", "drafthouse_command"],
    packages=find_packages(include=[f"{room}*" for room in ROOMS]) if _IN_A_CLONE else [TREE],
    package_dir={} if _IN_A_CLONE else {TREE: "."},
)
