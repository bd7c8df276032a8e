"""What an installed engine has: its version, flags and ways to speculate. Asked once, then remembered."""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import os
import subprocess
from pathlib import Path

from jobs.engines.hardware import nvidia_gpus
from jobs.engines.kinds import KINDS
from jobs.engines.profiles import (
    Profile,
    fill_in,
    installed_profile,
    profile_environment_here,
    read_profiles,
    whole_environment,
)
from lab.errors import UserError
from lab.study import Frozen
from warehouse.settings import Settings

logger = logging.getLogger(__name__)
_ASKED = Path(__file__).parent / "probe_scripts"
#: What is asked of which kind, and the distribution whose Python is asked.
_QUESTIONS = {"vllm": (_ASKED / "vllm_answers.py", "vllm")}
_ANSWERS_WITHIN_S = 180.0


class Capabilities(Frozen):
    """What a study may ask of an engine of one host. `flags` of None: not known, so not checked."""

    engine: str  # its name in engines.toml
    kind: str
    version: str | None
    methods: tuple[str, ...]
    flags: tuple[str, ...] | None
    gpus: tuple[str, ...]  # of the host


def all_capabilities(settings: Settings) -> list[Capabilities]:
    """Of every engine that is installed here. Takes some 10 s for each that was never asked, and nothing after."""
    found = []
    for engine in read_profiles(settings):
        try:
            found.append(capabilities(settings, engine))
        except UserError as missing:
            logger.info("%s", missing)
    return found


def capabilities(settings: Settings, engine: str) -> Capabilities:
    """Of one engine of this host. Raises UserError when it is not installed."""
    profile = installed_profile(settings, engine)
    kind = KINDS[profile.kind]
    methods, flags = tuple(kind.methods), kind.flags
    if (answer := _answer(settings, profile)) is not None:
        methods, flags = answer
    version = installed_version(settings, profile)
    return Capabilities(
        engine=engine, kind=kind.name, version=version, methods=methods, flags=flags, gpus=nvidia_gpus()
    )


def installed_version(settings: Settings, profile: Profile) -> str | None:
    """What the engine's Python has installed, or its version_command prints; None where neither tells."""
    distribution = _QUESTIONS[profile.kind][1] if profile.kind in _QUESTIONS else profile.kind
    program = profile.program(settings)
    if program is not None and (found := _installed(program, distribution)):
        return found.name.split("-")[1]
    words = tuple(fill_in(settings, word) for word in profile.version_command)
    printed = _output(words, _environment(settings, profile)) if words else None
    return printed.split()[-1] if printed and printed.strip() else None


def _answer(settings: Settings, profile: Profile) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Its methods and flags, in its own words; None for an engine that cannot be asked (in a container, say)."""
    program = profile.program(settings)
    if program is None or profile.kind not in _QUESTIONS:
        return None
    script, distribution = _QUESTIONS[profile.kind]
    python, installed = _python_of(program), _installed(program, distribution)
    if installed is None or python is None:
        return None
    key = _key(program, installed, script)
    remembered = settings.home / "engines" / "capabilities" / f"{key}.json"
    if not remembered.exists():
        printed = _output((str(python), "-I", str(script)), _environment(settings, profile), key)
        if printed is None:
            return None
        _remember(remembered, printed.splitlines()[-1])
    try:
        answer = json.loads(remembered.read_text(encoding="utf-8"))
        return tuple(answer["methods"]), tuple(answer["flags"])
    except (ValueError, LookupError):
        remembered.unlink(missing_ok=True)  # damaged: asked again next time
        return None


def _python_of(program: Path) -> Path | None:
    """The Python that runs it: beside it in an environment, or named in its first line."""
    if (beside := program.parent / "python").exists():
        return beside
    with program.open("rb") as file:
        first = file.readline(256).decode("utf-8", "replace").removeprefix("#!").split()
    named = Path(first[0]) if first else program
    return named if named.name.startswith("python") and named.exists() else None


def _installed(program: Path, distribution: str) -> Path | None:
    """The metadata folder of the distribution beside the program's Python: its name ends in the version."""
    prefix = program.parent.parent
    folders = sorted(prefix.glob(f"lib/python3*/*-packages/{distribution}-*.dist-info"))
    return folders[-1].with_suffix("") if folders else None


def _key(program: Path, installed: Path, script: Path) -> str:
    """Changes when the engine is installed anew, or the question does."""
    content = (str(program), program.stat().st_mtime_ns, str(installed), script.stat().st_mtime_ns)
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:24]


def _environment(settings: Settings, profile: Profile) -> tuple[tuple[str, str], ...]:
    here = profile_environment_here(settings, profile)
    return tuple(sorted(whole_environment(settings, profile, here).items()))


@functools.lru_cache(maxsize=32)
def _output(words: tuple[str, ...], environment: tuple[tuple[str, str], ...], _installation: str = "") -> str | None:
    """What a command in the engine's environment prints; None, with a line in our log, when it fails. Asked once in a
    process for an installation: while an engine fails to answer everybody would wait for nothing.
    """
    try:
        done = subprocess.run(
            words, env=dict(environment), capture_output=True, text=True, check=False, timeout=_ANSWERS_WITHIN_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        logger.warning("%s: %s", words[0], error)
        return None
    if done.returncode:
        logger.warning("%s failed: %s", " ".join(words), done.stderr.strip()[-500:])
        return None
    return done.stdout


def _remember(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    writing = file.with_suffix(f".{os.getpid()}.writing")
    writing.write_text(text, encoding="utf-8")
    writing.rename(file)
