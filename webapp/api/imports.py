"""`POST /imports`: result files of other tools, or runs that another Drafthouse exported; all of them or none."""

from __future__ import annotations

import tempfile
from pathlib import Path, PurePosixPath
from typing import Any

from anyio import to_thread
from fastapi import APIRouter, Request
from starlette.datastructures import FormData, UploadFile

from interchange.files import LARGEST_IMPORT_BYTES, MIB, MOST_FILES, ForeignFile, printable
from interchange.reading import AUTO
from interchange.store import Import, import_paths, import_read
from lab.errors import ForeignFileError
from lab.roles import Change
from webapp.api.calls import AuthorisedCall, Call
from webapp.api.limits import READING_FILES, Operation, takes

router = APIRouter(route_class=Operation, tags=["imports"])
#: Bytes that a form adds to its files.
_FORM_BYTES = MIB
#: Limits of names and depth that every file system supports.
_LONGEST_NAME, _DEEPEST = 255, 8
_FILES = {"type": "array", "items": {"type": "string", "format": "binary"}}
_SCHEMA = {
    "type": "object",
    "properties": {
        "file": _FILES | {"description": "Result files."},
        "found": _FILES | {"description": "Files of a folder; those that are not results are skipped."},
        "exported": _FILES | {"description": "The files of a folder that `drafthouse export` wrote, by their paths."},
        "tool": {"type": "string", "description": "Accept only this format."},
        "label": {"type": "array", "items": {"type": "string"}, "description": "KEY=VALUE, added to every run."},
    },
}


@router.post(
    "/imports",
    status_code=201,
    openapi_extra={"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": _SCHEMA}}}},
)
@takes(LARGEST_IMPORT_BYTES + _FORM_BYTES, files_for=Change.IMPORT)
async def import_files(call: AuthorisedCall, request: Request) -> dict[str, Any]:
    """Import result files. Runs imported before are not changed."""
    async with request.form(max_files=MOST_FILES, max_fields=1000) as form:
        return (await to_thread.run_sync(_import, call, form, limiter=READING_FILES)).document()


def _import(call: Call, form: FormData) -> Import:
    if exported := _sent(form, "exported"):
        return _restore(call, exported)
    named = [ForeignFile(upload.filename or "file", upload.file.read()) for upload in _sent(form, "file")]
    found = [ForeignFile(upload.filename or "file", upload.file.read(), False) for upload in _sent(form, "found")]
    tool = form.get("tool", AUTO)
    labels = dict(_label(label) for label in form.getlist("label"))
    return import_read(call.settings, (*named, *found), str(tool), labels, actor=call.actor)


def _restore(call: Call, exported: list[UploadFile]) -> Import:
    with tempfile.TemporaryDirectory() as folder:
        for path, upload in _by_path(exported).items():
            file = Path(folder, *path.parts)
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(upload.file.read())
            except OSError as error:
                raise ForeignFileError(f"{printable(str(path))} cannot be written: {error.strerror}") from None
        try:
            return import_paths(call.settings, [Path(folder)], actor=call.actor)
        except ForeignFileError as error:
            raise ForeignFileError(str(error).replace(folder, "the folder")) from None


def _by_path(exported: list[UploadFile]) -> dict[PurePosixPath, UploadFile]:
    """Return the files by path within the folder. Refuses paths that conflict with each other."""
    found: dict[PurePosixPath, UploadFile] = {}
    folders: set[PurePosixPath] = set()
    for upload in exported:
        path = PurePosixPath(upload.filename or "")
        shown = printable(str(path))
        if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in str(path):
            raise ForeignFileError(f"{shown} is not a path inside an exported folder")
        if len(path.parts) > _DEEPEST or any(len(part.encode()) > _LONGEST_NAME for part in path.parts):
            raise ForeignFileError(
                f"{shown}: a name may have {_LONGEST_NAME} bytes at most, in at most {_DEEPEST} folders"
            )
        if path in found:
            raise ForeignFileError(f"{shown} was sent twice")
        found[path] = upload
        folders.update(path.parents)
    if both := sorted(folders & found.keys()):
        raise ForeignFileError(f"{printable(str(both[0]))} was sent both as a file and as a folder")
    return found


def _sent(form: FormData, field: str) -> list[UploadFile]:
    return [value for value in form.getlist(field) if isinstance(value, UploadFile)]


def _label(text: object) -> tuple[str, str]:
    key, _, value = str(text).partition("=")
    if not (key.strip() and value.strip()):
        raise ForeignFileError(f"{printable(str(text))!r} is not a label: write KEY=VALUE")
    return key.strip(), value.strip()
