"""The owner of each open page's session, and the largest file that may be uploaded into it.

Streamlit treats a session's id as a key: whoever names it in a websocket resumes that session, and whoever names
it in an address uploads into it. So the guard checks the owner first.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict

from streamlit import runtime
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager

from lab.roles import Actor, Change, may_any

UPLOADS = "/_stcore/upload_file/"
#: The most bytes that a form adds to its file.
_FORM_BYTES = 2**20
#: Far more sessions than can be open or resumed; the one that ran longest ago is forgotten, until it runs again.
_MOST_REMEMBERED = 5_000
#: A generous overhead for each file on top of its bytes, which limits the number of small files too.
LEAST_BYTES = 64 * 1024


class PageSessions:
    """Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[str, tuple[str, int]] = OrderedDict()  # visitor, and bytes of the largest upload

    def claim(self, session_id: str, visitor: str) -> None:
        """Assign the session to this visitor, at each run of a page. After a change of owner uploads are closed."""
        with self._lock:
            owner, largest = self._known.get(session_id, (visitor, 0))
            self._known[session_id] = (visitor, largest if owner == visitor else 0)
            self._known.move_to_end(session_id)
            if len(self._known) > _MOST_REMEMBERED:
                self._known.popitem(last=False)

    def offer_upload(self, session_id: str, most_mib: int) -> None:
        """Note that the session's page shows an uploader for files of up to this many MiB."""
        with self._lock:
            if (found := self._known.get(session_id)) is not None:
                self._known[session_id] = (found[0], max(found[1], most_mib * 2**20))

    def belongs(self, session_id: str, visitor: str) -> bool:
        with self._lock:
            return self._known.get(session_id, ("", 0))[0] == visitor

    def largest_upload(self, session_id: str) -> int:
        """Return the size of the largest file that may be uploaded there; 0 if no uploader was shown."""
        with self._lock:
            return self._known.get(session_id, ("", 0))[1]

    def uploaded_bytes(self) -> Counter[str]:
        """Return the bytes that each visitor has uploaded into open pages."""
        manager = runtime.get_instance().uploaded_file_mgr if runtime.exists() else None
        if not isinstance(manager, MemoryUploadedFileManager):
            return Counter()
        counted = Counter[str]()
        for session_id, files in list(manager.file_storage.items()):
            with self._lock:
                visitor = self._known.get(session_id, ("", 0))[0]
            counted[visitor] += sum(max(len(file.data), LEAST_BYTES) for file in list(files.values()))
        return counted


def why_no_upload(
    sessions: PageSessions, actor: Actor | None, path: str, method: str, length: str
) -> tuple[int, str] | None:
    """Return status and sentence that refuse an upload or its removal; None if it is accepted."""
    session_id, most = path.removeprefix(UPLOADS).partition("/")[0], 0
    if actor is None or not sessions.belongs(session_id, actor.name):
        return 403, "This page is not yours, or was not shown yet: load it again."
    if method == "DELETE":
        return None
    if may_any(actor, Change.IMPORT) or may_any(actor, Change.DATASETS):
        most = sessions.largest_upload(session_id)
    if not most:
        return 403, "This page takes no files from you."
    if not length.isdecimal():
        return 411, "Send the file with its length."
    is_long = int(length) > most + _FORM_BYTES
    return (413, f"The file is longer than {most // 2**20} MiB.") if is_long else None


#: The sessions of this process.
PAGE_SESSIONS = PageSessions()
