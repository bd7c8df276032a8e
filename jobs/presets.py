"""Studies that ship with Drafthouse, one file each in presets/: the demo, and one for each published experiment."""

from __future__ import annotations

import difflib
import itertools
from dataclasses import dataclass
from pathlib import Path

from lab.errors import UserError
from lab.study import Study
from lab.study.parsing import study_from_toml
from lab.study.reference_pair import reference_version

FOLDER = Path(__file__).parent.parent / "presets"


@dataclass(frozen=True)
class Preset:
    """A study with the comment at the top of its file: `title` is the question that the study answers."""

    name: str
    title: str
    about: str  # source, what it teaches, what was assumed; empty if the title says everything
    toml: str
    study: Study


def all_presets() -> list[Preset]:
    """Return all presets in alphabetical order."""
    return [_read(path) for path in sorted(FOLDER.glob("*.toml"))]


def load_preset(name: str, *, reference: bool = False) -> Study:
    """Return the study with this name; `reference`: scaled down to the reference pair. Raises UserError if there is
    none.
    """
    path = FOLDER / f"{name}.toml"
    names = preset_names()
    if name not in names:
        close = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise UserError(f"there is no preset {name!r}: {hint}There are {', '.join(names)}")
    study = _read(path).study
    return reference_version(study) if reference else study


def preset_names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def _read(path: Path) -> Preset:
    text = path.read_text(encoding="utf-8")
    comment = itertools.takewhile(lambda line: line.startswith("#"), text.splitlines())
    title, *about = (line.removeprefix("#").strip() for line in comment)
    return Preset(path.stem, title, " ".join(about), text, study_from_toml(text))
