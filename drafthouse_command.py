"""The `drafthouse` command. In a wheel, all of Drafthouse is below one folder that no other program has on its path."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> None:
    """Run the command, with the wheel's folder at the head of the path of this process and of those that it starts."""
    tree = Path(__file__).resolve().with_name("drafthouse_lab")
    if tree.is_dir():  # a clone has none: its environment imports the rooms from its folders
        sys.path.insert(0, str(tree))
        others = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = os.pathsep.join((str(tree), *([others] if others else [])))
        os.environ["PYTHONSAFEPATH"] = "1"  # a folder `jobs` where the command is run is not ours
    from cli.app import main as command  # noqa: PLC0415 - importable only now

    command()


if __name__ == "__main__":
    main()
