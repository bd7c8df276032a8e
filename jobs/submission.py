"""Submission in one pass: a `Context` reads the state of this lab, and `problems` judges a study by it.

Pages, the API, the command and the queue call `problems`, so that nobody waits for a job that cannot start.
"""

from __future__ import annotations

import functools
import itertools
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence

import sqlalchemy as sa

from host.settings import Settings
from jobs import open_files
from jobs.datasets.loader import check_workload
from jobs.datasets.registry import dataset_path, resolve
from jobs.engines.addresses import check_host, check_written
from jobs.engines.capabilities import Capabilities, capabilities_of
from jobs.engines.checks import Problem, side_by_side_problems, study_problems
from jobs.engines.hardware import hardware_name, nvidia_gpus
from jobs.engines.models import REFERENCE_MODELS, check_hub_model, check_model, expanded, local_folder
from jobs.engines.profiles import Profile, installed_of, read_profiles
from jobs.engines.unknown import unknown_of_arm
from jobs.fleet.worker_registry import WorkerInfo, distinct_engines, has_hardware, lacking_hardware, list_workers
from jobs.forecast import forecast_study
from jobs.policy import Rules, load_policy, location_problems, policy_file, setting_problems
from lab.errors import RevisionError, StudyError, UserError
from lab.roles import Role
from lab.study import Arm, Study, Workload
from warehouse.app_db.engine import open_engine


class Context:
    """The state of this lab by which a study is judged. Each part is read once, on first use."""

    def __init__(self, settings: Settings, database: sa.Engine | None = None) -> None:
        self.settings = settings
        self._database = database
        self._capabilities: dict[tuple[str, bool], Capabilities] = {}

    @functools.cached_property
    def rules(self) -> Rules:
        """Return the policy. Raises SettingsError for a file that cannot be used."""
        settings = self.settings

        def hours_of(study: Study) -> float:
            return forecast_study(settings, study).seconds / 3600

        return Rules(load_policy(settings), policy_file(settings), settings.models_dir, self.kind_of, hours_of)

    @functools.cached_property
    def profiles(self) -> Mapping[str, Profile]:
        """Return the engines of engines.toml. Raises SettingsError."""
        return read_profiles(self.settings.engines_file)

    @functools.cached_property
    def workers(self) -> Sequence[WorkerInfo]:
        """Return every worker that the app database lists; none before this home is set up."""
        if self._database is not None:
            return list_workers(self._database)
        try:
            with open_engine(self.settings.app_database_url) as database:
                return list_workers(database)
        except RevisionError:
            return ()

    def profile(self, engine: str) -> Profile:
        """Return the profile of an engine that can be started here. Raises UserError."""
        return installed_of(self.settings, self.profiles, engine)

    def capabilities(self, engine: str, *, probe: bool = True) -> Capabilities:
        """Return what an engine of this host supports. Raises UserError if it is not installed."""
        key = engine, probe
        if key not in self._capabilities:
            self._capabilities[key] = capabilities_of(self.settings, engine, self.profile(engine), probe=probe)
        return self._capabilities[key]

    def kind_of(self, engine: str) -> str | None:
        """Return the kind of an engine that this host has or a worker has reported; None for any other."""
        if engine in self.profiles:
            return self.profiles[engine].kind
        return next((known.kind for known in distinct_engines(self.workers) if known.engine == engine), None)


def check_study(
    settings: Settings, study: Study, role: Role = Role.ADMINISTRATOR, database: sa.Engine | None = None
) -> Study:
    """Return the study with absolute paths. Raises StudyError listing every problem for somebody of this role."""
    context = Context(settings, database)
    if found := problems(context, study, role):
        raise StudyError(found)
    return absolute(context, study)


def problems(
    context: Context, study: Study, role: Role = Role.ADMINISTRATOR, *, probe_engines: bool = True
) -> list[Problem]:
    """Return every problem of the study as (field, sentence): whatever the policy forbids somebody of this role, or
    an engine, flag, method, model, dataset, address or hardware that is not available. Empty if it would be accepted.

    Without `probe_engines` no engine is started and no host's name resolved, so that a page can call it after each
    edit: an engine is judged by what it said before, or by its version; models and datasets are checked if this host
    has all the engines.
    """
    if unseen := list(_text_problems("", study.model_dump(mode="json"))):
        return unseen
    if unreadable := list(_problem("arms", lambda: context.profiles)):
        return unreadable  # without the list of engines the policy cannot judge what an arm sets
    if refused := location_problems(context.rules, study):
        return refused  # nothing else is checked, so that nobody learns whether a file exists
    settled = absolute(context, study)
    found = dict.fromkeys(_problems(context, settled, probe_engines=probe_engines))
    fields = {field for field, _ in found}
    return [*found, *(refused for refused in setting_problems(context.rules, study, role) if refused[0] not in fields)]


def _text_problems(field: str, value: object) -> Iterator[Problem]:
    """Yield the texts with invisible characters, which could control the terminal of whoever lists the study."""
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


def absolute(context: Context, study: Study) -> Study:
    """Make the paths that the study names absolute, because the worker may run in another folder."""
    return study.model_copy(
        update={
            "target": _absolute_model(context, study.target),
            "arms": tuple(_absolute_arm(context, arm) for arm in study.arms),
            "workloads": tuple(_absolute_workload(context.settings, workload) for workload in study.workloads),
        }
    )


def _absolute_model(context: Context, name: str) -> str:
    """Return the absolute folder of the name, even if the policy forbids it; a hub name unchanged."""
    if name in REFERENCE_MODELS:
        return name
    folder = local_folder(context.settings.models_dir, name)
    if folder is None and context.rules.may_be_folder(name) and expanded(name).is_dir():
        folder = expanded(name).absolute()
    return name if folder is None else str(folder)


def _absolute_arm(context: Context, arm: Arm) -> Arm:
    if arm.speculation is None or arm.speculation.model is None:
        return arm
    model = _absolute_model(context, arm.speculation.model)
    return arm.model_copy(update={"speculation": arm.speculation.model_copy(update={"model": model})})


def _absolute_workload(settings: Settings, workload: Workload) -> Workload:
    try:
        path = resolve(settings, workload.dataset).path
    except UserError:  # reported below, with the file's whole name
        path = dataset_path(workload.dataset)
    return workload if path is None else workload.model_copy(update={"dataset": str(path.absolute())})


def _problems(context: Context, study: Study, *, probe_engines: bool) -> Iterator[Problem]:
    settings, here = context.settings, True
    for index, arm in enumerate(study.arms):
        field = f"arms[{index}]"
        if not probe_engines:
            here = here and _is_installed_here(context, study, arm)
            every = (study_problems(study, arm, field, has) for has in _known(context, study, arm))
            fewest: list[Problem] = min(every, key=len, default=[])
            yield from fewest
            yield from _address_problems(context, arm, field, check_written)
            continue
        found, is_here = _engine_problems(context, study, arm, field)
        here = here and is_here
        yield from found
        yield from _address_problems(context, arm, field, check_host)
    if study.order == "side_by_side":
        yield from side_by_side_problems(study, has_gpu=_has_gpu(context, study))
    if here and not settings.workers_elsewhere:  # otherwise models and datasets are on the worker's host
        yield from open_files.problems(study.loads)
        yield from _missing_here(context, study)
    yield from _hardware_problems(context, study)


def _address_problems(context: Context, arm: Arm, field: str, check: Callable[[str], None]) -> Iterator[Problem]:
    """Yield the addresses that `check` refuses. They are checked again on connecting: by then a name may resolve to
    another address.
    """
    if arm.server is None or context.settings.allow_metadata_addresses:
        return
    for name in ("base_url", "proxy"):
        if (address := getattr(arm.server, name)) is not None:
            yield from _problem(f"{field}.server.{name}", functools.partial(check, address))


def _known(context: Context, study: Study, arm: Arm) -> Iterator[Capabilities]:
    """Yield what is known, without starting anything, of the arm's engine on each host that may take the study."""
    if _is_installed_here(context, study, arm):
        yield context.capabilities(arm.engine, probe=False)
    able = [worker for worker in context.workers if has_hardware(worker.hardware, study.hardware)]
    yield from (has for has in distinct_engines(able) if has.engine == arm.engine)


def unknown(context: Context, study: Study) -> list[Problem]:
    """Return what will stay unknown in the study's results as (field, sentence), on the host that lacks the least.
    Nothing is started, and none of it prevents submission.
    """
    found: list[Problem] = []
    for index, arm in enumerate(study.arms):
        every = (unknown_of_arm(study, arm, f"arms[{index}]", has) for has in _known(context, study, arm))
        fewest: list[Problem] = min(every, key=len, default=[])
        found += fewest
    return found


def _is_for_hardware_here(study: Study) -> bool:
    return has_hardware(hardware_name(), study.hardware)


def _is_installed_here(context: Context, study: Study, arm: Arm) -> bool:
    try:
        context.profile(arm.engine)
    except UserError:  # another host may have the engine, and then its models too
        return False
    return _is_for_hardware_here(study)


def _has_gpu(context: Context, study: Study) -> bool:
    """Return whether a host that may take the study is known to have a GPU."""
    if nvidia_gpus() and _is_for_hardware_here(study):
        return True
    return any(worker.gpus and has_hardware(worker.hardware, study.hardware) for worker in context.workers)


def _hardware_problems(context: Context, study: Study) -> Iterator[Problem]:
    """Yield hardware that no known worker has; without any known worker everything is allowed."""
    if lacking := lacking_hardware(study, context.workers):
        remedy = "Leave hardware out to allow any, or start `drafthouse worker` on such a machine first"
        yield "hardware", f"{lacking}. {remedy}"


def _engine_problems(context: Context, study: Study, arm: Arm, field: str) -> tuple[list[Problem], bool]:
    """Return the problems of the host that has the fewest (one capable host is enough), and whether it is this host."""
    mine = _problems_here(context, study, arm, field)
    if mine == []:
        return [], True
    able = [worker for worker in context.workers if has_hardware(worker.hardware, study.hardware)]
    others = [study_problems(study, arm, field, has) for has in distinct_engines(able) if has.engine == arm.engine]
    if mine is None and not others and context.kind_of(arm.engine) is None:
        # A study whose engine nobody can judge is refused: any of its flags might be one that the policy does not allow
        nobody = (
            f"neither this host nor a worker that has reported its engines has {arm.engine!r}: start a worker that has "
            "it, and submit again once it has reported (a quarter of a minute)"
        )
        return [(f"{field}.engine", nobody)], False
    if mine is None or [] in others:
        return min(others, key=len, default=[]), False
    return min([*others, mine], key=len), True


def _problems_here(context: Context, study: Study, arm: Arm, field: str) -> list[Problem] | None:
    """Return the problems on this host; None if it cannot judge a study that needs other hosts' hardware or engine."""
    if not _is_for_hardware_here(study):
        return None
    try:
        return study_problems(study, arm, field, context.capabilities(arm.engine))
    except UserError as error:
        return None if context.settings.workers_elsewhere else [(f"{field}.engine", str(error))]


def _missing_here(context: Context, study: Study) -> Iterator[Problem]:
    """Yield the models, datasets and categories that do not exist here."""
    check_name = functools.partial(_check_model, context, study)
    yield from _problem("target", functools.partial(check_name, study.target))
    for index, arm in enumerate(study.arms):
        if arm.server is None and arm.speculation is not None and arm.speculation.model is not None:
            check = functools.partial(check_name, arm.speculation.model)
            yield from _problem(f"arms[{index}].speculation.model", check)
    count = max(load.num_prompts for load in study.loads)
    trace = any(load.arrivals == "trace" for load in study.loads)
    for index, workload in enumerate(study.workloads):
        check = functools.partial(check_workload, context.settings, workload, count, target=study.target, trace=trace)
        yield from _problem(f"workloads[{index}]", check)


def _check_model(context: Context, study: Study, name: str) -> None:
    check_model(context.settings.models_dir, name)
    if local_folder(context.settings.models_dir, name) is None and _hub_is_ours(context, study):
        check_hub_model(name)


def _hub_is_ours(context: Context, study: Study) -> bool:
    """Return whether engines started here reach the hub with the same token and cache as this process."""
    started = [arm for arm in study.arms if arm.server is None]
    environments = [context.profile(arm.engine).environment for arm in started] + [arm.environment for arm in started]
    names = itertools.chain.from_iterable(environments)
    return bool(started) and not any(name.startswith(("HF_", "HUGGING")) for name in names)


def _problem(field: str, check: Callable[[], object]) -> Iterator[Problem]:
    try:
        check()
    except UserError as error:
        yield field, str(error)
