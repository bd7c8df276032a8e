"""A home with secrets beside its warehouse, and what must still be true of it after a statement."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import psutil

from host.settings import Settings
from lab.errors import QueryError
from warehouse.sandbox.runner import run_sql

SECRET = "correct horse battery staple"
OTHER_SECRET = "a row of another database"


@dataclass
class Walled:
    """`said` gives the refusal, or the answer as text. Neither may hold a secret, nothing may be made or left."""

    settings: Settings
    _before: dict[Path, tuple[int, int]] = field(init=False)

    def __post_init__(self) -> None:
        text = f"name,value\nsecret,{SECRET}\n"
        for name in ("secret.txt", "secret.csv", "secret.sql", ".env"):
            (self.settings.home / name).write_text(text)
        with duckdb.connect(self.settings.home / "other.duckdb") as other:
            other.execute(f"CREATE TABLE hidden AS SELECT '{OTHER_SECRET}' AS text")
            other.execute(f"COPY hidden TO '{self.settings.home / 'secret.parquet'}'")
        self._before = self._files()

    def outcome_of(self, sql: str, **limits: object) -> str:
        """`{home}` in the statement stands for the home's path."""
        try:
            result = run_sql(self.settings.model_copy(update=limits), sql.replace("{home}", str(self.settings.home)))
        except QueryError as error:
            answer = f"refused: {error}"
        else:
            answer = f"answered: {result.rows()}"
        assert SECRET not in answer
        assert OTHER_SECRET not in answer
        assert OTHER_SECRET.encode().hex() not in answer
        assert self._files() == self._before
        assert not left_over()
        return answer

    def _files(self) -> dict[Path, tuple[int, int]]:
        """But for the list of what ran on this machine."""
        listed = self.settings.home / "machines"
        every = (path for path in self.settings.home.rglob("*") if listed not in (path, *path.parents))
        sized = ((path, path.stat()) for path in every)
        return {path: (stat.st_size, stat.st_mtime_ns) for path, stat in sized if path != self.settings.home}


def left_over() -> list[psutil.Process]:
    """Children of this process that answer SQL, or ended and were never waited for."""
    return [child for child in psutil.Process().children() if child.status() == psutil.STATUS_ZOMBIE] + answering()


def answering(parent: int | None = None) -> list[psutil.Process]:
    """The children of a process (of this one, without) that answer SQL."""
    return [child for child in psutil.Process(parent).children(recursive=True) if _answers(child)]


def _answers(process: psutil.Process) -> bool:
    try:
        return any("sandbox import child" in part for part in process.cmdline())
    except psutil.NoSuchProcess:  # ended meanwhile, or ended and not yet waited for by a parent in between
        return False
