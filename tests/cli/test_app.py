"""The table of verbs: true to the functions, and cheap to list."""

from __future__ import annotations

import inspect
import subprocess
import sys
import time

import pytest

from cli.app import VERBS, command_line, load
from host import quiet
from tests.cli.homes import REPOSITORY, Home

#: Each of them costs a tenth of a second or more.
HEAVY = {"aiohttp", "alembic", "altair", "celery", "duckdb", "huggingface_hub", "numpy", "pandas", "pyarrow"}
HEAVY |= {"pydantic", "scipy", "sqlalchemy", "streamlit", "tokenizers", "yaml"}
#: `--help` imports 420 today, two thirds of them of Typer and Rich.
MOST_MODULES = 500


def modules_after(home: Home, *arguments: str) -> set[str]:
    """The modules a new process has imported once the command has ended."""
    code = (
        "import atexit, sys\n"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
        "from cli.app import main\n"
        "main()"
    )
    answer = subprocess.run(
        (sys.executable, "-c", code, *arguments),
        cwd=REPOSITORY,
        env=home.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(answer.stderr.split())


def packages(modules: set[str]) -> set[str]:
    return {module.partition(".")[0] for module in modules}


@pytest.mark.parametrize("name", VERBS)
def test_a_line_of_help_is_the_first_paragraph_of_the_docstring(name: str) -> None:
    """The line is read from the file, without an import."""
    text = inspect.cleandoc(load(name).help or "")
    assert " ".join(text.partition("\n\n")[0].split()) == command_line().commands[name].help


def test_help_imports_no_verb_and_nothing_heavy(studied: Home) -> None:
    modules = modules_after(studied, "--help")
    assert not packages(modules) & HEAVY
    assert not [module for module in modules if module.startswith("cli.verbs")]
    assert len(modules) < MOST_MODULES


@pytest.mark.parametrize(
    ("arguments", "needed"),
    [
        (("jobs",), {"duckdb", "numpy", "pyarrow", "pydantic", "sqlalchemy"}),
        (("sql", "select 1"), {"numpy", "pyarrow", "pydantic"}),
        (("presets",), {"duckdb", "pydantic", "sqlalchemy"}),
        (("import", "--help"), {"duckdb", "numpy", "pandas", "pyarrow", "pydantic", "sqlalchemy"}),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_verb_imports_no_more_than_it_needs(studied: Home, arguments: tuple[str, ...], needed: set[str]) -> None:
    assert packages(modules_after(studied, *arguments)) & HEAVY <= needed


def test_a_verb_that_computes_is_announced_and_a_light_one_is_not(
    studied: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quiet, "LEAST_RECORDED_S", 0.0)
    began_s = time.monotonic()
    assert studied.ask("checks").returncode == studied.ask("presets").returncode == 0
    beside = quiet.beside(studied.folder, began_s, time.monotonic(), "")
    assert [(work.kind, work.what) for work in beside] == [("command", "drafthouse checks")]


def test_a_misspelt_verb_is_answered_with_the_nearest(studied: Home) -> None:
    answer = studied.ask("jobz")
    assert answer.returncode == 2
    assert "Did you mean 'jobs'?" in answer.stderr
