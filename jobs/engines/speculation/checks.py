"""Checks of an arm's options of speculation against those that its engine has."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping

from jobs.engines.speculation import sglang, tensorrt_llm, vllm
from jobs.engines.speculation.option import Option
from lab.study import Speculation
from lab.study.arm import METHODS

#: The options of each kind of engine that has any.
OPTIONS: Mapping[str, tuple[Option, ...]] = {
    "vllm": vllm.OPTIONS,
    "sglang": sglang.OPTIONS,
    "tensorrt_llm": tensorrt_llm.OPTIONS,
}


def options_of(kind: str, method: str | None) -> tuple[Option, ...]:
    """Return the options that belong to a method of this kind of engine."""
    return tuple(option for option in OPTIONS.get(kind, ()) if _belongs(option, method))


def option_problems(
    kind: str, called: str, speculation: Speculation, reported: tuple[str, ...] | None, *, is_cpu_build: bool
) -> Iterator[tuple[str, str]]:
    """Yield (option, problem). `reported` are the engine's own keys; without them an unknown one passes unchecked, as
    a later release may have it.
    """
    declared = {option.name: option for option in OPTIONS.get(kind, ())}
    for name, value in speculation.options.items():
        option = declared.get(name)
        if reported is not None and name not in reported:
            yield name, _unknown(name, called, reported)
        elif option is not None and not _belongs(option, speculation.method):
            methods = ", ".join(option.methods or ())
            yield name, f"it belongs to {methods}, not to {speculation.method}: remove it"
        elif option is not None and (wrong := option.wrong(value)) is not None:
            yield name, f"{wrong}, got {value!r}"
    if kind == "vllm":
        yield from vllm.conflicts(speculation, is_cpu_build=is_cpu_build)


def _belongs(option: Option, method: str | None) -> bool:
    """A method that we do not know, such as MTP's variants, may have any option."""
    return option.methods is None or method not in METHODS or method in option.methods


def _unknown(name: str, called: str, reported: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(name, reported, n=1)
    return f"{called} has no such option" + (f": did you mean {close[0]}?" if close else "")
