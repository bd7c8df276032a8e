"""The environment of a run: everything that could change its numbers, measured and not assumed."""

from __future__ import annotations

import functools
import hashlib
import json
import platform
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil

from host.settings import Settings
from jobs.datasets.listing import dataset_digest
from jobs.engines.capabilities import capabilities
from jobs.engines.hardware import hardware_name, processors
from jobs.engines.models import local_folder, model_path
from jobs.engines.profiles import installed_profile, profile_environment, whole_environment
from jobs.fleet.blocks import Likeness
from lab.metrics.records import Circumstances
from lab.study import Arm, Study
from lab.study.cell_ids import Contents
from workers.engine_runtime.launch import Command, RunningEngine
from workers.probes.nvml import EngineGpus, driver_version
from workers.slots import slot_record

_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf")
_CHUNK_BYTES = 1 << 22


def describe_environment(
    settings: Settings,
    study: Study,
    arm: Arm,
    *,
    contents: Contents,
    engine: RunningEngine | Command | None,
    gpus: EngineGpus,
) -> Circumstances:
    """Describe a run's environment. `engine`: the running one, or its command if it did not start, or None."""
    command = engine.command if isinstance(engine, RunningEngine) else engine
    running = engine if isinstance(engine, RunningEngine) else None
    draft = arm.speculation.model if arm.speculation else None
    draft_revision = arm.speculation.options.get("revision") if arm.speculation else None
    variables = whole_environment(settings.engines_dir, command.profile, command.own_environment) if command else None
    flags = study.engine_flags | arm.flags
    return Circumstances(
        hardware=hardware_name(),
        host=platform.node(),
        cpu_count=len(processors()),
        memory_bytes=psutil.virtual_memory().total,
        os=platform.platform(),
        python_version=platform.python_version(),
        drafthouse_revision=_revision(),
        engine=arm.engine,
        engine_version=running.version if running else None,
        command=command.argv if command else (),
        environment=command.shown_environment if command else {},
        effective_config=running.effective_config if running else {},
        target_path=model_path(settings.models_dir, study.target),
        target_digest=contents.models.get(study.target),
        target_revision=hub_revision(settings.models_dir, study.target, variables, flags.get("revision")),
        draft_path=None if draft is None else model_path(settings.models_dir, draft),
        draft_digest=None if draft is None else contents.models.get(draft),
        draft_revision=None if draft is None else hub_revision(settings.models_dir, draft, variables, draft_revision),
        driver_version=driver_version(),
        gpus=tuple(map(str, gpus.gpus)),
        gpus_found_by=gpus.found_by,
        settings=settings.model_dump(mode="json") | slot_record(),
        slot=settings.slot if settings.slots > 1 else None,
        start_s=running.start_s if running else None,
    )


@functools.cache
def _revision() -> str | None:
    """Return the commit that this code was started from, with `+changes` if files differ from it; None outside a
    checkout.
    """
    here = Path(__file__).parent

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(("git", "-C", str(here), *arguments), capture_output=True, text=True, check=False)
        except FileNotFoundError:
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    tracked = git("ls-files", "--error-unmatch", __file__)  # installed inside another project's checkout: not ours
    commit = git("rev-parse", "--verify", "HEAD") if tracked else None
    if commit is None:
        return None
    return commit + ("+changes" if git("status", "--porcelain", "--untracked-files=no") else "")


def hub_revision(
    models_dir: Path, model: str, environment: Mapping[str, str] | None, revision: object = None
) -> str | None:
    """Return the commit of a hub model that an engine in this `environment` loaded for `revision` (by default, main).

    None for a local folder, and if the commit is not in the cache because no engine came up or its cache is in a
    container.
    """
    from huggingface_hub import try_to_load_from_cache  # noqa: PLC0415 - slow to import, and needed for hub names alone

    if environment is None or local_folder(models_dir, model) is not None:
        return None
    wanted = "main" if revision is None else str(revision)
    try:
        config = try_to_load_from_cache(model, "config.json", cache_dir=_hub_cache(environment), revision=wanted)
    except (OSError, ValueError):  # an unreadable cache, or a name that no hub model can have
        return None
    return Path(config).parent.name if isinstance(config, str) else None


def _hub_cache(environment: Mapping[str, str]) -> Path:
    """Return huggingface_hub's cache folder by its variables. The library itself reads them only from its own process;
    the engine has a different environment.
    """
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if folder := environment.get(variable):
            return Path(folder).expanduser()
    if home := environment.get("HF_HOME"):
        return Path(home).expanduser() / "hub"
    caches = environment.get("XDG_CACHE_HOME")
    return (Path(caches) if caches else Path("~/.cache")).expanduser() / "huggingface" / "hub"


def study_contents(settings: Settings, study: Study, check: Callable[[], None]) -> Contents:
    """Return the digests of the study's target, draft models and datasets; None without a file. `check` is called
    often, and raises if the job must stop. Raises UserError for a dataset that cannot be read.
    """
    drafts = [arm.speculation.model for arm in study.arms if arm.speculation is not None]
    models = {name for name in (study.target, *drafts) if name is not None}
    cache = settings.home / "engines" / "digests"
    return Contents(
        models={name: weights_digest(settings.models_dir, cache, name, check) for name in sorted(models)},
        datasets={workload.name: dataset_digest(settings, workload) for workload in study.workloads},
    )


def likeness_here(settings: Settings, study: Study, check: Callable[[], None]) -> Likeness | None:
    """Return what hosts that share this study must have in common, as this one has it: hardware, versions of engines,
    weights (of a hub name, the commit in this host's cache) and datasets. None if something of it is unknown.

    Raises as `study_contents`, and UserError for an engine that is not installed.
    """
    versions = {arm.engine: capabilities(settings, arm.engine).version for arm in study.arms}
    contents = study_contents(settings, study, check)
    weights = dict(contents.models)
    for arm in study.arms:
        profile = installed_profile(settings, arm.engine)
        own = profile_environment(settings, profile, study, arm)
        variables = whole_environment(settings.engines_dir, profile, own)
        draft, flags = arm.speculation, study.engine_flags | arm.flags
        wanted: dict[str, object] = {study.target: flags.get("revision")}
        if draft is not None and draft.model is not None:
            wanted[draft.model] = draft.options.get("revision")
        for model, revision in wanted.items():
            weights[model] = weights[model] or hub_revision(settings.models_dir, model, variables, revision)
    named: dict[str, str | None] = {"hardware": hardware_name()}
    named |= {f"engine {name}": version for name, version in versions.items()}
    named |= {f"weights of {name}": digest for name, digest in weights.items()}
    for workload in study.workloads:  # prompts without a digest are generated, the same everywhere
        named[f"dataset of {workload.name}"] = contents.datasets.get(workload.name) or workload.dataset
    known = {name: value for name, value in named.items() if value is not None}
    return known if len(known) == len(named) else None


def weights_digest(models_dir: Path, cache: Path, model: str, check: Callable[[], None]) -> str | None:
    """Return the SHA-256 over the names and contents of a folder's weights; None for a hub name or a folder without
    weights. Cached in the folder `cache` by path, size and modification time. `check` is called often, and raises if
    the job must stop.
    """
    folder = local_folder(models_dir, model)
    files = sorted(path for path in folder.iterdir() if path.suffix in _WEIGHTS) if folder and folder.is_dir() else []
    if not files:
        return None
    total = hashlib.sha256()
    for path in files:
        total.update(f"{path.name}\0{_file_digest(cache, path, check)}\n".encode())
    return total.hexdigest()


def _file_digest(cache: Path, path: Path, check: Callable[[], None]) -> str:
    stat = path.stat()
    key = hashlib.sha256(json.dumps([str(path.resolve()), stat.st_size, stat.st_mtime_ns]).encode()).hexdigest()
    cached = cache / key
    if cached.exists() and len(text := cached.read_text(encoding="utf-8")) == hashlib.sha256().digest_size * 2:
        return text
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            check()
            digest.update(chunk)
    cache.mkdir(parents=True, exist_ok=True)
    cached.write_text(digest.hexdigest(), encoding="utf-8")
    return digest.hexdigest()
