"""Prints what an installed vLLM has, as one line of JSON: `{"flags": [...], "types": {...}, "methods": [...],
"speculation": [...]}`. Run by its own Python.

It reads vLLM's argument parser and list of methods, because both change with every release, and so do the modules they
are in. Nothing of Drafthouse is imported here.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import importlib.util
import json
import os
import typing
from collections.abc import Iterator
from typing import Any

_PARSERS = ("vllm.utils.argparse_utils", "vllm.utils")
_CONFIGS = ("vllm.config.speculative", "vllm.config")
_MAKERS = ("vllm.entrypoints.launchers.cli_args", "vllm.entrypoints.openai.cli_args")

#: By shape: what a flag's conversion takes, and what it refuses.
_SHAPES = (
    ("integer", ("1",), ("1.5", "1k", "x", "[]")),
    ("number", ("1", "1.5"), ("1k", "x", "[]", "{}")),
    ("size", ("1", "1k"), ("x", "[]")),
)


def main() -> None:
    """Print the result alone on the standard output; what vLLM prints goes to the standard error."""
    output = os.dup(1)
    os.dup2(2, 1)
    actions = _actions()
    answer = {
        "flags": sorted({flag for action in actions for flag in _flags(action)}),
        "types": {flag: type_ for action in actions if (type_ := _type(action)) for flag in sorted(_flags(action))},
        "methods": [name for name in _methods() if _works_here(name)],
        "speculation": [field.name for field in dataclasses.fields(_first(_CONFIGS, "SpeculativeConfig"))],
    }
    os.write(output, json.dumps(answer).encode())


def _actions() -> list[argparse.Action]:
    parser = _first(_MAKERS, "make_arg_parser")(_first(_PARSERS, "FlexibleArgumentParser")())
    return list(parser._actions)  # noqa: SLF001 - argparse has no public list of them


def _flags(action: argparse.Action) -> Iterator[str]:
    """Return the long options without their dashes, `no-` forms among them."""
    yield from (option[2:] for option in action.option_strings if option.startswith("--"))


def _type(action: argparse.Action) -> str | list[str] | None:
    """Return a flag's choices, or "switch", "integer", "number", "size" (8192 or 8k), "value" for any other; None for
    what takes several values, or none at all at times.
    """
    if action.nargs == 0:
        return "switch"
    if action.nargs is not None or type(action).__name__ != "_StoreAction":
        return None
    if action.choices is not None:
        return [str(choice) for choice in action.choices]
    for name, taken, refused in _SHAPES:
        if all(_takes(action, text) for text in taken) and not any(_takes(action, text) for text in refused):
            return name
    return "value"


def _takes(action: argparse.Action, text: str) -> bool:
    """Return whether the flag's own conversion accepts this text: releases wrap it, so only a trial shows."""
    convert = action.type if callable(action.type) else str
    try:
        convert(text)
    except Exception:  # noqa: BLE001 - whatever it raises, the parser would refuse the text
        return False
    return True


def _first(modules: tuple[str, ...], name: str) -> Any:
    """Import a name from the first of these modules that has it in this release."""
    for module in modules:
        try:
            return getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            continue
    raise SystemExit(f"this vLLM has {name} in none of {', '.join(modules)}")


def _methods() -> Iterator[str]:
    return _names(_first(_CONFIGS, "SpeculativeMethod"))


def _names(literal: Any) -> Iterator[str]:
    """Return the strings of a Literal, nested ones included."""
    for part in typing.get_args(literal):
        yield from (part,) if isinstance(part, str) else _names(part)


def _works_here(method: str) -> bool:
    if method == "suffix":
        return importlib.util.find_spec("arctic_inference") is not None
    if method == "ngram_gpu":
        return importlib.import_module("vllm.platforms").current_platform.device_type != "cpu"
    return True


if __name__ == "__main__":
    main()
    os._exit(0)  # two seconds faster than searching everything that was imported
