"""Files are uploaded only into a page of one's own, and sessions of pages are forgotten in time."""

from __future__ import annotations

import pytest

from access.web.page_sessions import PageSessions, why_no_upload
from lab.roles import Actor, Role

MIB = 2**20
SUE, VIC = Actor("sue", Role.SUBMITTER), Actor("vic", Role.VIEWER)


def test_files_go_only_into_ones_own_page_that_shows_an_uploader() -> None:
    sessions, address = PageSessions(), "/_stcore/upload_file/page/file"

    def why(actor: Actor | None, method: str = "PUT", length: str = "1000") -> int | None:
        refused = why_no_upload(sessions, actor, address, method, length)
        return None if refused is None else refused[0]

    assert why(SUE) == 403
    sessions.claim("page", "sue")
    assert why(SUE) == 403
    sessions.offer_upload("page", 2)
    assert why(SUE) is None
    assert why(SUE, "DELETE") is None
    assert why(SUE, length=str(4 * MIB)) == 413
    assert why(SUE, length="") == 411
    assert why(None) == why(VIC) == why(VIC, "DELETE") == 403
    sessions.claim("page", "vic")  # who shows one, and may import nothing
    sessions.offer_upload("page", 2)
    assert (why(VIC), why(SUE)) == (403, 403)


def test_the_session_that_ran_longest_ago_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("access.web.page_sessions._MOST_REMEMBERED", 3)
    sessions = PageSessions()
    for number in range(10):
        sessions.claim("kept", "sue")
        sessions.claim(f"page {number}", "sue")
    assert sorted(sessions._known) == ["kept", "page 8", "page 9"]
