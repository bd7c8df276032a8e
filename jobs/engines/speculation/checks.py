"""Checks of an arm's options of speculation against the engine's own."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from jobs.engines.kind import Kind
from jobs.engines.kinds import KINDS
from jobs.engines.speculation.option import Option
from lab.study import Speculation
from lab.study.methods import METHODS


def options_of(kind: str, method: str | None) -> tuple[Option, ...]:
    """Return the options that belong to a method of this kind of engine."""
    options = KINDS[kind].options if kind in KINDS else ()  # a worker of a newer release may have reported another
    return tuple(option for option in options if _belongs(option, method))


def option_problems(
    kind: Kind, called: str, speculation: Speculation, reported: tuple[str, ...] | None, version: str | None
) -> Iterator[tuple[str, str]]:
    """Yield (option, problem). `reported` are the engine's own keys; without them unknown options pass unchecked, as
    a later release may have it.
    """
    declared = {option.name: option for option in kind.options}
    for name, value in speculation.options.items():
        option = declared.get(name)
        if reported is not None and name not in reported:
            yield name, _unknown(name, called, reported)
        elif option is not None and not _belongs(option, speculation.method):
            methods = ", ".join(option.methods or ())
            yield name, f"it belongs to {methods}, not to {speculation.method}: remove it"
        elif option is not None and (wrong := option.wrong(value)) is not None:
            yield name, f"{wrong}, got {value!r}"
    yield from kind.conflicts(speculation, version)


def _belongs(option: Option, method: str | None) -> bool:
    """Return whether the method may have the option; an unknown method, such as a variant of MTP, may have any."""
    return option.methods is None or method not in METHODS or method in option.methods


def _unknown(name: str, called: str, reported: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(name, reported, n=1)
    return f"{called} has no such option" + (f": did you mean {close[0]}?" if close else "")
