"""What an installed engine supports: its version, flags and methods of speculation. Probed once, then cached."""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import re
import subprocess
import tempfile
from pathlib import Path

from pydantic import BaseModel

from host.files import write_whole
from host.settings import Settings
from jobs.engines.caches import cache_variables
from jobs.engines.captures import captures, release
from jobs.engines.hardware import nvidia_gpus
from jobs.engines.kind import FlagType
from jobs.engines.kinds import KINDS
from jobs.engines.profiles import (
    Profile,
    fill_in,
    installed_of,
    installed_profile,
    profile_environment_here,
    read_profiles,
    whole_environment,
)
from jobs.engines.relied_on import takes
from lab.errors import UserError
from lab.study import Frozen

logger = logging.getLogger(__name__)
_PROBE_TIMEOUT_S = 180.0
#: Such as 0.12.0, v1.2.0rc3, 0.5.6.post2 and 0.32.0+cpu.
_VERSION = re.compile(r"v?\d+(\.\d+)+([.-]?[a-z]+[.-]?\d+)*([+-][\w.+-]+)?")


class Capabilities(Frozen):
    """What one engine of one host supports. None means unknown and is not checked."""

    engine: str  # its name in engines.toml
    kind: str
    version: str | None
    methods: tuple[str, ...]
    flags: tuple[str, ...] | None
    gpus: tuple[str, ...]  # of the host
    speculation: tuple[str, ...] | None = None  # the keys of its settings of speculation
    flag_types: dict[str, FlagType] | None = None  # by flag, as far as its parser says so

    def takes(self, flag: str) -> bool:
        """Return whether a flag that no study set may be passed to this engine."""
        return takes(self.kind, flag, self.flags, self.version)


def all_capabilities(settings: Settings) -> list[Capabilities]:
    """Return the capabilities of every engine installed here. Takes about 10 s for a new engine, and nothing after
    that.
    """
    profiles, of_engines = read_profiles(settings.engines_file), []
    for engine in profiles:
        try:
            of_engines.append(capabilities_of(settings, engine, installed_of(settings, profiles, engine)))
        except UserError as missing:
            logger.info("%s", missing)
    return of_engines


def capabilities(settings: Settings, engine: str) -> Capabilities:
    """Return the capabilities of one engine of this host. Raises UserError if it is not installed."""
    return capabilities_of(settings, engine, installed_profile(settings, engine))


def capabilities_of(settings: Settings, engine: str, profile: Profile, *, probe: bool = True) -> Capabilities:
    """Return the capabilities of an engine of this host by its name and profile. Without `probe` nothing is started:
    an engine that was not asked before is described by the capture of the same build, or by its kind.
    """
    kind = KINDS[profile.kind]
    flags = None if kind.flags is None else tuple(kind.flags)
    known = _Reported(methods=kind.methods, flags=flags, types=dict(kind.flags or {}))
    version = installed_version(settings, profile, probe=probe)
    reported = _reported(settings, profile, probe=probe) or (None if probe else _captured(kind.name, version)) or known
    return Capabilities(
        engine=engine,
        kind=kind.name,
        version=version,
        methods=reported.methods,
        flags=reported.flags,
        gpus=nvidia_gpus(),
        speculation=reported.speculation,
        flag_types=reported.types,
    )


class _Reported(BaseModel):
    """What an engine reports about itself, or what is known about its kind."""

    methods: tuple[str, ...]
    flags: tuple[str, ...] | None
    speculation: tuple[str, ...] | None = None
    types: dict[str, FlagType] | None = None


def _captured(kind: str, version: str | None) -> _Reported | None:
    """Return what an engine of this very build reported when it was tried."""
    capture = captures().get((kind, release(version or "")))
    return None if capture is None or capture.version != version else _Reported(**vars(capture.reported))


def installed_version(settings: Settings, profile: Profile, *, probe: bool = True) -> str | None:
    """Return the version that the engine's Python has installed, or that its version_command prints at the end of a
    line; None if unknown. Without `probe` no command is run.
    """
    program = profile.program(settings.engines_dir)
    if program is not None and (metadata := _installed(program, profile.kind)):
        return metadata.name.split("-")[1]
    words = tuple(fill_in(settings, word) for word in profile.version_command)
    printed = _output(words, _environment(settings, profile)) if words and probe else None
    last_words = [line.split()[-1] for line in (printed or "").splitlines() if line.strip()]
    return next((word for word in reversed(last_words) if _VERSION.fullmatch(word)), None)


def _reported(settings: Settings, profile: Profile, *, probe: bool) -> _Reported | None:
    """Return what the engine itself reports; None if it cannot be queried (in a container), or was not without
    `probe`.
    """
    program = profile.program(settings.engines_dir)
    script = KINDS[profile.kind].probe
    if program is None or script is None:
        return None
    python, installed = _python_of(program), _installed(program, profile.kind)
    if installed is None or python is None:
        return None
    key = _key(program, installed, script)
    cached = settings.home / "engines" / "capabilities" / f"{key}.json"
    if not cached.exists():
        if not probe:
            return None
        printed = _output((str(python), "-I", str(script)), _environment(settings, profile), key)
        if not printed or not printed.strip():
            return None
        cached.parent.mkdir(parents=True, exist_ok=True)
        write_whole(cached, printed.strip().splitlines()[-1])
    try:
        return _Reported.model_validate_json(cached.read_bytes())
    except ValueError:
        cached.unlink(missing_ok=True)  # damaged: the next call probes again
        return None


def _python_of(program: Path) -> Path | None:
    """Return the Python that runs the program: beside it in an environment, or named in its first line."""
    if (beside := program.parent / "python").exists():
        return beside
    with program.open("rb") as file:
        first = file.readline(256).decode("utf-8", "replace").removeprefix("#!").split()
    named = Path(first[0]) if first else program
    return named if named.name.startswith("python") and named.exists() else None


def _installed(program: Path, distribution: str) -> Path | None:
    """Return the metadata folder of the distribution beside the program's Python; its name ends in the version."""
    prefix = program.parent.parent
    folders = sorted(prefix.glob(f"lib/python3*/*-packages/{distribution}-*.dist-info"))
    return folders[-1].with_suffix("") if folders else None


def _key(program: Path, installed: Path, script: Path) -> str:
    """Return a key that changes when the engine is reinstalled, or the probe script is edited."""
    content = (str(program), program.stat().st_mtime_ns, str(installed), script.stat().st_mtime_ns)
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:24]


def _environment(settings: Settings, profile: Profile) -> tuple[tuple[str, str], ...]:
    here = profile_environment_here(settings, profile)
    whole = whole_environment(settings.engines_dir, profile, here, cache_variables(settings.home))
    return tuple(sorted(whole.items()))


@functools.lru_cache(maxsize=32)
def _output(words: tuple[str, ...], environment: tuple[tuple[str, str], ...], _installation: str = "") -> str | None:
    """Return what a command in the engine's environment prints; None, with a warning in our log, if it fails.

    Cached per installation, failures too: otherwise every caller would wait again for an engine that cannot answer.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="drafthouse-", ignore_cleanup_errors=True) as temporary:
            own = {"TMPDIR": temporary} | dict(environment)
            done = subprocess.run(words, env=own, capture_output=True, text=True, check=False, timeout=_PROBE_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        logger.warning("%s: %s", words[0], error)
        return None
    if done.returncode:
        logger.warning("%s failed: %s", " ".join(words), done.stderr.strip()[-500:])
        return None
    return done.stdout
