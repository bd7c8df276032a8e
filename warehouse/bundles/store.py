"""The object store of bundles and stored verdicts, and the one way to read a bundle wherever it is.

    <url>/runs/JOB/RUN.json                       the manifest: the parts with their digests
    <url>/parts/HOST/runs/JOB/RUN/DIGEST/...      the parts, below their writer's host and a digest of all of them
    <url>/verdicts/..., <url>/parts/HOST/verdicts/...  likewise

Parts come first and the manifest last, and the store refuses a second manifest: a bundle is whole or not there, and
the first of two writers wins. As the parts' prefix is their digest, an upload that was killed is repeated over its own
parts, and never mixes with another writer's.

Without a store (`bundles_url` is None) these functions return the folder as it is, and obstore is not imported.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import platform
import re
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from host.files import sha256_of
from host.settings import Settings
from lab.errors import BundleError, UserError
from lab.study.model_base import Frozen
from warehouse.bundles.judgements import judgement_file, judgements_folder, write_judgement_file
from warehouse.bundles.run_bundle import bundle_folder, write_atomically

#: Larger parts are uploaded in pieces of 5 MiB, two at a time.
_LARGE_BYTES, _PIECES_AT_ONCE = 8 * 2**20, 2
_CHUNK_BYTES = 2**20
#: Bundles that are fetched at the same time.
_AT_ONCE = 8
#: How long a connection and a request may take; the library retries short failures.
_CLIENT = {"connect_timeout": "5s", "timeout": "60s"}
_RETRIES = {"max_retries": 2, "retry_timeout": timedelta(seconds=10)}
_VERDICT_PART = "verdict.json"
_NAME = r"[A-Za-z0-9_][A-Za-z0-9._-]*"
_PART_NAME = re.compile(rf"({_NAME}/)?{_NAME}")
_PATH = re.compile(rf"{_NAME}[/~]{_NAME}")
#: The object by which each process tests that the store refuses a second writer.
_CHECKED = "check/create-only"
_OVERWRITES = "{} lets a second writer replace an object (it ignores If-None-Match: *): use another store"


class StoreAway(UserError):  # noqa: N818 - an event, not a failure: nothing is lost by trying again
    """The object store does not answer, or refuses, or what another host measured has not arrived yet."""


class Part(Frozen):
    """A file of a bundle in the store."""

    sha256: str
    size_bytes: int


class Manifest(Frozen):
    """What a bundle or a verdict consists of. `parts` is the prefix of its files."""

    format_version: Literal[1] = 1
    path: str
    parts: str
    files: dict[str, Part]

    def content(self) -> bytes:
        return self.model_dump_json(indent=1).encode() + b"\n"


class ObjectStore:
    """An object store at a URL. Every method raises StoreAway."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._is_tested = False  # whether it refuses a second writer
        self._uploaded = set[str]()  # parts whose manifest is not stored yet: they are not sent again
        with self._named():
            self._store = _connect(self.url)

    async def upload(self, bundles: Path, path: str) -> tuple[str, bool]:
        """Upload a bundle or a verdict. Return the digest of its manifest in the store, and whether that is this
        upload's and not an earlier writer's. Raises OSError if a file cannot be read.
        """
        import obstore  # noqa: PLC0415 - see the module's docstring

        if not self._is_tested:
            await self._refuse_overwriting()
        files = _files(bundles, path)
        parts = {name: await asyncio.to_thread(_part, file) for name, file in sorted(files.items())}
        manifest = _manifest(path, parts)
        keys = {f"{manifest.parts}/{name}": name for name in files}
        for key in keys.keys() - self._uploaded:
            file, large = files[keys[key]], parts[keys[key]].size_bytes > _LARGE_BYTES
            with self._named():
                await obstore.put_async(self._store, key, file, use_multipart=large, max_concurrency=_PIECES_AT_ONCE)
            self._uploaded.add(key)
        there = content = manifest.content()
        with self._named():
            try:
                await obstore.put_async(self._store, _key(path), content, mode="create", use_multipart=False)
            except obstore.exceptions.AlreadyExistsError:
                there = bytes(await (await obstore.get_async(self._store, _key(path))).bytes_async())
        self._uploaded -= keys.keys()
        return _sha256(there), there == content

    def fetch(self, bundles: Path, path: str) -> bool:
        """Bring a bundle or a verdict into the folder, after checking every digest; return False if it is not in the
        store. What exists already stays. Raises BundleError if a digest differs, OSError if the disk is full.
        """
        content = self._get(_key(path))
        if content is None:
            return False
        manifest = self._read(path, content)
        if "/" not in path:
            checked = self._get(f"{manifest.parts}/{_VERDICT_PART}") or b""
            self._refuse_other(manifest, _VERDICT_PART, _sha256(checked))
            write_judgement_file(bundles, path, checked)
            return True

        def fill(writing: Path) -> None:
            for name in manifest.files:
                target = writing / name
                target.parent.mkdir(exist_ok=True)
                self._download(manifest, name, target)

        write_atomically({bundles / path: fill}, is_stored=True)
        return True

    def _read(self, path: str, content: bytes) -> Manifest:
        """Read a manifest, which another host wrote: no name in it may lead out of the bundle. Raises BundleError."""
        try:
            manifest = Manifest.model_validate_json(content)
        except ValidationError as error:
            raise BundleError(f"{self.url}/{_key(path)} cannot be read: {error}") from None
        plain = is_path(path) and manifest.path == path and all(map(_PART_NAME.fullmatch, manifest.files))
        if not plain or ("/" not in path and manifest.files.keys() != {_VERDICT_PART}):
            raise BundleError(f"{self.url}/{_key(path)} is not the manifest of {path}")
        return manifest

    def fetch_all(self, bundles: Path, paths: list[str]) -> None:
        """Bring what is missing into the folder, several at a time. Raises as `fetch`."""
        missing = [path for path in paths if not local_path(bundles, path).exists()]
        with ThreadPoolExecutor(_AT_ONCE, "fetch") as pool:
            list(pool.map(lambda path: self.fetch(bundles, path), missing))

    def manifest_sha256(self, path: str) -> str | None:
        """Return the digest of a manifest, None if there is none."""
        content = self._get(_key(path))
        return None if content is None else _sha256(content)

    def paths(self, job_id: str | None = None) -> list[str]:
        """List all bundles and verdicts, or those of a job: a thousand for each request."""
        import obstore  # noqa: PLC0415 - see the module's docstring

        below = "" if job_id is None else f"/{job_id}"
        with self._named():
            runs, verdicts = (
                [item["path"] for page in obstore.list(self._store, f"{kind}{below}") for item in page]
                for kind in ("runs", "verdicts")
            )
        names = [key.removeprefix("runs/") for key in runs]
        names += [key.removeprefix("verdicts/").replace("/", "~") for key in verdicts]
        return [name.removesuffix(".json") for name in names if name.endswith(".json")]

    def remove(self, path: str) -> None:
        """Move a manifest aside: its parts stay, and `put_back` brings it back."""
        self._move(_key(path), f"removed/{_key(path)}", mode="overwrite")  # of the same run, removed earlier

    def put_back(self, path: str) -> str | None:
        """Return the digest of the manifest that was put back, None if there is none."""
        self._move(f"removed/{_key(path)}", _key(path), mode="create")
        return self.manifest_sha256(path)

    def purge(self, job_id: str) -> None:
        """Delete everything of a job for good: the manifests first, so that none names what is gone."""
        import obstore  # noqa: PLC0415 - see the module's docstring

        with self._named():
            writers = obstore.list_with_delimiter(self._store, "parts")["common_prefixes"]
        of_parts = [f"{writer}/{kind}" for writer in writers for kind in ("runs", "verdicts")]
        for kind in ("runs", "verdicts", "removed/runs", *of_parts):
            with self._named():
                keys = [item["path"] for page in obstore.list(self._store, f"{kind}/{job_id}") for item in page]
                if keys:
                    obstore.delete(self._store, keys)

    def _move(self, key: str, to: str, mode: Literal["create", "overwrite"]) -> None:
        import obstore  # noqa: PLC0415 - see the module's docstring

        if (content := self._get(key)) is not None:
            self._put(to, content, mode)
            with self._named():
                obstore.delete(self._store, key)

    async def _refuse_overwriting(self) -> None:
        """Raise StoreAway unless the store refuses a second writer of an object, which stays in it."""
        import obstore  # noqa: PLC0415 - see the module's docstring

        for content in (b"first", b"second"):
            with self._named():
                try:
                    await obstore.put_async(self._store, _CHECKED, content, mode="create", use_multipart=False)
                except obstore.exceptions.AlreadyExistsError:
                    self._is_tested = True
                    return
        raise StoreAway(_OVERWRITES.format(self.url))

    def problem(self) -> str | None:
        """Test the store by an object of its own, and say what is wrong with it."""
        import obstore  # noqa: PLC0415 - see the module's docstring

        key, doing = f"check/{uuid.uuid4().hex}", "writing"
        try:
            self._put(key, b"first")
            doing = "reading"
            if self._get(key) != b"first":
                return f"{self.url} returns something else than was written: use another store"
            doing = "writing a second time"
            overwrites = self._put(key, b"second")
            doing = "deleting"
            with self._named():
                obstore.delete(self._store, key)
            if self._get(key) is not None:
                return f"{self.url} does not delete: use another store"
        except StoreAway as away:
            return f"{doing} failed: {away}"
        return _OVERWRITES.format(self.url) if overwrites else None

    def _put(self, key: str, content: bytes, mode: Literal["create", "overwrite"] = "create") -> bool:
        """Write an object; return False if it exists already and may not be replaced."""
        import obstore  # noqa: PLC0415 - see the module's docstring

        with self._named():
            try:
                obstore.put(self._store, key, content, mode=mode, use_multipart=False)
            except obstore.exceptions.AlreadyExistsError:
                return False
        return True

    def _get(self, key: str) -> bytes | None:
        found = self._find(key)
        with self._named():
            return None if found is None else bytes(found.bytes())

    def _find(self, key: str) -> Any:
        """Begin to read an object; return None if it does not exist."""
        import obstore  # noqa: PLC0415 - see the module's docstring

        with self._named():
            try:
                return obstore.get(self._store, key)
            except FileNotFoundError as missing:
                if "NoSuchBucket" in str(missing):
                    raise
                return None

    def _download(self, manifest: Manifest, name: str, to: Path) -> None:
        digest = hashlib.sha256()
        if (found := self._find(f"{manifest.parts}/{name}")) is None:
            raise BundleError(f"{self.url}/{manifest.parts}/{name} is missing, and its manifest lists it")
        with to.open("xb") as file, self._named():
            for chunk in found.stream(min_chunk_size=_CHUNK_BYTES):
                file.write(chunk)
                digest.update(chunk)
        self._refuse_other(manifest, name, digest.hexdigest())

    def _refuse_other(self, manifest: Manifest, name: str, sha256: str) -> None:
        if sha256 != manifest.files[name].sha256:
            raise BundleError(f"{self.url}/{manifest.parts}/{name} is not what its manifest lists: its digest differs")

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """Raise StoreAway in place of the library's errors, except AlreadyExistsError."""
        import obstore  # noqa: PLC0415 - see the module's docstring

        try:
            yield
        except obstore.exceptions.AlreadyExistsError:
            raise
        except (obstore.exceptions.BaseError, FileNotFoundError, PermissionError, ValueError) as error:
            raise StoreAway(f"the object store {self.url}: {_words(error)}") from None


def open_store(settings: Settings) -> ObjectStore | None:
    """Return the object store of the bundles, None if there is none. Raises StoreAway for one that cannot be used."""
    return None if settings.bundles_url is None else ObjectStore(settings.bundles_url)


def local_bundle(settings: Settings, job_id: str, run_id: str) -> Path:
    """Return the folder of a run's bundle, which is fetched if it is in the object store only.

    It does not exist if there is no such run. Raises StoreAway, and BundleError for a bundle that was changed.
    """
    folder = bundle_folder(settings.bundles, job_id, run_id)
    if settings.bundles_url is not None and not folder.exists():
        ObjectStore(settings.bundles_url).fetch(settings.bundles, f"{job_id}/{run_id}")
    return folder


def local_job(settings: Settings, job_id: str) -> Path:
    """Return the folder of a job's bundles, after fetching those that are in the object store only. Raises as
    `local_bundle`.
    """
    if settings.bundles_url is not None and Path(job_id).name == job_id:
        store = ObjectStore(settings.bundles_url)
        store.fetch_all(settings.bundles, [path for path in store.paths(job_id) if "/" in path])
    return settings.bundles / job_id


def is_path(path: str) -> bool:
    """Return whether this can be the path of a bundle or the id of a verdict: it leads nowhere else."""
    return _PATH.fullmatch(path) is not None


def local_path(bundles: Path, path: str) -> Path:
    """Return where a bundle or a verdict is in the folder, by its path in the object store."""
    return bundles / path if "/" in path else judgement_file(bundles, path)


def local_paths(bundles: Path) -> list[str]:
    """Return the paths of all bundles and verdicts in the folder."""
    runs = [f"{run.parent.parent.name}/{run.parent.name}" for run in bundles.glob("*/[!.]*/run.json")]
    return runs + [file.stem for file in judgements_folder(bundles).glob("[!.]*.json")]


def policy_of_host(url: str, host: str) -> dict[str, Any]:
    """Return what the key of a worker host may do in a store that speaks S3, as such stores write policies.

    It writes its own parts and creates manifests of runs, replaces and deletes neither, and reads the runs of all hosts
    because a study may move. Listing makes the store say of a missing object that it is missing.
    """
    bucket, _, prefix = url.removeprefix("s3://").rstrip("/").partition("/")
    root = f"arn:aws:s3:::{bucket}/{prefix}".rstrip("/")
    rights: list[tuple[list[str], list[str], dict[str, Any]]] = [
        (["PutObject", "AbortMultipartUpload"], [f"{_parts_of(host)}/*"], {}),
        (["PutObject"], ["runs/*"], {"Condition": {"Null": {"s3:if-none-match": "false"}}}),
        (["GetObject"], ["runs/*", "parts/*"], {}),
        (["PutObject", "GetObject", "DeleteObject"], ["check/*"], {}),
    ]
    statements = [
        {"Effect": "Allow", "Action": [f"s3:{it}" for it in verbs], "Resource": [f"{root}/{key}" for key in keys]}
        | only
        for verbs, keys, only in rights
    ]
    listing = {"Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": [f"arn:aws:s3:::{bucket}"]}
    return {"Version": "2012-10-17", "Statement": [*statements, listing]}


def _connect(url: str) -> Any:
    from obstore.store import LocalStore, from_url  # noqa: PLC0415 - see the module's docstring

    if url.startswith("file://"):
        return LocalStore(url.removeprefix("file://"), mkdir=True)
    names = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT")
    plain = any(os.environ.get(name, "").startswith("http://") for name in names)
    client: Any = {**_CLIENT, "allow_http": plain}
    retries: Any = _RETRIES
    return from_url(url, client_options=client, retry_config=retries)


def _files(bundles: Path, path: str) -> dict[str, Path]:
    local = local_path(bundles, path)
    if "/" not in path:
        return {_VERDICT_PART: local}
    return {str(file.relative_to(local)): file for file in local.rglob("*") if file.is_file()}


def _part(file: Path) -> Part:
    return Part(sha256=sha256_of(file), size_bytes=file.stat().st_size)


def _manifest(path: str, files: dict[str, Part]) -> Manifest:
    digest = _sha256("\n".join(f"{name} {part.sha256}" for name, part in files.items()).encode())
    below = f"{_parts_of(platform.node())}/{_key(path).removesuffix('.json')}"
    return Manifest(path=path, parts=f"{below}/{digest[:16]}", files=files)


def _parts_of(host: str) -> str:
    """Return the prefix of the parts that a host writes, and nobody else if the store's keys say so."""
    return f"parts/{re.sub(r'[^A-Za-z0-9._-]', '-', host)}"


def _key(path: str) -> str:
    """Return the key of a manifest."""
    return f"runs/{path}.json" if "/" in path else f"verdicts/{path.replace('~', '/', 1)}.json"


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _words(error: Exception) -> str:
    """Return what the library says: the request and its answer, or its first line."""
    text = str(error)
    code = re.search(r"<Code>(\w+)</Code>", text)
    asked = re.search(r"Error performing (\w+ \S+) in .*? - (?:Server returned non-2xx status code: )?([^<\n]*)", text)
    words = f"{asked[1]}: {asked[2].strip(' :')}" if asked else text.split("\n", maxsplit=1)[0]
    return f"{words}{f' ({code[1]})' if code else ''}"
