"""Statements that would take all memory, all time or the process itself: each ends in a sentence, and nothing is left.

`tests.warehouse.sandbox.walled` looks for what is left after each.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from host import quiet
from host.settings import Settings
from lab.errors import QueryError
from tests.cli.homes import REPOSITORY
from tests.processes import is_gone
from tests.warehouse.ingest.processes import until
from tests.warehouse.sandbox.walled import Walled, answering
from warehouse.sandbox.runner import run_sql

_MEMORY = "ran out of memory \\(more than 64 MiB\\): select less, or raise DRAFTHOUSE_SQL_MEMORY_MIB"
_STOPPED = "stopped after 1 s: select less, or raise DRAFTHOUSE_SQL_TIMEOUT_S"
_DEEP = "memory exhausted|Max expression depth|ran out of memory|simpler types|ended its process|stopped after 5 s"


@pytest.fixture(scope="module")
def walled(migrated: Path, tmp_path_factory: pytest.TempPathFactory) -> Walled:
    home = tmp_path_factory.mktemp("walled") / "home"
    shutil.copytree(migrated, home)
    return Walled(Settings(home=home, sql_memory_mib=64, sql_timeout_s=300))


MEMORY = {
    "one text of 3 GB": "select length(repeat('x', 3000000000))",
    "one text of 2 GB, by a width": "select length(printf('%2000000000d', 1))",
    "many texts, one list": "select list(repeat('x', 1000)) from range(1000000)",
    "many texts, one text": "select string_agg(repeat('x', 1000), '') from range(1000000)",
    "a list of all numbers": "select range(1000000000)",
    "a sort without a disk": "select * from range(100000000) order by random()",
    "groups without end": "select range, count(*) from range(100000000) group by all",
    "a text that doubles in a recursion": (
        "with recursive r(x) as (select 'x' union all select x || x from r) select max(length(x)) from r"
    ),
    "a window of lists": "select max(len(l)) from (select list(i) over (order by i) as l from range(100000) t(i))",
}
TIME = {
    "a recursion without end": "with recursive r(n) as (select 1 union all select n + 1 from r) select max(n) from r",
    "a cross join of everything": "select count(*) from range(1000000) a, range(1000000) b, range(1000000) c",
    "what DuckDB cannot interrupt": "select levenshtein(repeat('a', 300000), repeat('b', 300000))",
    "a reduction that DuckDB cannot interrupt": "select list_reduce(range(2000000), lambda a, b: (a + b) % 7 ** 30)",
    "a sleep": "select sleep_ms(600000)",
    "a sleep in each row of an answer": "select sleep_ms(300) from range(1000)",
}
#: Text, and what it may end with: DuckDB's own limits, or ours where it has none.
NESTED = {
    "parentheses": "select " + "(" * 40_000 + "1" + ")" * 40_000,
    "sums": "select " + "+".join("1" * 40_000),
    "lists that make Arrow give up": "select " + "[" * 100 + "1" + "]" * 100,
    "lists that break the process off": "select " + "[" * 500 + "1" + "]" * 500,
    "subqueries": "select * from " + "(select * from " * 4_000 + "(select 1)" + ")" * 4_000,
    "casts": "select 1" + "::int" * 19_000,
    "unions": " union all ".join(["select 1"] * 5_000),
}


@pytest.mark.parametrize("sql", MEMORY.values(), ids=MEMORY.keys())
def test_more_memory_than_the_limit_is_refused(walled: Walled, sql: str) -> None:
    answer = walled.outcome_of(sql, sql_timeout_s=10.0)
    assert re.search(f"{_MEMORY}|stopped after 10 s", answer), answer  # the second on a machine that stands still


@pytest.mark.parametrize("sql", TIME.values(), ids=TIME.keys())
def test_more_time_than_the_limit_is_refused(walled: Walled, sql: str) -> None:
    assert walled.outcome_of(sql, sql_timeout_s=1.0) == f"refused: {_STOPPED}"


def test_a_statement_that_yields_to_a_run_says_so_when_its_time_is_up(walled: Walled) -> None:
    with quiet.announced(walled.settings.home, "window", "a run"):
        answer = walled.outcome_of("select sleep_ms(600000)", sql_timeout_s=1.0)
    assert "stopped after 1 s: a run is being measured on this host and has its processors first. Ask again" in answer


@pytest.mark.parametrize("sql", NESTED.values(), ids=NESTED.keys())
def test_nesting_without_end_is_refused(walled: Walled, sql: str) -> None:
    answer = walled.outcome_of(sql, sql_timeout_s=5.0)  # Arrow's threads may hang where their stacks find no memory
    assert re.search(_DEEP, answer), answer
    assert len(answer) < 2500


def test_an_answer_of_a_gigabyte_is_cut_and_that_is_said(walled: Walled) -> None:
    roomy = walled.settings.model_copy(update={"sql_memory_mib": 256})
    result = run_sql(roomy, "select repeat('x', 20000) from range(50000)")
    assert result.table.num_rows == 32 * 2**20 // 20_004  # an offset of 4 bytes each
    assert result.left_out == "only the first 1,677 rows are shown: more would exceed 32 MiB"


FLAGS = "list_transform(range(5000), lambda x: {'a': true, 'b': false})"


@pytest.mark.parametrize(("values", "rows"), [(FLAGS, 13), ("map([1, 2], ['a', 'b'])", 28_571)])
def test_values_that_grow_in_the_page_are_cut_too(walled: Walled, values: str, rows: int) -> None:
    result = run_sql(walled.settings, f"select {values} as v from range(40000)", 50_000)
    assert result.table.num_rows == rows
    assert result.left_out == (
        f"only the first {rows:,} rows are shown: more would be too many values in lists and structures"
    )


def test_a_row_of_more_values_than_an_answer_is_refused(walled: Walled) -> None:
    with pytest.raises(QueryError, match="one row is larger than 200,000 values"):
        run_sql(walled.settings, "select range(200001)")


def test_a_row_that_is_too_large_is_refused(walled: Walled) -> None:
    answer = walled.outcome_of("select repeat('x', 40000000)", sql_memory_mib=512)
    assert answer == "refused: one row is larger than 32 MiB, the limit of an answer: select less of it"


def test_more_columns_than_anybody_reads_are_refused(walled: Walled) -> None:
    answer = walled.outcome_of("select " + ", ".join(f"{number} as c{number}" for number in range(2001)))
    assert answer == "refused: the answer has 2,001 columns: select at most 2,000"


def test_a_mistake_in_a_large_value_does_not_make_a_large_sentence(walled: Walled) -> None:
    answer = walled.outcome_of("select cast(repeat('x', 1000000) as int)")
    assert answer.startswith("refused: Conversion Error: Could not convert string 'xxx")
    assert len(answer) < 2100


_WHO_IS_KILLED = """
import sys
from pathlib import Path
from warehouse.sandbox.runner import run_sql
from host.settings import Settings
run_sql(Settings(home=Path(sys.argv[1]), sql_timeout_s=3600), "select sleep_ms(3600000)")
"""


def test_when_the_page_is_killed_what_answers_its_sql_ends_too(walled: Walled) -> None:
    command = (sys.executable, "-c", _WHO_IS_KILLED, str(walled.settings.home))
    with subprocess.Popen(command, cwd=REPOSITORY) as asking:
        until(lambda: bool(answering(asking.pid)))
        (child,) = answering(asking.pid)
        asking.kill()
    until(lambda: is_gone(child))


_WORKS_ON = """
import sys
from warehouse.sandbox import limits
limits._GRACE_S = 0
limits.limit_time(float(sys.argv[1]))
{}
"""


@pytest.mark.parametrize("work", ["while True: pass", "import time; time.sleep(3600)"], ids=["works", "sleeps"])
def test_the_system_ends_it_where_nobody_kills_it(work: str) -> None:
    done = subprocess.run((sys.executable, "-c", _WORKS_ON.format(work), "0.1"), check=False, cwd=REPOSITORY)
    assert -done.returncode in (signal.SIGALRM, signal.SIGXCPU, signal.SIGKILL)
