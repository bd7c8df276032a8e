"""Arguments and options that several verbs share."""

from __future__ import annotations

from typing import Annotated

import typer

from lab.errors import UserError

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
JobName = Annotated[
    str,
    typer.Argument(metavar="JOB", help="A job's id, or a study's name for its newest job."),
]
#: A study that has results.
StudyId = Annotated[str, typer.Argument(help="A job's id, the beginning of a study's digest, or a study's name.")]
#: A study to be measured.
StudyName = Annotated[
    str, typer.Argument(help="A preset, or a file in TOML or JSON; - reads TOML from standard input.")
]
AsReference = Annotated[bool, typer.Option("--reference", help="Scale down to the reference pair: minutes, no GPU.")]
OnEngine = Annotated[str | None, typer.Option("--engine", help="Run vllm's arms on this engine, such as vllm-0-14-1.")]
Wait = Annotated[
    bool, typer.Option("--wait", help="Wait until the job ends; exit status 1 if a run failed or none is valid.")
]
PricePerHour = Annotated[float | None, typer.Option(help="USD per hour, instead of the recorded price.")]


def only_one_of(**options: object) -> None:
    """Refuse options that exclude each other: a verb would ignore one of them. Raises UserError."""
    given = [f"--{name.removeprefix('as_')}" for name, value in options.items() if value]
    if len(given) > 1:
        raise UserError(f"give one of {' and '.join(given)}: they exclude each other")


def share(text: str) -> float:
    """Read a share of 0 up to 1. Raises UserError."""
    try:
        read = float(text.removesuffix("%")) / 100 if text.endswith("%") else float(text)
    except ValueError:
        read = -1.0
    if not 0 <= read < 1:
        raise UserError(f"{text!r} is not a share: write 5% or 0.05")
    return read
