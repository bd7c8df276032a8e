"""Whether a study can be run on this host: asked when it is submitted, so that nobody waits for a refusal."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator

from lab.errors import StudyError, UserError
from lab.study import FlagValue, Study
from warehouse.settings import Settings
from workers.engines.models import check_model
from workers.engines.profiles import installed_profile
from workers.workloads import check_workload

#: Flags that Drafthouse sets itself, with what to use instead.
_OWN_FLAGS = {
    "model": "set target in the study",
    "host": "the engine listens on 127.0.0.1",
    "port": "a free one is picked",
    "served-model-name": "the target's name is used",
    "speculative-config": "set speculation in the arm",
    "per-request-spec-decode-metrics": "it is on wherever there is speculation",
    "api-key": "the engine listens on 127.0.0.1 alone",
    "uds": "the engine listens on 127.0.0.1",
    "config": "write its flags into the study, where they are stored with the results",
}
_FLAG = re.compile(r"[a-zA-Z][a-zA-Z0-9_.-]*")

Problem = tuple[str, str]


def check_study(settings: Settings, study: Study) -> None:
    """Raises StudyError with every problem: an engine, model, dataset or flag that cannot be had here."""
    if problems := list(_problems(settings, study)):
        raise StudyError(problems)


def _problems(settings: Settings, study: Study) -> Iterator[Problem]:
    yield from _flag_problems("engine_flags", study.engine_flags)
    for index, arm in enumerate(study.arms):
        yield from _flag_problems(f"arms[{index}].flags", arm.flags)
    if not settings.workers_elsewhere:  # else only the worker's own host knows what it has
        yield from _missing_here(settings, study)


def _missing_here(settings: Settings, study: Study) -> Iterator[Problem]:
    yield from _problem("target", functools.partial(check_model, settings, study.target))
    for index, arm in enumerate(study.arms):
        yield from _problem(f"arms[{index}].engine", functools.partial(installed_profile, settings, arm.engine))
        if arm.speculation is not None and arm.speculation.model is not None:
            check = functools.partial(check_model, settings, arm.speculation.model)
            yield from _problem(f"arms[{index}].speculation.model", check)
    count = max(load.num_prompts for load in study.loads)
    for index, workload in enumerate(study.workloads):
        yield from _problem(f"workloads[{index}]", functools.partial(check_workload, settings, workload, count))


def _problem(field: str, check: Callable[[], object]) -> Iterator[Problem]:
    try:
        check()
    except UserError as error:
        yield field, str(error)


def _flag_problems(field: str, flags: dict[str, FlagValue]) -> Iterator[Problem]:
    for flag in flags:
        name = flag.replace("_", "-")
        if name in _OWN_FLAGS:
            yield f"{field}.{flag}", f"Drafthouse sets this itself: {_OWN_FLAGS[name]}"
        elif not _FLAG.fullmatch(flag):
            yield f"{field}.{flag}", f"{flag!r} is no flag: write it without dashes in front, like max_model_len"
