"""How many bytes each visitor has in the page's memory, and what is refused where there is no room."""

from __future__ import annotations

from collections import Counter

import pytest

from access.web.account import Account
from access.web.page_sessions import PageSessions, why_no_upload
from lab.errors import BusyError
from lab.roles import Actor, Role

MIB = 2**20
SUE, VIC = Actor("sue", Role.SUBMITTER), Actor("vic", Role.VIEWER)


def test_a_visitor_has_a_share_and_all_visitors_have_a_limit() -> None:
    account = Account(100 * MIB, Counter, most_each=40 * MIB)
    with account.holding("sue", 40 * MIB):
        with pytest.raises(
            BusyError, match=r"40 MiB of yours are in the page's memory, and 1\.0 more would be over 40"
        ):
            account.hold("sue", MIB)
        account.hold("sam", 40 * MIB)
        account.hold("kim", 20 * MIB)
        with pytest.raises(BusyError, match="no memory left"):
            account.hold("eve", MIB)
    account.hold("eve", MIB)
    for name, mib in (("sam", 40), ("kim", 20), ("eve", 1)):
        account.let_go(name, mib * MIB)
    assert not account._held


def test_what_was_uploaded_counts_too_and_one_visitor_never_has_it_all() -> None:
    uploaded = Counter({"sue": 30 * MIB})
    account = Account(100 * MIB, lambda: uploaded)
    with pytest.raises(BusyError, match="30 MiB of yours"):
        account.hold("sue", 21 * MIB)
    uploaded.clear()
    account.hold("sue", 50 * MIB)
    with pytest.raises(BusyError):
        account.hold("sue", 1)


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
