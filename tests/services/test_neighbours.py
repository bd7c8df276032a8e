"""What neighbours cost: the ratio of rounds, and the command on a real host in two slots."""

from __future__ import annotations

import json
import math
import os
from datetime import UTC, datetime

import pytest

from cli.here import Here
from host import quiet
from jobs.fleet.worker_registry import WorkerInfo, list_workers
from lab.errors import UserError
from lab.study import Study
from services.neighbours import conditions, ratio_of, slots_up
from tests.cli.homes import Home as CommandLine
from tests.lab.studies import study
from tests.workers.homes import Home, until
from tests.workers.slots.test_two_slots import FIRST_RUN, SLOW, workers_of_two_slots


def test_the_ratio_and_its_interval_are_of_rounds() -> None:
    same = ratio_of("output_tok_per_s", [([math.log(100.0)], [math.log(90.0), math.log(90.0)])] * 3)
    assert [same.ratio, same.low, same.high] == pytest.approx([0.9] * 3)
    scattered = ratio_of("output_tok_per_s", [([0.0], [-0.1]), ([0.0], [-0.3]), ([0.0], [])])
    reach = 12.706 * 0.1  # of Student's t with one degree of freedom
    assert scattered.ratio == pytest.approx(math.exp(-0.2))
    assert [scattered.low, scattered.high] == pytest.approx([math.exp(-0.2 - reach), math.exp(-0.2 + reach)], rel=1e-3)
    with pytest.raises(UserError, match="1 of 2 rounds have a run during which all other slots worked"):
        ratio_of("output_tok_per_s", [([0.0], [-0.1]), ([0.0], [])])


def test_the_two_conditions_differ_in_nothing_but_their_neighbours() -> None:
    alone, beside = conditions(study(repeats=5), 4)
    assert [arm.name for arm in beside.arms] == [study().baseline.name]
    assert (len(beside.workloads), len(beside.loads)) == (1, 1)
    assert (alone.alone, alone.spread, alone.repeats) == (True, False, 1)
    assert (beside.alone, beside.spread, beside.repeats) == (False, True, 8)
    differ = {"name", "alone", "spread", "repeats"}
    assert alone.model_dump(exclude=differ) == beside.model_dump(exclude=differ)


def test_a_host_in_one_slot_has_no_neighbours() -> None:
    now = datetime.now(UTC)
    whole = WorkerInfo("w", os.uname().nodename, "NVIDIA H200", 8, None, now, now, None)
    with pytest.raises(UserError, match="set slots to 2 or more"):
        slots_up([whole])


@pytest.mark.engine
@pytest.mark.usefixtures("workers_stay")
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one processor has one slot")
def test_the_command_measures_in_turns_and_stores_what_neighbours_cost(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first windows on all slots wait for each other, however late a busy machine lets one of the workers begin."""
    file, may_measure, submit = home.folder / "study.json", home.folder / "may measure", Here.submit
    flags = SLOW | {"await_file": str(may_measure), "await_at_request": FIRST_RUN}
    file.write_text(home.study(engine_flags=flags).model_dump_json())

    def submitted(here: Here, study: Study) -> str:
        may_measure.unlink(missing_ok=True)
        job_id = submit(here, study)
        windows = 1 if study.alone else 2
        until(lambda: len(quiet.under_way(home.settings.home, "window")) == windows, "all slots of the job measure")
        may_measure.touch()
        return job_id

    monkeypatch.setattr(Here, "submit", submitted)
    monkeypatch.setenv("DRAFTHOUSE_ENGINES_FILE", str(home.settings.engines_file))
    with workers_of_two_slots(home):
        until(lambda: len(list_workers(home.database)) == 2, "both workers are there")
        answer = CommandLine(home.settings.home, 1).ask("neighbours", str(file), "--rounds", "2", "--json")
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout)
    assert (found["slots"], len(found["rounds"]), found["runs_beside"] >= 2) == (2, 2, True)
    assert [each["metric"] for each in found["ratios"]] == ["output_tok_per_s", "tpot_p50_ms"]
    assert all(each["low"] <= each["ratio"] <= each["high"] for each in found["ratios"])
    assert json.loads((home.settings.home / "neighbours.json").read_text()) == found
    runs = {run.job_id: [work for work in run.beside or () if work.kind == "job"] for run in home.runs()}
    assert [runs[each["alone"]] for each in found["rounds"]] == [[], []]
