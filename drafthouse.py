"""A client for a Drafthouse lab: one file that needs nothing but Python 3.11 or newer.

    import drafthouse

    lab = drafthouse.connect("https://lab.example.org", "drafthouse_...")
    lab.sql("from valid_latest_runs")      # a pandas data frame; an Arrow table with as_="arrow"
    lab.submit("study.toml")               # a file, TOML as text, or a dictionary

Data frames need pandas and pyarrow, Arrow tables pyarrow; `as_="rows"` needs neither. Without arguments, `connect`
takes DRAFTHOUSE_SERVER and DRAFTHOUSE_TOKEN from the environment.
"""

from __future__ import annotations

import glob
import hashlib
import http.client
import json
import os
import re
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Literal

__all__ = ["Lab", "LabError", "Snapshot", "connect", "quoted"]
SERVER, TOKEN = "DRAFTHOUSE_SERVER", "DRAFTHOUSE_TOKEN"
Form = Literal["pandas", "arrow", "rows"]
#: Called with the number of bytes fetched so far, and the size of the file.
Progress = Callable[[int, int], None]
_FINISHED = ("done", "failed", "cancelled")
_TIMEOUT_S = 120.0
#: Requests to an unreachable lab are repeated for this long; its proxy reports that by these statuses.
PATIENCE_S, PASSING = 600.0, (0, 429, 502, 503, 504)
_PIECE_BYTES = 1 << 20
_MOST_ROWS = 1_000_000


class LabError(Exception):
    """The lab refused, in a sentence, or could not be reached. `status` is 0 then; `problems` lists a study's."""

    def __init__(self, sentence: str, status: int = 0, problems: Sequence[Mapping[str, str]] = ()) -> None:
        super().__init__(sentence)
        self.status, self.problems = status, tuple(problems)


@dataclass(frozen=True)
class Snapshot:
    """A state of the lab's warehouse: where it is, the SHA-256 of its content, its size and when it was published."""

    url: str
    digest: str
    bytes: int
    published_at: datetime


def connect(url: str | None = None, token: str | None = None) -> Lab:
    """Return a client for the lab at this address. No request is sent yet."""
    url = url or os.environ.get(SERVER)
    if not url:
        raise LabError(f"name the lab: drafthouse.connect('https://lab.example.org', token), or set {SERVER}")
    return Lab(url, token or os.environ.get(TOKEN) or None)


class Lab:
    """A lab, used through its API. Every method raises LabError."""

    def __init__(self, url: str, token: str | None = None) -> None:
        parts = urllib.parse.urlsplit(url if "//" in url else f"https://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
            raise LabError(f"{url!r} is not the address of a lab: write https://lab.example.org")
        self.url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        self._token = token
        self._opener = urllib.request.build_opener(_OnlyHere())

    def __repr__(self) -> str:
        return f"Lab({self.url!r})"

    def me(self) -> dict[str, str]:
        """Return the token's user, and the most that it may do."""
        return self.ask("/me")  # type: ignore[no-any-return]

    def sql(self, query: str, *, as_: Form = "pandas", max_rows: int = _MOST_ROWS) -> Any:
        """Run one query on the warehouse, in DuckDB's SQL. Warns if rows were left out."""
        wanted = {"sql": query, "max_rows": max_rows, "format": "json" if as_ == "rows" else "arrow"}
        with self.open("/api/v1/sql", "POST", body=wanted) as answer:
            left_out, body = answer.headers.get("X-Drafthouse-Left-Out"), self.read(answer)
        if left_out:
            warnings.warn(f"{left_out}: add a limit or aggregate", stacklevel=2)
        if as_ == "rows":
            found = json.loads(body)
            return [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]
        return _arrow(body) if as_ == "arrow" else _arrow(body).to_pandas()

    def results(self, study: str | None = None, *, valid_only: bool = True, as_: Form = "pandas") -> Any:
        """Return one row for each run of a study or job, or of all; only those that count if `valid_only`."""
        view = "valid_latest_runs" if valid_only else "results"
        quoted = "" if study is None else "'" + study.replace("'", "''") + "'"
        which = f" WHERE job_id = {quoted} OR study_name = {quoted}" if study is not None else ""
        return self.sql(f"SELECT * FROM {view}{which} ORDER BY started_at, run_id", as_=as_)  # noqa: S608 - quoted

    def plan(self, study: str | Path | Mapping[str, Any]) -> dict[str, Any]:
        """Return a study's expected time and size, and the problems that would refuse it; nothing is stored."""
        return self.ask("/studies/plan", "POST", body=_study(study))  # type: ignore[no-any-return]

    def submit(self, study: str | Path | Mapping[str, Any], *, priority: int = 0) -> str:
        """Queue a study, which is a TOML file, TOML as text or a dictionary. Returns the job's id."""
        sent = {**_study(study), "priority": priority}
        return str(self.ask("/studies", "POST", body=sent)["job_id"])

    def jobs(self, limit: int = 200) -> list[dict[str, Any]]:
        """Return the newest jobs, and all that are queued or running."""
        return self.ask("/jobs", query={"limit": limit})["jobs"]  # type: ignore[no-any-return]

    def job(self, name: str) -> dict[str, Any]:
        """Return one job, by its id or its study's name."""
        return self.ask(f"/jobs/{quoted(name)}")  # type: ignore[no-any-return]

    def watch(self, name: str) -> Iterator[dict[str, Any]]:
        """Yield the job whenever it changes, until it has ended.

        A broken connection is made again, and a lab that has answered once may be unreachable for ten minutes, as while
        its server restarts. A study's name means the job that was its newest at the beginning.
        """
        last, seen_s = None, time.monotonic()
        while True:
            try:
                for state in self._events(name):
                    name, seen_s = state["job_id"], time.monotonic()
                    if state != last:
                        yield state
                    last = state
                    if state["state"] in _FINISHED:
                        return
            except LabError as error:
                if last is None or error.status not in PASSING or time.monotonic() - seen_s > PATIENCE_S:
                    raise
            except (OSError, http.client.HTTPException):
                pass  # the next try shows whether the lab answers
            time.sleep(1)

    def wait(self, name: str) -> dict[str, Any]:
        """Wait until the job has ended, and return it."""
        *_, last = self.watch(name)
        return last

    def cancel(self, name: str) -> dict[str, Any]:
        return self.ask(f"/jobs/{quoted(name)}/cancel", "POST")  # type: ignore[no-any-return]

    def retry(self, name: str, *, everything: bool = False) -> dict[str, Any]:
        """Queue an ended job again: its missing and failed runs, or all of them."""
        return self.ask(f"/jobs/{quoted(name)}/retry", "POST", body={"everything": everything})  # type: ignore[no-any-return]

    def log(self, name: str, lines: int = 200) -> str:
        """Return the end of the engine's log."""
        with self.open(f"/api/v1/jobs/{quoted(name)}/log", query={"lines": lines}) as answer:
            return self.read(answer).decode("utf-8", "replace")

    def compare(self, study: str, **options: Any) -> dict[str, Any]:
        """Return each arm's ratio to the baseline, with interval and verdict. Options: metric, baseline, strict."""
        return self.ask(f"/studies/{quoted(study)}/comparison", query=options)  # type: ignore[no-any-return]

    def answer(self, study: str) -> dict[str, Any]:
        """Return what to enable where, how sure that is, and what is inconclusive."""
        return self.ask(f"/studies/{quoted(study)}/answer")  # type: ignore[no-any-return]

    def costs(self, study: str, **options: Any) -> list[dict[str, Any]]:
        """Return what a million tokens cost with each arm. Options: price_per_hour, utilisation."""
        return self.ask(f"/studies/{quoted(study)}/costs", query=options)  # type: ignore[no-any-return]

    def import_files(
        self, files: Sequence[tuple[str, str, bytes]], *, tool: str = "auto", labels: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Import result files of other tools: (field of the form, name, content) of each, as docs/api.md has them."""
        fields = [("tool", tool), *(("label", f"{key}={value}") for key, value in (labels or {}).items())]
        body, media_type = _form(fields, files)
        with self.open("/api/v1/imports", "POST", data=body, headers={"Content-Type": media_type}) as answer:
            return json.loads(self.read(answer))  # type: ignore[no-any-return]

    def snapshot(self) -> Snapshot:
        """Return the newest state of the lab's warehouse. `.url` stays the same file; any DuckDB can attach it."""
        with self.open("/warehouse/latest", "HEAD") as answer:
            return Snapshot(
                url=answer.url,
                digest=answer.headers["ETag"].strip('"'),
                bytes=int(answer.headers["Content-Length"]),
                published_at=parsedate_to_datetime(answer.headers["Last-Modified"]),
            )

    def pull(self, to: str | Path = "warehouse.duckdb", *, progress: Progress = lambda _has, _of: None) -> bool:
        """Fetch the warehouse's file if it changed. Returns whether it did.

        An existing file is replaced in one step, once the new one is complete and has the expected digest. A fetch
        that was interrupted is resumed.
        """
        to, newest = Path(to), self.snapshot()
        if to.is_file() and to.stat().st_size == newest.bytes and _sha256(to) == newest.digest:
            return False
        self.fetch(newest, to, progress=progress)
        return True

    def fetch(self, snapshot: Snapshot, to: str | Path, *, progress: Progress = lambda _has, _of: None) -> None:
        """Fetch one state of the warehouse, as `pull` does."""
        to = Path(to)
        part = to.with_name(f".{to.name[:100]}.{snapshot.digest[:12]}.part")
        try:
            for other in to.parent.glob(f".{glob.escape(to.name[:100])}.*.part"):
                if other != part:
                    other.unlink(missing_ok=True)  # of an older state
            self._fetch(snapshot, part, progress)
            if _sha256(part) != snapshot.digest:
                part.unlink()
                raise LabError("the downloaded file differs from the lab's: try again")
            when = snapshot.published_at.timestamp()
            os.utime(part, (when, when))
            part.replace(to)
        except OSError as error:
            raise LabError(f"{to} cannot be written: {error.strerror or error}") from None

    def ask(self, path: str, method: str = "GET", *, query: Mapping[str, Any] | None = None, body: Any = None) -> Any:
        """Send JSON to one operation of the API, below /api/v1, and return its JSON."""
        with self.open(f"/api/v1{path}", method, query=query, body=body) as answer:
            return json.loads(self.read(answer))

    def open(
        self,
        path: str,
        method: str = "GET",
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Return the lab's answer as an open file. `body` is sent as JSON, `data` as it is."""
        given = {name: _text(value) for name, value in (query or {}).items() if value is not None}
        url = f"{self.url}{path}?{urllib.parse.urlencode(given)}" if given else f"{self.url}{path}"
        sent = dict(headers or {})
        if body is not None:
            data, sent["Content-Type"] = json.dumps(body).encode(), "application/json"
        elif method == "POST" and data is None:
            data = b""
        if self._token:
            sent["Authorization"] = f"Bearer {self._token}"
        request = urllib.request.Request(url, data, sent, method=method)  # noqa: S310 - http or https
        try:
            return self._opener.open(request, timeout=_TIMEOUT_S)
        except urllib.error.HTTPError as error:
            with error:  # else a body that is not read to its end keeps the connection open
                raise _refusal(error, self.url) from None
        except (OSError, http.client.HTTPException) as error:
            raise LabError(f"the lab at {self.url} cannot be reached: {getattr(error, 'reason', error)}") from None

    def read(self, answer: Any, most_bytes: int | None = None) -> bytes:
        """Read all of a response, or its next piece."""
        try:
            return answer.read() if most_bytes is None else answer.read(most_bytes)  # type: ignore[no-any-return]
        except (OSError, http.client.HTTPException):
            raise LabError(f"the connection to {self.url} ended early: try again") from None

    def _events(self, name: str) -> Iterator[dict[str, Any]]:
        with self.open(f"/api/v1/jobs/{quoted(name)}/events") as answer:
            for line in answer:
                if line.startswith(b"data: "):
                    yield json.loads(line.removeprefix(b"data: "))

    def _fetch(self, newest: Snapshot, part: Path, progress: Progress) -> None:
        has = part.stat().st_size if part.exists() else 0
        if has >= newest.bytes:  # all of it came before an interruption; its digest is checked next
            return
        headers = {"Range": f"bytes={has}-"} if has else {}
        with self.open(newest.url.removeprefix(self.url), headers=headers) as answer, part.open("ab") as file:
            if has and answer.status != http.client.PARTIAL_CONTENT:
                file.truncate(has := 0)
            while piece := self.read(answer, _PIECE_BYTES):
                file.write(piece)
                progress(has := has + len(piece), newest.bytes)
            file.flush()
            os.fsync(file.fileno())
        if has != newest.bytes:
            raise LabError(f"the connection to {self.url} ended early: try again to continue from there")


class _OnlyHere(urllib.request.HTTPRedirectHandler):
    """Follows the lab's own redirects only: the token is for nobody else."""

    def redirect_request(self, req: Any, *answer: Any) -> Any:
        newurl = str(answer[-1])
        if _origin(newurl) != _origin(req.full_url):
            raise LabError(f"{_origin(req.full_url)} redirects to {_origin(newurl)}, which is not the lab")
        request = super().redirect_request(req, *answer)
        if request is not None:
            request.method = req.get_method()
        return request


def _origin(url: str) -> str:
    parts = urllib.parse.urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _refusal(error: urllib.error.HTTPError, url: str) -> LabError:
    """Return the lab's own sentence as an error, or the status if something else responded."""
    body = error.read(1 << 20)
    try:
        problem = json.loads(body)
        return LabError(str(problem["detail"]), error.code, problem.get("problems", ()))
    except (ValueError, KeyError, TypeError):
        is_short = len(body) < 500 and "text/plain" in error.headers.get("Content-Type", "")
        said = body.decode("utf-8", "replace").strip() if is_short else ""
        return LabError(said or f"{url} answers {error.code} {error.reason}: is it a Drafthouse?", error.code)


def _study(study: str | Path | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(study, Mapping):
        return {"study": dict(study)}
    if isinstance(study, Path) or re.fullmatch(r"[^\n]+\.(toml|json)", study):
        try:
            text = Path(study).read_text("utf-8")
        except OSError as error:
            raise LabError(f"{study} cannot be read: {error.strerror}") from None
        return {"study": json.loads(text)} if str(study).endswith(".json") else {"toml": text}
    return {"toml": study}


def _form(fields: Sequence[tuple[str, str]], files: Sequence[tuple[str, str, bytes]]) -> tuple[bytes, str]:
    """Return the body of a form, and its media type."""
    boundary = uuid.uuid4().hex
    parts = [(f'name="{field}"', value.encode()) for field, value in fields]
    parts += [(f'name="{field}"; filename="{_in_quotes(name)}"', content) for field, name, content in files]
    begin = f"--{boundary}\r\nContent-Disposition: form-data; "
    pieces = [f"{begin}{about}\r\n\r\n".encode() + content + b"\r\n" for about, content in parts]
    return b"".join([*pieces, f"--{boundary}--\r\n".encode()]), f"multipart/form-data; boundary={boundary}"


def _in_quotes(name: str) -> str:
    return name.replace("\\", "/").replace('"', "%22").replace("\r", "").replace("\n", " ")


def _arrow(body: bytes) -> Any:
    try:
        import pyarrow as pa  # noqa: PLC0415 - rows need no pyarrow
    except ImportError:
        raise LabError('this needs pyarrow (pip install pyarrow pandas); as_="rows" does without') from None
    return pa.ipc.open_stream(body).read_all()


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def quoted(name: str) -> str:
    """Return a name as a part of a path."""
    return urllib.parse.quote(name, safe="")


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
