"""What was measured under a lease that had been lost is kept, and never counted."""

from __future__ import annotations

import pytest

from jobs.fleet import leases
from tests.warehouse.runs import run_record
from tests.workers.homes import Home, until
from warehouse.app_db.schema import jobs as jobs_table
from warehouse.bundles.run_bundle import find_bundles, read_run
from workers.heartbeat import Heartbeat
from workers.run_recorder import BundleWriter, lost_bundles


def test_a_run_of_a_lost_lease_lies_beside_the_bundles_as_evidence(home: Home) -> None:
    home.submit()
    mine = leases.claim(home.database, "me/1", 600.0)
    assert mine is not None
    assert mine.lease == 1
    written: list[str] = []

    def lose() -> list[str]:
        """As if its beats had not come through; the next one may be faster."""
        with home.database.begin() as connection:
            connection.execute(jobs_table.update().values(lease_expires_at=0.0))
        return leases.requeue_expired(home.database)

    with (
        Heartbeat(home.database, mine, "me/1", 600.0) as beats,
        BundleWriter(home.settings, holds_lease=beats.holds_lease) as bundles,
    ):
        own = run_record(job_id=mine.job_id, run_id="own", lease=mine.lease)
        bundles.write(own, [], [], None, lambda: written.append("own"))
        bundles.wait()
        until(lose, "the lease is lost")
        other = leases.claim(home.database, "other/1", 600.0)
        assert other is not None
        assert other.lease == 2
        until(lambda: not beats.holds_lease(), "the beat says so")
        late = run_record(job_id=mine.job_id, run_id="late", lease=mine.lease)
        bundles.write(late, [], [], None, lambda: written.append("late"))
        bundles.wait()
    assert written == ["own"]
    assert [read_run(folder).run_id for folder in find_bundles(home.settings.bundles)] == ["own"]
    (kept,) = find_bundles(lost_bundles(home.settings.bundles, 1))
    assert (read_run(kept).run_id, read_run(kept).lease) == ("late", 1)


def test_a_worker_whose_beats_do_not_come_through_holds_no_lease(home: Home) -> None:
    home.submit()
    job = leases.claim(home.database, "me/1", 600.0)
    assert job is not None
    beats = Heartbeat(home.database, job, "me/1", -1.0)
    beats._held_until_s = 0.0
    assert not beats.holds_lease()
    beats.stop(leases.LeaseLost("elsewhere"))
    with pytest.raises(leases.LeaseLost):
        beats.check()
