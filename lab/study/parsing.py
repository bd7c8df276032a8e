"""Parse a study from TOML, JSON or a form's dictionary, with a sentence for every problem."""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Mapping
from typing import Any

import tomli_w
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from lab.errors import StudyError
from lab.study import Arm, Load, Sampling, Server, Sessions, Slo, Speculation, Study, Tune, Workload
from lab.study.duration import duration_text, parse_duration_s
from lab.study.load import PATTERN_KEYS, expand_pattern
from lab.study.plan import repeats_of_a_launch
from lab.study.study import MOST_LOOKS, UNTIL_DECIDED

Problem = tuple[str, str]
_EMPTY = "is empty: at least one is needed"
#: The model at each field path, so that the error about an unknown key can list the known ones.
_MODELS: dict[str, type[BaseModel]] = {
    "": Study,
    "arms": Arm,
    "speculation": Speculation,
    "server": Server,
    "workloads": Workload,
    "sessions": Sessions,
    "loads": Load,
    "sampling": Sampling,
    "slo": Slo,
    "tune": Tune,
}


def study_from_toml(text: str) -> Study:
    """Read a study from TOML. Raises StudyError, also for invalid TOML."""
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also a number with too many digits, and tables nested too deeply
        raise StudyError([("", f"this is not valid TOML: {error}")]) from None
    return study_from_dict(data)


def study_from_json(text: str) -> Study:
    """Read a study from JSON. Raises StudyError, also for anything but a JSON object."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StudyError([("", f"this is not valid JSON: {error}")]) from None
    if not isinstance(data, dict):
        raise StudyError([("", f"a study is a JSON object with keys like name and arms, not a {type(data).__name__}")])
    return study_from_dict(data)


def study_from_dict(data: Mapping[str, Any]) -> Study:
    """Validate a study; StudyError lists every problem with the path of its field.

    Loads that name a pattern are expanded, so a sweep gives the study more loads than `data` has.
    """
    data, problems = _repeats_spelt_out(data)
    spelt_out, origins, wrong_patterns = _spelt_out(data)
    problems += wrong_patterns
    try:
        study = Study.model_validate(spelt_out)
    except ValidationError as error:
        details = error.errors()
        wrong_items = {detail["loc"][0] for detail in details if len(detail["loc"]) > 1}
        # a list whose only item is wrong is also reported as empty
        causes = [each for each in details if each["type"] != "too_short" or each["loc"][0] not in wrong_items]
        errors = [(_path(detail["loc"], origins), _sentence(detail)) for detail in causes]
        problems += [problem for problem in errors if problem != ("loads", _EMPTY) or data.get("loads") == []]
    if problems:
        raise StudyError(list(dict.fromkeys(problems)))
    return study


def measured_until_decided(study: Study, budget: str) -> Study:
    """Return the study with `repeats = "until decided"` and this budget. Raises StudyError if it is not a duration."""
    data = study.model_dump(mode="json", exclude_defaults=True, exclude={"budget_s"})
    return study_from_dict(data | {"repeats": UNTIL_DECIDED, "budget": budget})


def _repeats_spelt_out(data: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[Problem]]:
    """Return the study with the most repeats and the seconds for `repeats = "until decided"`, and its problems."""
    budget, wanted = data.get("budget"), data.get("repeats") == UNTIL_DECIDED
    if not wanted and "budget" not in data:
        return data, []
    spelt_out = {key: value for key, value in data.items() if key != "budget"}
    if not wanted:
        return spelt_out, [("budget", f'belongs to repeats = "{UNTIL_DECIDED}": set that, or remove the budget')]
    spelt_out["repeats"] = _most_repeats(data)
    if budget is None:
        return spelt_out, [("budget", f'repeats = "{UNTIL_DECIDED}" needs the time it may take: write it like 45 min')]
    try:
        return spelt_out | {"budget_s": parse_duration_s(str(budget))}, []
    except ValueError as error:
        return spelt_out, [("budget", str(error))]


def _most_repeats(data: Mapping[str, Any]) -> int:
    """Return the maximum repeats of a study until decided, capped at 100. Tolerates unvalidated input."""
    per_launch, order = data.get("repeats_per_launch", 1), data.get("order", "interleaved")
    per_launch = per_launch if isinstance(per_launch, int) and per_launch > 0 else 1
    return min(100, MOST_LOOKS * repeats_of_a_launch(order, per_launch, MOST_LOOKS))


def _spelt_out(data: Mapping[str, Any]) -> tuple[dict[str, Any], list[int], list[Problem]]:
    """Return the study with patterns expanded, each load's original position, and problems of the patterns."""
    given = data.get("loads")
    if not isinstance(given, list | tuple):
        return dict(data), [], []
    loads: list[Any] = []
    origins: list[int] = []
    problems: list[Problem] = []
    for index, load in enumerate(given):
        expanded, wrong = expand_pattern(load) if isinstance(load, Mapping) else ([load], [])
        loads += expanded
        origins += [index] * len(expanded)
        problems += [(f"loads[{index}].{key}", sentence) for key, sentence in wrong]
    return {**data, "loads": loads}, origins, problems


def study_to_toml(study: Study) -> str:
    """Return the study as TOML that reads back equal; defaults are left out."""
    data: dict[str, Any] = study.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    if study.budget_s is not None and study.repeats == _most_repeats(data):
        data |= {"repeats": UNTIL_DECIDED, "budget": duration_text(data.pop("budget_s"))}
    tables = {key: data.pop(key) for key in ("arms", "workloads", "loads")}
    return tomli_w.dumps(data | tables, multiline_strings=False)


def _path(location: tuple[int | str, ...], origins: list[int]) -> str:
    """Format `("arms", 1, "name")` as `arms[1].name`, without the names pydantic gives to union members.

    A problem of an expanded load is reported at the load that the user wrote.
    """
    if len(location) > 1 and location[0] == "loads" and isinstance(location[1], int):
        location = ("loads", origins[location[1]], *location[2:])
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif part not in ("bool", "int", "float", "str"):
            path += f".{part}" if path else part
    return path


def _sentence(detail: ErrorDetails) -> str:
    kind, given = detail["type"], detail["input"]
    if kind == "extra_forbidden":
        return _unknown_key(detail["loc"])
    if kind == "missing":
        return "is required but missing"
    if kind == "too_short":
        return _EMPTY
    if kind == "value_error":
        return str(detail["ctx"]["error"])
    return f"{detail['msg'].replace('Input should', 'should', 1)}, got {_shortened(given)}"


def _unknown_key(location: tuple[int | str, ...]) -> str:
    parents = [part for part in location[:-1] if isinstance(part, str)]
    parent = parents[-1] if parents else ""
    written = {"": ("budget",), "loads": PATTERN_KEYS}.get(parent, ())
    keys = sorted({*_MODELS[parent].model_fields, *written} - {"budget_s"})
    close = difflib.get_close_matches(str(location[-1]), keys, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    return f"is not known here: {hint}The keys here are {', '.join(keys)}"


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
