"""Ways out of the SQL sandbox: to files, other databases, the network, the settings, a second statement, a write.

After each the secrets that lie in the home are in no answer and in no sentence, no file is new or changed, and no
process is left (`tests.warehouse.sandbox.walled`).
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from host.settings import Settings
from tests.cli.homes import REPOSITORY
from tests.warehouse.sandbox.walled import Walled
from warehouse.sandbox.child import BY_ADDRESS

_ONLY_READ = r"the warehouse is read-only here: [\w ]+ is not allowed; SELECT"
_DISABLED = "file system operations are disabled by configuration"
_NO_FILE = "files cannot be read here: use the warehouse's own tables"
_NO_TABLE = f"Table with name .* does not exist|{_DISABLED}"
_SELECT_ONLY = "Expected a single SELECT statement"
_BY_ADDRESS = "is not allowed: it could reach any part of the memory"


def _call() -> str:
    """Serialised SQL that calls the code at an address, with another address as its first argument."""
    with duckdb.connect() as con:
        ((text,),) = con.execute("select json_serialize_sql('from arrow_scan(null, null, null)')").fetchall()
    tree = json.loads(text)
    for address in tree["statements"][0]["node"]["from_table"]["function"]["children"]:
        address["value"] = {"type": {"id": "POINTER", "type_info": None}, "is_null": False, "value": 0x414141414141}
    return json.dumps(tree)


CALL = _call()


@pytest.fixture(scope="module")
def walled(migrated: Path, tmp_path_factory: pytest.TempPathFactory) -> Walled:
    home = tmp_path_factory.mktemp("walled") / "home"
    shutil.copytree(migrated, home)
    return Walled(Settings(home=home, sql_memory_mib=128, sql_timeout_s=300))


REFUSED = {
    # files
    "a text file is read": ("from read_text('{home}/secret.txt')", _DISABLED),
    "a file is read as bytes": ("from read_blob('{home}/secret.txt')", _DISABLED),
    "the database's own file is read as bytes": ("from read_blob('{home}/warehouse.duckdb')", _NO_FILE),
    "its own file is read as bytes by a roundabout path": (
        "from read_blob('{home}/../home/warehouse.duckdb')",
        f"{_NO_FILE}|{_DISABLED}",
    ),
    "a CSV file is read": ("from read_csv('{home}/secret.csv')", _DISABLED),
    "a CSV file is sniffed": ("from sniff_csv('{home}/secret.csv')", _DISABLED),
    "a JSON file is read": ("from read_json('{home}/secret.txt')", _DISABLED),
    "a Parquet file is scanned": ("from parquet_scan('{home}/secret.parquet')", _DISABLED),
    "a folder is listed": ("from glob('{home}/*')", _DISABLED),
    "a file stands where a table should": ("from '{home}/secret.csv'", _NO_TABLE),
    "a file stands where a table should, as a name": ('from "{home}/secret.parquet"', _NO_TABLE),
    "the environment is read as a file": ("from read_text('/proc/self/environ')", _DISABLED),
    "what was sent to the process is read again": ("from read_csv('/dev/stdin')", _DISABLED),
    "a file is read by a query in a string": ("from query('from read_text(''{home}/secret.txt'')')", _DISABLED),
    "a file is read by a table's name": ("from query_table('{home}/secret.csv')", _NO_TABLE),
    "a file is read by serialised SQL": (
        "from json_execute_serialized_sql(json_serialize_sql('from read_text(''{home}/secret.txt'')'))",
        _BY_ADDRESS,
    ),
    "a file is read in a subquery of a constant": (
        "select (select content from read_text('{home}/' || 'secret.txt'))",
        _DISABLED,
    ),
    "the extensions on the disk are listed": ("from duckdb_extensions()", _DISABLED),
    "SQL is imported from a folder": ("import database '{home}'", _DISABLED),
    # other databases
    "another database is attached": ("attach '{home}/other.duckdb'", _ONLY_READ),
    "another database is read by a function": ("from read_duckdb('{home}/other.duckdb')", _DISABLED),
    "another database stands where a table should": ("from '{home}/other.duckdb'", f"{_DISABLED}|does not exist"),
    "its own file is opened once more": ("from read_duckdb('{home}/warehouse.duckdb')", _NO_FILE),
    "a SQLite file is scanned": ("from sqlite_scan('{home}/app.sqlite', 'jobs')", "exists in the sqlite_scanner"),
    # network and extensions
    "a file is fetched from a server": ("from read_csv('http://127.0.0.1:1/x.csv')", _DISABLED),
    "an extension is installed": ("install httpfs", _ONLY_READ),
    "an extension is loaded": ("load '{home}/secret.txt'", _ONLY_READ),
    "extensions are updated": ("update extensions", _ONLY_READ),
    # Python
    "a variable of the process is read as a table": ("from request", _NO_TABLE),
    "a module of the process is read as a table": ("from walls", _NO_TABLE),
    "memory is read by its address": ("from arrow_scan(1::ubigint, 2::ubigint, 3::ubigint)", _BY_ADDRESS),
    "an address is made of a number": ("from pandas_scan(140000000000::bigint::pointer)", _BY_ADDRESS),
    "code is called at an address in serialised SQL": (f"from json_execute_serialized_sql('{CALL}')", _BY_ADDRESS),
    "the same by PRAGMA": (f"pragma json_execute_serialized_sql('{CALL}')", "Parser Error"),
    "code is called at no address": ("from pandas_scan(null)", _BY_ADDRESS),
    "the same by its whole name in capitals": ('from system.main."PANDAS_SCAN"(null)', _BY_ADDRESS),
    "the same while it is explained": ("explain (format json) from pandas_scan(null)", _BY_ADDRESS),
    "the same while it is described": ("from (describe from pandas_scan(null))", _BY_ADDRESS),
    "the same in a subquery of a CTE": ("with x as (select (from pandas_scan(null))) select 1", _BY_ADDRESS),
    "the same by a query in a query": ("from query('from query(''from pandas_scan(null)'')')", _BY_ADDRESS),
    "the same by a text in parts": ("from query('from pandas_' || 'scan(null)')", "takes one text here"),
    # secrets and settings
    "a variable of the environment is asked for": ("select getenv('PATH')", "getenv does not exist"),
    "a key for S3 is asked for": ("select current_setting('s3_secret_access_key')", "is not in the catalog"),
    "a setting is changed": ("set memory_limit = '100GB'", _ONLY_READ),
    "a setting is put back": ("reset lock_configuration", _ONLY_READ),
    "a setting is changed by PRAGMA": ("pragma memory_limit='100GB'", _ONLY_READ),
    "a profile is written to a file": ("pragma profiling_output='{home}/made.json'", _ONLY_READ),
    "a secret is kept": ("create secret s (type http)", _ONLY_READ),
    # writing
    "rows are put into a table": ("insert into runs select * from runs", _ONLY_READ),
    "rows are put in while this is explained": ("explain analyze insert into runs select * from runs", _ONLY_READ),
    "a table is made in memory while this is explained": (
        "explain analyze create temp table t as select 1",
        _ONLY_READ,
    ),
    "the same with options and a comment": (
        "explain /* ä */ (analyze true, format json) -- \n create table memory.main.t as select 1",
        f"{_ONLY_READ}|syntax error",
    ),
    "tables are merged": ("merge into runs using runs r on false when not matched then insert", _ONLY_READ),
    "rows are put in by a CTE": ("with x as (insert into runs from runs returning *) from x", "A CTE needs a SELECT"),
    "a temporary table is made": ("create temp table t as select 1", _ONLY_READ),
    "a view is made over what is read": ("create or replace view results as select 1", _ONLY_READ),
    "a table is copied to a file": ("copy runs to '{home}/made.csv'", _ONLY_READ),
    "a copy is explained and so run": ("explain analyze copy (select 1) to '{home}/made.csv'", _ONLY_READ),
    "an answer of one's own is put before ours": ("copy (select 'x') to '/dev/stdout'", _ONLY_READ),
    "the database is exported": ("export database '{home}/made'", _ONLY_READ),
    "the file is written back": ("checkpoint warehouse", _ONLY_READ),
    "the file is written back by a function": ("from force_checkpoint()", "Cannot FORCE CHECKPOINT"),
    "the file is tidied": ("vacuum", _ONLY_READ),
    "a transaction is ended": ("commit", _ONLY_READ),
    # more than one statement
    "two statements are sent": ("select 1; drop table runs", "one statement at a time: this text has 2"),
    "the second hides behind a comment": ("select 1 /* ; */ ; -- x\n drop table runs", "this text has 2"),
    "the second hides behind a NUL": ("select 1 \0; drop table runs", "character 10 is a NUL"),
    "a write is in a string": ("from query('drop table runs')", _SELECT_ONLY),
    "a statement is prepared for later": ("prepare p as select 1", _ONLY_READ),
    "a procedure is called": ("call enable_logging(storage = 'file', storage_path = '{home}/made')", _ONLY_READ),
    "a value is left open": ("select ?", r"give a value for \$1"),
    "PIVOT makes a type first": ("pivot runs on arm", r"write PIVOT \.\.\. ON column IN"),
    # text that is none
    "half a letter is sent": ("select '\ud800'", "character 9 is half of a surrogate pair"),
    "more text than a person writes is sent": ("select 1" + " " * 100_000, "100,008 characters: the limit is 100,000"),
}

#: They run, and give away or change nothing.
HARMLESS = {
    "logging is switched on into a file": "from enable_logging(storage = 'file', storage_path = '{home}/made')",
    "the log is read": "from duckdb_logs()",
    "the log is written": "select write_log('x')",
    "the secrets are listed": "from duckdb_secrets()",
    "temporary files are listed": "from duckdb_temporary_files()",
    "the variables are listed": "from duckdb_variables()",
    "the file is written back by a function": "from checkpoint()",
    "a write is in a string that is a value": "select 'drop table runs; insert into runs'",
}


@pytest.mark.parametrize(("sql", "sentence"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(walled: Walled, sql: str, sentence: str) -> None:
    answer = walled.outcome_of(sql)
    assert answer.startswith("refused: ")
    assert re.search(sentence, answer), answer


@pytest.mark.parametrize("sql", HARMLESS.values(), ids=HARMLESS.keys())
def test_answered_without_harm(walled: Walled, sql: str) -> None:
    assert walled.outcome_of(sql).startswith("answered: ")


def test_every_function_that_takes_an_address_is_known() -> None:
    takes = "select distinct function_name from duckdb_functions() where list_contains(parameter_types, 'POINTER')"
    with duckdb.connect() as con:
        assert {name for (name,) in con.execute(takes).fetchall()} <= BY_ADDRESS


_TRIED = """
import os, socket, subprocess, sys
from warehouse.sandbox import child
written = open(sys.argv[1], "wb", buffering=0)
child.forbid_opening()
for forbidden in (lambda: open("/etc/passwd"), socket.socket, os.pipe, lambda: written.write(b"x")):
    try:
        forbidden()
    except OSError as error:
        print(error.strerror)
"""


def test_the_system_opens_and_writes_nothing_whatever_duckdb_would_allow(tmp_path: Path) -> None:
    command = (sys.executable, "-c", _TRIED, str(tmp_path / "made"))
    tried = subprocess.run(command, capture_output=True, check=True, cwd=REPOSITORY, text=True)
    assert tried.stdout.splitlines() == ["Too many open files"] * 3 + ["File too large"]


_CALLED = """
import os, socket, sys, threading
from warehouse.sandbox import child
shut = threading.Event()
def remove():
    shut.wait()
    try:
        os.remove(sys.argv[1])
    except OSError as error:
        print(error.strerror)
library = threading.Thread(target=remove)
library.start()
child._shut(child._opened([], 64), 64, [])
shut.set()
library.join()
path, program = sys.argv[1], ("/bin/true", ["true"])
for forbidden in (
    lambda: os.remove(path), lambda: os.chmod(path, 0), lambda: os.kill(os.getppid(), 0), os.fork,
    lambda: os.execv(*program), socket.socket,
):
    try:
        forbidden()
    except OSError as error:
        print(error.strerror)
"""


def test_not_even_code_in_the_process_of_a_query_removes_starts_or_signals_anything(tmp_path: Path) -> None:
    (file := tmp_path / "a file").write_text("kept")
    command = (sys.executable, "-c", _CALLED, str(file))
    called = subprocess.run(command, capture_output=True, check=True, cwd=REPOSITORY, text=True)
    assert called.stdout.splitlines() == ["Operation not permitted"] * 7
    assert file.read_text() == "kept"
