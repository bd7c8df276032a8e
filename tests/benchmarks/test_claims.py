"""A small version of part claims."""

from __future__ import annotations

import re

import pytest

from benchmarks import claims
from tests.postgresql import running_server
from warehouse.app_db.engine import migrate_app


def test_part_claims_prints_what_claims_and_heartbeats_cost_beside_their_aims(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "_POLL_EVERY_S", 0.05)
    with running_server() as server:
        url = server.url.format(name="postgres")
        migrate_app(url)
        claims.show_claims("PostgreSQL", url, 20, 2, server)
        claims.show_herd(url, 20, workers=2, times=2)
        claims.show_beats(server, url, workers=2, seconds=0.5)
        claims.show_hundred(server, url, workers=2, seconds=0.5)
    printed = capfd.readouterr().out
    for line in (
        r"claim +\d+\.\d ",
        r"ms of the worker's processor, \d+\.\d ms of PostgreSQL's",
        r"claims of 2, every 2 s +\d.* aim 50 at p95",
        r"heartbeats of 2 +\d.* aim 250 at p99",
        r"the longest wait for a lock that was seen: \d+\.\d+ s  aim 1",
        r"heartbeats of 2 processes +\d",
        r"connections: at most \d+ of \d+ at once",
        r"tried again half a second later: \d+ of \d",
    ):
        assert re.search(line, printed), printed
