"""`python -m benchmarks [PART...]`: measure and print tables of ratios and aims. Slow results never fail. If a part
cannot be measured, the reason is printed, the others continue, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from benchmarks import (
    beside,
    claims,
    client,
    presets,
    progress,
    rate,
    sizes,
    slots,
    sweep,
    truth,
    windows,
)
from benchmarks.deciding import capacity, designs, nights, power, repeats, series, tuner, until_decided
from benchmarks.reading import hostile, pages, questions
from benchmarks.reading.filling import Size
from benchmarks.storing import bundles, idle, imports, ingest, publish
from host.settings import Settings, load_settings
from lab.errors import DrafthouseError

logger = logging.getLogger(__name__)
#: Measures and prints, given the settings and the repeats; raises DrafthouseError for errors that the user can fix.
Part = Callable[[Settings, int], None]


def _client(settings: Settings, repeats: int) -> None:
    """Measure on a real engine, then on a server that notes what it wrote."""
    client.run(settings, repeats)
    truth.run(settings, repeats)


_PARTS: dict[str, Part] = {
    "client": _client,
    "rate": rate.run,
    "windows": windows.run,
    "progress": progress.run,
    "beside": beside.run,
    "sweep": sweep.run,
    "slots": slots.run,
    "presets": presets.run,
    "questions": questions.run,
    "pages": pages.run,
    "hostile": hostile.run,
    "bundles": bundles.run,
    "ingest": ingest.run,
    "import": imports.run,
    "publish": publish.run,
    "idle": idle.run,
    "claims": claims.run,
    "sizes": sizes.run,
    "power": power.run,
    "deciding": designs.run,
    "repeats": repeats.run,
    "tuner": tuner.run,
    "until_decided": until_decided.run,
    "capacity": capacity.run,
    "series": series.run,
    "nights": nights.run,
}


def main() -> int:
    """Return exit status 1 if a part could not be measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*_PARTS, []], help=f"of {', '.join(_PARTS)}; all without any")
    parser.add_argument(
        "--repeats", type=int, default=3, help="how often A B B A in parts client, rate, windows, progress and beside"
    )
    parser.add_argument("--jobs", type=int, default=Size.jobs, help="jobs of 100 runs in questions, pages, beside")
    parser.add_argument("--requests", type=int, default=Size.requests_per_run, help="requests a run in the same")
    parser.add_argument(
        "--short-rows", action="store_true", help="requests of a hundred bytes in the same, not of 880: minutes less"
    )
    parser.add_argument(
        "--gigabytes", type=float, nargs="+", default=publish.GIGABYTES, help="sizes of the warehouse in part publish"
    )
    parser.add_argument(
        "--tables", type=int, default=power.TABLES, help="simulated tables of each study in parts power and deciding"
    )
    parser.add_argument("--worlds", type=int, default=tuner.WORLDS, help="simulated worlds in part tuner")
    parser.add_argument("--picture", type=Path, help="a .png or .svg file for the picture of part power")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(143))  # so that folders and engines are cleaned up
    size = Size(options.jobs, options.requests, realistic=not options.short_rows)
    sized: dict[str, Part] = {
        "questions": partial(questions.run, size=size),
        "pages": partial(pages.run, size=size),
        "beside": partial(beside.run, size=size),
        "publish": partial(publish.run, gigabytes=options.gigabytes),
        "power": partial(power.run, tables=options.tables, picture=options.picture),
        "deciding": partial(designs.run, tables=options.tables),
        "tuner": partial(tuner.run, worlds=options.worlds),
    }
    parts = {name: (_PARTS | sized)[name] for name in options.parts or _PARTS}
    return measure_all(parts, options.repeats)


def measure_all(parts: Mapping[str, Part], repeats: int) -> int:
    """Measure one part after the other. Return the exit status: 1 if any could not be measured."""
    failed = []
    for name, run in parts.items():
        began_s = time.monotonic()
        try:
            run(load_settings(), repeats)
        except DrafthouseError as error:
            failed.append(name)
            print(f"part {name}: {error}", file=sys.stderr)
        except Exception:
            failed.append(name)
            logger.exception("part %s", name)  # a bug in one part must not lose the hours of the others
        print(f"part {name} took {(time.monotonic() - began_s) / 60:.1f} min", file=sys.stderr, flush=True)
    if failed:
        print(f"not measured: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
