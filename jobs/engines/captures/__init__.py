"""What real engines did when a release was tried: one file per build, written by `make engine-matrix`.

The checks of a study, docs/engines.md and the stand-ins of the tests are made from these files.
"""

from __future__ import annotations

import datetime as dt
import functools
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field, JsonValue

from host.files import write_whole
from jobs.engines.kind import FlagType
from lab.study import Frozen

FOLDER = Path(__file__).parent
BASELINE = "baseline"
_RELEASE = re.compile(r"\d+(?:\.\d+)+")
#: What a study is to know of each run, by the names that docs/engines.md uses: with speculation, and in any case.
SPECULATING = ("acceptance of the run", "acceptance by position", "acceptance of each request")
ANY_ARM = (
    *("tokens of each chunk", "ids of output tokens", "hits of the prefix cache", "use of the KV cache", "preemptions"),
    *("running requests", "configuration", "version"),
)


class Reported(Frozen):
    """What the engine's own Python reported (probe_scripts)."""

    flags: tuple[str, ...]
    types: dict[str, FlagType]
    methods: tuple[str, ...]
    speculation: tuple[str, ...]


class Answer(Frozen):
    """One HTTP answer, or what a command printed last, with its exit status; 0: why the engine did not start."""

    status: int
    text: str


class TriedArm(Frozen):
    """How far the reference pair came without speculation, or with a method of it.

    `by_configuration`: the engine refused its settings before it looked at the machine, so every build of this release
    does. `known`: whether a measured run had each of `SPECULATING` and `ANY_ARM`. `metrics`: names on /metrics with
    their labels. `events`: the stream that answered a request as Drafthouse sends it.
    """

    state: Literal["measured", "not measured", "refused"]
    why: str | None = None  # in the engine's words
    by_configuration: bool = False
    known: dict[str, bool] = Field(default_factory=dict)
    metrics: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    events: tuple[JsonValue, ...] = ()


class Capture(Frozen):
    """One build of one release. `arms` are by the method of speculation, without one `BASELINE`; `streams` are the same
    request asked in other ways; `answers` are those of pages, refused requests and a refused command line.
    """

    kind: str
    version: str  # such as 0.14.1+cpu
    package: str
    tried_on: dt.date
    reported: Reported
    arms: dict[str, TriedArm]
    streams: dict[str, tuple[JsonValue, ...]]
    answers: dict[str, Answer]

    @property
    def release(self) -> str:
        """Return the version without the name of the build."""
        return release(self.version)


def release(version: str) -> str:
    """Return the numbers of a version: 0.14.1 of v0.14.1+cpu. Empty if it has none."""
    found = _RELEASE.search(version)
    return found[0] if found else ""


def numbers(version: str) -> tuple[int, ...]:
    """Return a release as numbers, by which releases are ordered."""
    return tuple(map(int, release(version).split(".") if release(version) else ()))


@functools.cache
def captures() -> Mapping[tuple[str, str], Capture]:
    """Return every capture by kind and release, the oldest first."""
    read = [Capture.model_validate_json(file.read_text(encoding="utf-8")) for file in FOLDER.glob("*.json")]
    return {(it.kind, it.release): it for it in sorted(read, key=lambda it: (it.kind, numbers(it.version)))}


def write(capture: Capture) -> Path:
    """Write a capture, replacing that of the same release."""
    file = FOLDER / f"{capture.kind}-{capture.release}.json"
    write_whole(file, _text(capture.model_dump(mode="json", exclude_defaults=True)))
    captures.cache_clear()
    return file


def _text(content: Mapping[str, JsonValue]) -> str:
    """Return a capture as JSON with a line for each entry of its parts, which a difference between two shows well."""
    parts = []
    for name, part in content.items():
        entries = part.items() if isinstance(part, dict) else ()
        lines = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in entries)
        parts.append(f"{json.dumps(name)}: {{\n{lines}\n }}" if entries else f"{json.dumps(name)}: {json.dumps(part)}")
    return "{\n " + ",\n ".join(parts) + "\n}\n"


def refusal(kind: str, version: str | None, method: str) -> str | None:
    """Return in the engine's words why this build refuses a method that it lists; None if it is not known to."""
    capture = captures().get((kind, release(version or "")))
    arm = None if capture is None else capture.arms.get(method)
    if capture is None or arm is None or arm.state != "refused":
        return None
    return arm.why if arm.by_configuration or capture.version == version else None
