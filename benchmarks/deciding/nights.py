"""Part nights: a series of ten nights measured for real on the reference pair, with one noisy night and one fall.

The ninth night has a neighbour, a program that takes every processor in turns. Before the tenth, noise is added to the
weights of the draft model, as a bad upload would. Nobody waits for the nights: the clock of the schedule is wound
forward to the next one. Aim: exactly one alarm, of the tenth night.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import sqlalchemy as sa

from access.local import local_actor
from benchmarks.processes import own_home
from host.settings import Settings
from jobs.engines.models import check_model
from jobs.series import nightly, store
from jobs.series.store import Alarm, Night, Plan
from lab.metrics.number_format import number, ratio
from lab.study import Study
from lab.study.parsing import study_from_dict
from warehouse.app_db.engine import open_engine
from warehouse.ingest.service import ingest_all
from warehouse.migrate import migrate
from workers.worker import Worker

NIGHTS, NOISY, FALLEN = 10, 9, 10
_NAME = "nights"
#: Of the standard deviation of the draft's weights, added as noise.
_SPOILT_BY = 0.2
_NEIGHBOUR = """
import time
while True:
    until = time.monotonic() + 3
    while time.monotonic() < until: pass
    time.sleep(2)
"""


def run(settings: Settings, _repeats: int) -> None:
    """Measure and print a table in Markdown. Raises UserError without the engine or the models."""
    check_model(settings.models_dir, "reference")
    with own_home(settings) as own:
        migrate(own)
        draft = own.home / "draft"
        shutil.copytree((own.models_dir / "draft").resolve(), draft)
        with open_engine(own.app_database_url) as database:
            store.add(own, database, _NAME, _study(draft), Plan("10 minutes"), actor=local_actor())
            for number_ in range(1, NIGHTS + 1):
                if number_ == FALLEN:
                    _spoil(draft / "model.safetensors")
                with _neighbours() if number_ == NOISY else nullcontext():
                    _one_night(own, database)
            _show(store.nights(database, _NAME), store.alarms(database))


def _study(draft: Path) -> Study:
    speculation = {"method": "draft_model", "model": str(draft), "num_speculative_tokens": 3}
    arms = [{"name": "no draft", "engine": "transformers"}]
    return study_from_dict(
        {
            "name": _NAME,
            "target": "reference",
            "order": "side_by_side",
            "repeats": 2,
            "repeats_per_launch": 2,
            "arms": [*arms, {"name": "draft model", "engine": "transformers", "speculation": speculation}],
            "workloads": [{"dataset": "reference", "category": "code", "output_tokens": 24}],
            "loads": [{"max_concurrency": 1, "num_prompts": 4}],
        }
    )


def _one_night(own: Settings, database: sa.Engine) -> None:
    """Wind the clock to when the series is due, and measure until nothing is queued."""
    series, began_s = store.named(database, _NAME), time.monotonic()
    nights = store.nights(database, _NAME)
    due = series.timetable.next(max([datetime.now(UTC), *(night.due_at for night in nights)]))
    while True:
        nightly.tend(own, database, due)
        if all(night.state != "queued" for night in store.nights(database, _NAME)):
            break
        Worker(own).work()
        ingest_all(own)
    ended = store.nights(database, _NAME)[len(nights) :]
    words = [
        f"{night.night_id}: {night.state} {night.note or ''} {night.speedup} {night.acceptance_length} "
        f"{night.speedup_finding} {night.acceptance_finding}"
        for night in ended
    ]
    print("\n".join(words), f"{time.monotonic() - began_s:.0f} s", file=sys.stderr, flush=True)


def _spoil(weights: Path) -> None:
    """Add noise to every weight of a file in the format of safetensors, whose tensors are all of fp16."""
    content = weights.read_bytes()
    begin = 8 + int.from_bytes(content[:8], "little")
    kinds = {tensor["dtype"] for name, tensor in json.loads(content[8:begin]).items() if name != "__metadata__"}
    assert kinds == {"F16"}, kinds  # noqa: S101 - the reference draft's
    values = np.frombuffer(content[begin:], np.float16).astype(np.float32)
    noise = np.random.default_rng(1).normal(0, _SPOILT_BY * float(values.std()), len(values))
    weights.write_bytes(content[:begin] + (values + noise).astype(np.float16).tobytes())


@contextlib.contextmanager
def _neighbours() -> Iterator[None]:
    """Run a program that takes a processor for 3 of 5 seconds, one for each of two processors, while the block runs."""
    busy = [subprocess.Popen((sys.executable, "-c", _NEIGHBOUR)) for _ in range(2)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def _show(nights: list[Night], alarms: list[Alarm]) -> None:
    planted = {NOISY: "a neighbour", FALLEN: "a worse draft"}
    print("| night | planted | speed-up | acceptance length | measured again | finding | alarms |\n|" + "---|" * 7)
    originals = [night for night in nights if night.again_of is None]
    for place, night in enumerate(originals, 1):
        again = sum(each.again_of == night.night_id for each in nights)
        raised = sum(alarm.night_id == night.night_id for alarm in alarms if alarm.kind != "rise")
        values = (
            ratio(night.speedup, night.low, night.high) if night.speedup else f"{night.state}: {night.note}",
            number(night.acceptance_length) if night.acceptance_length else "",
        )
        findings = f"{night.speedup_finding}, {night.acceptance_finding}"
        print(f"| {place} | {planted.get(place, '')} | {' | '.join(values)} | {again} | {findings} | {raised} |")
    for alarm in alarms:
        print(f"\nalarm {alarm.alarm_id} ({alarm.kind}): {alarm.sentence}")
