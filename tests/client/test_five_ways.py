"""The five ways of docs/sql.md to ask from elsewhere, as they are written there."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.roles import Role
from tests.cli.homes import REPOSITORY
from tests.client.serving import Served, lab_elsewhere
from tests.lab.studies import study
from tests.webapp.measured import measure_study

_TEXT = (REPOSITORY / "docs/sql.md").read_text("utf-8").partition("## Five ways to ask from elsewhere")[2]
WAYS = re.findall(r"\*\*From (.*?)\*\*.*?```(\w+)\n(.*?)```", _TEXT, re.DOTALL)
HTTPFS = REPOSITORY / ".venv/httpfs"
_LOAD = f"LOAD '{HTTPFS}/duckdb_extension_httpfs/extensions/v1.5.5/httpfs.duckdb_extension'"
_DUCKDB = f"""
import sys
sys.path.insert(0, {str(HTTPFS)!r})
import duckdb
*before, last = [statement for statement in sys.stdin.read().split(";") if statement.strip()]
con = duckdb.connect()
con.execute("SET enable_progress_bar = false")
for statement in before:
    con.execute(statement)
print(con.execute(last).fetchall())
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with lab_elsewhere(tmp_path_factory.mktemp("elsewhere")) as it:
        measure_study(it.settings, study(name="measured", repeats=2))
        yield it


@pytest.fixture
def environment(lab: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("DRAFTHOUSE_SERVER", lab.url)
    monkeypatch.setenv("DRAFTHOUSE_TOKEN", lab.tokens[Role.VIEWER])
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    monkeypatch.chdir(tmp_path)
    return dict(os.environ)


def test_there_are_five() -> None:
    assert [(name, language) for name, language, _ in WAYS] == [
        ("a notebook", "python"),
        ("a shell", "sh"),
        ("any language", "sh"),
        ("any DuckDB", "sql"),
        ("a file of your own", "sh"),
    ]


def test_a_notebook(environment: dict[str, str]) -> None:
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        exec(WAYS[0][2], {})  # noqa: S102 - our own document
    assert "avg(output_tok_per_s)" in shown.getvalue()


@pytest.mark.parametrize("way", [1, 2, 4])
def test_a_shell(environment: dict[str, str], way: int) -> None:
    shown = subprocess.run(("sh", "-ec", WAYS[way][2]), env=environment, capture_output=True, text=True, check=True)
    assert "runs" in shown.stdout
    assert re.search(r"\b8\b", shown.stdout)


def test_any_duckdb(environment: dict[str, str], lab: Served) -> None:
    """Its extension is a package here, not installed from the network."""
    assert HTTPFS.is_dir(), "DuckDB's httpfs is missing: run `make install-test`"
    statements = WAYS[3][2].replace("LOAD httpfs", _LOAD).replace("https://lab.example.org", lab.url)
    statements = statements.replace("drafthouse_...", lab.tokens[Role.VIEWER])
    asking = (sys.executable, "-c", _DUCKDB)
    shown = subprocess.run(asking, input=statements, capture_output=True, text=True, check=True)
    assert shown.stdout == "[(8,)]\n"
