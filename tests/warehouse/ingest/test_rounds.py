"""The rounds of a run in the warehouse."""

from __future__ import annotations

from host.settings import Settings
from tests.lab.metrics.test_rounds import REQUESTS, TWO, WINDOWS
from tests.warehouse.asking import ask
from tests.warehouse.runs import write_run
from warehouse.ingest.service import ingest_all


def test_a_run_in_rounds_has_a_row_for_each_with_its_own_metrics(settings: Settings) -> None:
    write_run(settings.bundles, REQUESTS, load=TWO, windows=WINDOWS)
    write_run(settings.bundles, run_id="whole", cell_key="another")
    ingest_all(settings)
    rows = ask(
        settings, "select round, start_s, end_s, output_tok_per_s, steady_output_tok_per_s from rounds order by all"
    )
    assert rows == [(0, 0.0, 2.0, 4.0, 4.0), (1, 2.0, 5.0, 10 / 3, 4.0)]
    whole = "select duration_s, output_tok_per_s, steady_output_tok_per_s from results where run_id <> 'whole'"
    assert ask(settings, f"{whole} and origin = 'measured'") == [(5.0, 18 / 5, 4.0)]
    by_round = "select round, count(*) from request_records group by all order by all"
    assert ask(settings, by_round) == [(0, 2), (1, 2), (None, 1)]
