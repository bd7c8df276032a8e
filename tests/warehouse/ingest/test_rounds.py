"""The rounds of a run in the warehouse."""

from __future__ import annotations

from host.settings import Settings
from tests.lab.metrics.test_measure import answered
from tests.lab.metrics.test_rounds import REQUESTS, TWO, WINDOWS, window
from tests.warehouse.asking import ask
from tests.warehouse.runs import write_run
from warehouse.ingest.service import ingest_all


def test_a_run_in_rounds_has_a_row_for_each_with_its_own_metrics(settings: Settings) -> None:
    write_run(settings.bundles, REQUESTS, load=TWO, windows=WINDOWS)
    write_run(settings.bundles, run_id="whole", cell_key="another")
    ingest_all(settings)
    rows = ask(settings, "select round, start_s, end_s, output_tok_per_s, request_per_s from rounds order by all")
    assert rows == [(0, 0.0, 4.0, 4.0, 1.0), (1, 4.0, 9.0, 4.0, 4 / 5)]
    run = "select duration_s, output_tok_per_s, request_per_s from results where run_id <> 'whole'"
    assert ask(settings, f"{run} and origin = 'measured'") == [(9.0, 4.0, 8 / 9)]
    by_round = "select round, count(*) from request_records group by all order by all"
    assert ask(settings, by_round) == [(0, 4), (1, 4), (None, 1)]


def test_a_round_that_lies_apart_from_that_of_another_repeat_is_found(settings: Settings) -> None:
    paused = (*REQUESTS[:4], *(answered(at_s, at_s + 40.0, round=1) for at_s in (4.0, 4.0, 44.0, 44.0)))
    same = {"load": TWO, "job_id": "job"}
    write_run(settings.bundles, REQUESTS, run_id="first", windows=WINDOWS, **same)
    windows = (WINDOWS[0], window(4.0, 84.0))
    write_run(settings.bundles, paused, run_id="second", cell_key="second", repeat=1, windows=windows, **same)
    ingest_all(settings)
    found = ask(settings, "select sentence from study_findings where check_name = 'rounds_differ'")
    assert len(found) == 1
    assert found[0][0].startswith("Rounds of 'draft' that sent the same prompts lie up to 20 times apart in ")
