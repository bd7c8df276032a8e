"""Part presets: the reference version of every preset, measured for real on this machine.

There is no rival; the time is compared with the plan's estimate. Aim: every run completes, in 0.5 to 2 times the
estimate.
"""

from __future__ import annotations

import sys

from benchmarks.processes import measured_study, own_home
from benchmarks.table import Row, show
from host.settings import Settings
from jobs.presets import load_preset, preset_names
from lab.estimate import History, estimate
from lab.study.plan import plan
from warehouse.migrate import migrate


def run(settings: Settings, _repeats: int) -> None:
    """Measure and print. Raises UserError or EngineError if a preset could not be measured."""
    rows = [measured(settings, name) for name in preset_names()]
    show("Presets, scaled down to the reference pair: seconds", "as planned", rows)


def measured(settings: Settings, name: str) -> Row:
    """Measure one preset in a home of its own. Raises EngineError unless all its runs completed."""
    study = load_preset(name, reference=True)
    print(f"presets: {study.name}", file=sys.stderr, flush=True)
    with own_home(settings) as own:
        migrate(own)
        _, took_s = measured_study(own, study)
    planned_s = estimate(plan(study), History()).seconds
    return Row(name, [took_s], [planned_s], "0.5 .. 2")
