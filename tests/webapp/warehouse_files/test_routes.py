"""The warehouse's file over HTTP, as a real server sends it: to DuckDB's own httpfs, and to whatever reads ranges."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from email.message import Message
from pathlib import Path

import pytest

from access import accounts, tokens
from host.settings import Settings
from lab.roles import Role
from tests.actors import ADMIN
from tests.cli.homes import REPOSITORY
from tests.client.serving import serving
from tests.migrated import copy_migrated
from warehouse import snapshots
from warehouse.app_db.engine import open_engine
from warehouse.ingest import publication
from warehouse.ingest.publication import Master

PUBLISHES = 25
#: DuckDB with its extension httpfs, which exists as a package for this version only: `make install-test` installs it.
HTTPFS = REPOSITORY / ".venv/httpfs"
#: Attaches what its arguments say, asks the same again and again until it reads an end, and prints the first answer
#: and how often it asked.
_ASKER = """
import sys
site, url, token = sys.argv[1:]
sys.path.insert(0, site)
import duckdb
con = duckdb.connect(config={"autoinstall_known_extensions": False, "autoload_known_extensions": False})
con.execute("SET enable_progress_bar = false")
con.execute(f"LOAD '{site}/duckdb_extension_httpfs/extensions/v{duckdb.__version__}/httpfs.duckdb_extension'")
con.execute(f"CREATE SECRET lab (TYPE http, BEARER_TOKEN '{token}', SCOPE '{url}')")
con.execute(f"ATTACH '{url}' AS lab (READ_ONLY)")
count = "SELECT count(*) FROM lab.rejected_bundles"
(first,), asked = con.execute(count).fetchone(), 0
print(first, flush=True)
names = "SELECT table_name FROM duckdb_tables() WHERE database_name = 'lab'"
tables = [name for name, in con.execute(names).fetchall()]
con.execute("SET enable_external_file_cache = false")
while asked < len(tables):
    con.execute(f'FROM lab."{tables[asked]}"').fetchall()
    asked += 1
    if asked == 3:
        print("reading", flush=True)
        sys.stdin.readline()
assert con.execute(count).fetchone() == (first,)
print(asked)
"""


@dataclass(frozen=True)
class Served:
    settings: Settings
    url: str
    token: str

    def get(self, path: str, method: str = "GET", **headers: str) -> tuple[int, Message, bytes]:
        """Redirects are followed, with the token."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        bearer = {"Authorization": f"Bearer {self.token}"} | named
        request = urllib.request.Request(f"{self.url}{path}", headers=bearer, method=method)  # noqa: S310 - our own server
        try:
            with urllib.request.urlopen(request, timeout=600) as answer:  # noqa: S310 - likewise
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read()


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """With accounts; a small master is published like one whose copy would cost much."""
    monkeypatch.setattr(publication, "CHEAP_COPY_BYTES", 0)
    monkeypatch.setattr(publication, "CLONE", "--no-such-option")
    monkeypatch.setattr(publication, "OPENING_TAKES_S", 0.0)
    monkeypatch.setattr(snapshots, "REST", 0)
    settings = Settings(home=tmp_path / "home", web_login="accounts")
    copy_migrated(settings.home)
    with open_engine(settings.app_database_url) as database:
        accounts.add_user(database, "wendy", Role.VIEWER, actor=ADMIN)
        token = tokens.add_token(database, "wendy", "tests", Role.VIEWER, actor=ADMIN)[1]
    with serving(settings) as url:
        yield Served(settings, url, token)


def publish(master: Master) -> None:
    master.connection.execute("INSERT INTO rejected_bundles VALUES ('job/run', 'x', now())")
    master.publish()
    master.prepare()


def test_latest_leads_to_an_immutable_file_with_ranges(lab: Served) -> None:
    whole = lab.settings.warehouse_file.read_bytes()
    digest = hashlib.sha256(whole).hexdigest()
    for path in ("/warehouse/latest", "/warehouse/latest.duckdb", f"/warehouse/{digest}.duckdb"):
        status, headers, body = lab.get(path, Accept_Encoding="gzip")
        assert (status, body == whole, headers["ETag"]) == (200, True, f'"{digest}"')
        assert headers["Cache-Control"] == "private, max-age=31536000, immutable"
        assert lab.get(path, "HEAD")[1]["Content-Length"] == str(len(whole))
    path = f"/warehouse/{digest}.duckdb"
    status, headers, body = lab.get(path, Range="bytes=100-299")
    assert (status, body, headers["Content-Range"]) == (206, whole[100:300], f"bytes 100-299/{len(whole)}")
    assert lab.get(path, Range="bytes=0-9", If_Range='"another"')[0] == 200
    assert lab.get(path, Range=f"bytes={len(whole)}-")[0] == 416
    assert lab.get(path, If_None_Match=f'"{digest}"')[::2] == (304, b"")
    assert lab.get(f"/warehouse/{'0' * 64}.duckdb")[0] == 404


def test_without_a_token_the_file_is_not_sent(lab: Served) -> None:
    digest = lab.get("/warehouse/latest", "HEAD")[1]["ETag"].strip('"')
    for path in ("/warehouse/latest", f"/warehouse/{digest}.duckdb", "/warehouse/nothing"):
        status, headers, body = lab.get(path, Authorization="Bearer made-up", Accept="text/html")
        assert (status, headers["Content-Type"]) == (401, "application/problem+json")
        assert "drafthouse token add" in json.loads(body)["detail"]
    assert lab.get("/warehouse/..%2fsecrets.duckdb")[0] == 404


def test_files_of_the_archive_are_sent_and_no_others(lab: Served) -> None:
    folder = lab.settings.archive_dir
    folder.mkdir()
    (folder / "requests-2026-11-0badcafe.parquet").write_bytes(b"PAR1")
    status, headers, body = lab.get("/warehouse/archive/requests-2026-11-0badcafe.parquet")
    assert (status, body, "immutable" in headers["Cache-Control"]) == (200, b"PAR1", True)
    (folder / ".half.parquet").write_bytes(b"x")
    for name in ("..%2fapp.sqlite", "..%2f..%2fx.parquet", ".half.parquet", "other.parquet", "%00.parquet"):
        assert lab.get(f"/warehouse/archive/{name}")[0] == 404


def test_no_reader_of_ranges_sees_two_states_while_the_lab_publishes(
    lab: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One by the digest, one by `latest`, with a range after each publication: of copies, and of files in turns."""
    size = lab.settings.warehouse_file.stat().st_size
    pieces: dict[str, list[bytes]] = {}
    etag = lab.get("/warehouse/latest", "HEAD")[1]["ETag"]
    step = -(-size // PUBLISHES)
    paths = (f"/warehouse/{etag.strip(chr(34))}.duckdb", "/warehouse/latest.duckdb")
    with closing(Master(lab.settings.master_file, lab.settings.warehouse_file)) as master:
        for number in range(PUBLISHES):
            monkeypatch.setattr(publication, "CHEAP_COPY_BYTES", 1 << 40 if number % 5 else 0)
            publish(master)
            for path in paths:
                end = min(size, (number + 1) * step)
                status, headers, body = lab.get(path, Range=f"bytes={number * step}-{end - 1}")
                assert (status, headers["ETag"]) == (206, etag)
                pieces.setdefault(path, []).append(body)
    for path in paths:
        assert f'"{hashlib.sha256(b"".join(pieces[path])).hexdigest()}"' == etag
    assert lab.get("/warehouse/latest", "HEAD")[1]["ETag"] != etag


@pytest.mark.parametrize("name", ["latest.duckdb", "digest"])
def test_duckdb_attaches_it_and_sees_one_state_over_many_publishes(lab: Served, name: str) -> None:
    assert HTTPFS.is_dir(), "DuckDB's httpfs is missing: run `make install-test`"
    with closing(Master(lab.settings.master_file, lab.settings.warehouse_file)) as master:
        publish(master)
        digest = lab.get("/warehouse/latest", "HEAD")[1]["ETag"].strip('"')
        url = f"{lab.url}/warehouse/{f'{digest}.duckdb' if name == 'digest' else name}"
        asking = (sys.executable, "-c", _ASKER, str(HTTPFS), url, lab.token)
        with subprocess.Popen(asking, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as asker:
            assert asker.stdout is not None
            assert [asker.stdout.readline().strip() for _ in range(2)] == ["1", "reading"]
            for _ in range(10):
                publish(master)
            assert lab.get("/warehouse/latest", "HEAD")[1]["ETag"].strip('"') != digest
            said, _ = asker.communicate("\n")
    assert (asker.returncode, int(said) > 20) == (0, True)
