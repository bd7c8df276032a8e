"""Studies by their names on the command line."""

from __future__ import annotations

import sys
from pathlib import Path

from jobs.presets import load_preset, preset_names
from lab.errors import UserError
from lab.study import Study
from lab.study.parsing import study_from_json, study_from_toml
from lab.study.reference_pair import reference_version


def named_study(name: str, *, reference: bool = False, engine: str | None = None) -> Study:
    """Load a preset by its name, a TOML or JSON file by its path, or TOML from standard input for `-`.
    `engine`: measures the arms of `vllm`.

    Raises UserError if the name is neither a preset nor a readable file, StudyError if the text is not a valid study.
    """
    is_preset = name in preset_names() and not Path(name).is_file()
    study = load_preset(name) if is_preset else _read(name)
    study = reference_version(study) if reference else study
    return study if engine is None else _on(engine, study)


def _on(engine: str, study: Study) -> Study:
    if not any(arm.engine == "vllm" for arm in study.arms):
        raise UserError(f"no arm of {study.name!r} has the engine vllm: leave out --engine {engine}")
    arms = (arm.model_copy(update={"engine": engine}) if arm.engine == "vllm" else arm for arm in study.arms)
    return study.model_copy(update={"arms": tuple(arms)})


def _read(name: str) -> Study:
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{name} is neither a file nor a preset; the presets are {', '.join(preset_names())}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{name} cannot be read as a study: {error}") from None
    return study_from_json(text) if name.endswith(".json") else study_from_toml(text)
