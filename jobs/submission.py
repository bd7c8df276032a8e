"""Checks whether a study can run on this host, at submission, so that nobody waits for a job that cannot start."""

from __future__ import annotations

import functools
import itertools
import unicodedata
from collections.abc import Callable, Iterator

from host.settings import Settings
from jobs import open_files, policy
from jobs.datasets.loader import check_workload
from jobs.datasets.registry import dataset_path, resolve
from jobs.engines.addresses import check_host
from jobs.engines.capabilities import Capabilities, capabilities
from jobs.engines.checks import Problem, arm_problems, flag_problems, sampling_problems, tuning_problems
from jobs.engines.hardware import hardware_name, nvidia_gpus
from jobs.engines.hub import check_hub_model
from jobs.engines.kinds import KINDS
from jobs.engines.models import REFERENCE_MODELS, check_model, expanded, local_folder
from jobs.engines.profiles import installed_profile
from jobs.engines.side_by_side import memory_problems
from jobs.engines.speculation.memory import memory_problems_of_drafts
from jobs.worker_registry import known_engines, list_workers
from lab.errors import StudyError, UserError
from lab.roles import Role
from lab.study import Arm, Study, Workload
from lab.study.tune import drafts
from warehouse.app_db.engine import app_engine


def check_study(settings: Settings, study: Study, role: Role = Role.ADMINISTRATOR) -> Study:
    """Return the study with absolute paths, because the worker may run in another folder. Raises StudyError listing
    every problem: what the policy does not allow somebody of this role, or else an engine, flag, method, model, dataset
    or address that is not available here.
    """
    if unseen := list(_text_problems("", study.model_dump(mode="json"))):
        raise StudyError(unseen)
    if refused := policy.place_problems(settings, study):
        raise StudyError(refused)  # nothing else is looked at: whether a file is there is nobody's business then
    settled = absolute(settings, study)
    problems = list(dict.fromkeys(_problems(settings, settled)))
    fields = {field for field, _ in problems}
    problems += [problem for problem in policy.setting_problems(settings, study, role) if problem[0] not in fields]
    if problems:
        raise StudyError(problems)
    return settled


def _text_problems(field: str, value: object) -> Iterator[Problem]:
    """Yield the texts with characters that nobody sees: they steer the terminal of whoever lists the study."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _text_problems(field, name)
            yield from _text_problems(f"{field}.{name}" if field else name, part)
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from _text_problems(f"{field}[{index}]", part)
    elif isinstance(value, str):
        unseen = (text for text in value if text not in "\t\n\r" and unicodedata.category(text).startswith("C"))
        if (first := next(unseen, None)) is not None:
            yield field, f"it has the character U+{ord(first):04X}, which cannot be seen: remove it"


def missing_here(settings: Settings, study: Study) -> list[Problem]:
    """Return the models, datasets and categories that the study names and that are not there.

    No engine is asked and no database is read, so that a page can call it after each edit. Empty if the study may run
    on another host, which alone knows what it has.
    """
    if settings.workers_elsewhere or not _is_for_hardware_here(study):
        return []
    try:
        for arm in study.arms:
            installed_profile(settings, arm.engine)
    except UserError:  # another host may have the engine, and then what it serves
        return []
    return list(dict.fromkeys(_missing_here(settings, absolute(settings, study))))


def absolute(settings: Settings, study: Study) -> Study:
    """Make the paths that the study names relative to the current folder absolute."""
    return study.model_copy(
        update={
            "target": _absolute_model(settings, study.target),
            "arms": tuple(_absolute_arm(settings, arm) for arm in study.arms),
            "workloads": tuple(_absolute_workload(settings, workload) for workload in study.workloads),
        }
    )


def _absolute_model(settings: Settings, name: str) -> str:
    """A hub name stays, also where a folder below the current one is called so that the policy does not allow."""
    if name in REFERENCE_MODELS:
        return name
    folder = local_folder(settings.models_dir, name)
    if folder is None and policy.may_be_folder(settings, name) and expanded(name).is_dir():
        folder = expanded(name).absolute()
    return name if folder is None else str(folder)


def _absolute_arm(settings: Settings, arm: Arm) -> Arm:
    if arm.speculation is None or arm.speculation.model is None:
        return arm
    model = _absolute_model(settings, arm.speculation.model)
    return arm.model_copy(update={"speculation": arm.speculation.model_copy(update={"model": model})})


def _absolute_workload(settings: Settings, workload: Workload) -> Workload:
    try:
        path = resolve(settings, workload.dataset).path
    except UserError:  # reported below, with the file's whole name
        path = dataset_path(workload.dataset)
    return workload if path is None else workload.model_copy(update={"dataset": str(path.absolute())})


def _problems(settings: Settings, study: Study) -> Iterator[Problem]:
    here = True
    for index, arm in enumerate(study.arms):
        field = f"arms[{index}]"
        problems, is_here = _engine_problems(settings, study, arm, field)
        here = here and is_here
        yield from problems
        if arm.server is not None and not settings.allow_metadata_addresses:
            # Checked again on connecting: by then the name may resolve to another address.
            yield from _problem(f"{field}.server.base_url", functools.partial(check_host, arm.server.base_url))
    if study.order == "side_by_side":
        yield from memory_problems(study, has_gpu=_has_gpu(settings, study))
    if here and not settings.workers_elsewhere:  # else only the worker's own host knows what it has
        yield from open_files.problems(study.loads)
        yield from _missing_here(settings, study)


def _has_gpu(settings: Settings, study: Study) -> bool:
    """Return whether a host that may take the study is known to have a GPU."""
    if bool(nvidia_gpus()) and _is_for_hardware_here(study):
        return True
    database = app_engine(settings.app_database_url)
    try:
        workers = list_workers(database)
    finally:
        database.dispose()
    wanted = (study.hardware or "").lower()
    return any(worker.gpus and wanted in worker.hardware.lower() for worker in workers)


def _engine_problems(settings: Settings, study: Study, arm: Arm, field: str) -> tuple[list[Problem], bool]:
    """Return the problems of the host that has the fewest (one capable host is enough), and whether it is this host."""
    mine = _problems_here(settings, study, arm, field)
    if mine == []:
        return [], True
    elsewhere = [has for has in _known_elsewhere(settings.app_database_url, study.hardware) if has.engine == arm.engine]
    others = [_problems_with(has, study, arm, field) for has in elsewhere]
    if mine is None and not others and not policy.is_known_engine(settings, arm.engine):
        return [_nobody_has(field, arm.engine)], False
    if mine is None or [] in others:
        return min(others, key=len, default=[]), False
    return min([*others, mine], key=len), True


def _nobody_has(field: str, engine: str) -> Problem:
    """A study whose engine nobody can judge is not taken: any of its flags might be one that the policy refuses."""
    return f"{field}.engine", (
        f"neither this host nor a worker that has reported its engines has {engine!r}: start a worker that has it, and "
        "submit again once it has reported (a quarter of a minute)"
    )


def _problems_here(settings: Settings, study: Study, arm: Arm, field: str) -> list[Problem] | None:
    """Return None if this host cannot judge: the study needs other hardware, or an engine that only others have."""
    if not _is_for_hardware_here(study):
        return None
    try:
        return _problems_with(capabilities(settings, arm.engine), study, arm, field)
    except UserError as error:
        return None if settings.workers_elsewhere else [(f"{field}.engine", str(error))]


def _is_for_hardware_here(study: Study) -> bool:
    return study.hardware is None or study.hardware.lower() in hardware_name().lower()


def _problems_with(has: Capabilities, study: Study, arm: Arm, field: str) -> list[Problem]:
    shared = study.engine_flags if KINDS[has.kind].is_started else {}
    tuned = study.tune is not None and arm.name in {draft.arm.name for draft in drafts(study.arms, study.tune)}
    of_memory = list(memory_problems_of_drafts(study, arm, has))
    of_tuning = list(tuning_problems(study.tune, has)) if tuned and study.tune is not None else []
    of_arm = [*arm_problems(field, arm, shared, has), *sampling_problems(field, arm, study.sampling, has)]
    return [*flag_problems("engine_flags", shared, has), *of_arm, *of_tuning, *of_memory]


def _known_elsewhere(app_database_url: str, hardware: str | None) -> list[Capabilities]:
    """Return the engines that workers with this hardware have reported."""
    database = app_engine(app_database_url)
    try:
        return known_engines(database, hardware)
    finally:
        database.dispose()


def _missing_here(settings: Settings, study: Study) -> Iterator[Problem]:
    check_name = functools.partial(_check_model, settings, study)
    yield from _problem("target", functools.partial(check_name, study.target))
    for index, arm in enumerate(study.arms):
        if arm.server is None and arm.speculation is not None and arm.speculation.model is not None:
            check = functools.partial(check_name, arm.speculation.model)
            yield from _problem(f"arms[{index}].speculation.model", check)
    count = max(load.num_prompts for load in study.loads)
    trace = any(load.arrivals == "trace" for load in study.loads)
    for index, workload in enumerate(study.workloads):
        check = functools.partial(check_workload, settings, workload, count, target=study.target, trace=trace)
        yield from _problem(f"workloads[{index}]", check)


def _check_model(settings: Settings, study: Study, name: str) -> None:
    check_model(settings.models_dir, name)
    if local_folder(settings.models_dir, name) is None and _hub_is_ours(settings, study):
        check_hub_model(name)


def _hub_is_ours(settings: Settings, study: Study) -> bool:
    """Return whether engines that are started here reach the hub as this process does: with its token and cache."""
    started = [arm for arm in study.arms if arm.server is None]
    profiles = (installed_profile(settings, arm.engine) for arm in started)
    environments = [*(profile.environment for profile in profiles), *(arm.environment for arm in started)]
    names = itertools.chain.from_iterable(environments)
    return bool(started) and not any(name.startswith(("HF_", "HUGGING")) for name in names)


def _problem(field: str, check: Callable[[], object]) -> Iterator[Problem]:
    try:
        check()
    except UserError as error:
        yield field, str(error)
