"""What a job measured for a night of a series."""

from __future__ import annotations

import duckdb
import pytest

from host.settings import Settings
from lab.study import Arm
from tests.warehouse.runs import BASELINE_ARM, DRAFT_ARM, write_run
from warehouse.ingest.service import ingest_all
from warehouse.queries.connect import open_warehouse
from warehouse.queries.series import figures


def test_an_arm_without_output_has_no_mean_and_takes_none_from_others(settings: Settings) -> None:
    for arm in (BASELINE_ARM, DRAFT_ARM, Arm(name="silent")):
        write_run(settings.bundles, run_id=arm.name, arm=arm, is_baseline=arm == BASELINE_ARM)
    ingest_all(settings)
    with duckdb.connect(settings.warehouse_file) as warehouse:
        warehouse.execute("UPDATE run_validity SET is_valid = true")
        warehouse.execute("UPDATE run_metrics SET output_tok_per_s = if(run_id = 'silent', 0, 20)")
    with open_warehouse(settings.warehouse_file) as con:
        of_draft, of_silent = (figures(con, "job-1", arm, BASELINE_ARM.name) for arm in (DRAFT_ARM.name, "silent"))
    assert of_draft["arm_tok_per_s"] == of_draft["baseline_tok_per_s"] == pytest.approx(20)
    assert (of_silent["arm_tok_per_s"], of_silent["baseline_tok_per_s"]) == (None, pytest.approx(20))
