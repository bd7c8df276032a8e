"""The outcomes of a job's runs, read back from their bundles: a restarted worker sees the same as the first one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import overload

from lab.errors import BundleError
from lab.schedule import Outcome
from lab.study.plan import PlannedRun
from warehouse.bundles.run_bundle import read_bundle, read_log


class Outcomes(Sequence[Outcome]):
    """The outcomes in the order of the added runs. Each bundle is read once, when its outcome is first needed."""

    def __init__(self, find_bundle: Callable[[PlannedRun], Path | None]) -> None:
        self._find = find_bundle
        self._bundled: list[_Bundled] = []

    def add(self, runs: Iterable[PlannedRun], launch_index: int) -> None:
        """Add the runs of a step; all of them have a bundle by now."""
        self._bundled += [_Bundled(run, launch_index, self._find(run)) for run in runs]

    def __len__(self) -> int:
        return len(self._bundled)

    @overload
    def __getitem__(self, index: int) -> Outcome: ...
    @overload
    def __getitem__(self, index: slice) -> list[Outcome]: ...
    def __getitem__(self, index: int | slice) -> Outcome | list[Outcome]:
        if isinstance(index, slice):
            return [bundled.outcome for bundled in self._bundled[index]]
        return self._bundled[index].outcome


class _Bundled:
    def __init__(self, run: PlannedRun, launch_index: int, folder: Path | None) -> None:
        self.run, self._launch_index, self._folder = run, launch_index, folder

    @cached_property
    def outcome(self) -> Outcome:
        if self._folder is None:
            raise LookupError(f"{self.run.names} has no bundle")
        try:
            return read_outcome(self._folder, self.run)
        except BundleError as error:
            return Outcome(self.run, self._launch_index, is_valid=False, error=str(error))


def read_outcome(folder: Path, run: PlannedRun) -> Outcome:
    """Read the outcome of a run from its bundle; metrics and verdict are the ingester's. Raises BundleError."""
    # Imported late, with SciPy: 50 MB that a worker does not need while it waits, nor for a fixed number of repeats.
    from lab.metrics.measure import measure  # noqa: PLC0415
    from lab.metrics.rounds import rounds_of  # noqa: PLC0415
    from lab.schedule.interim import METRIC  # noqa: PLC0415
    from lab.validity import judge  # noqa: PLC0415
    from warehouse.schema.request_columns import prompt_latencies, request_rows, requests_of  # noqa: PLC0415

    bundle = read_bundle(folder)
    record = bundle.run
    metrics = measure(record, bundle.requests, bundle.telemetry)
    return Outcome(
        run=run,
        launch_index=record.launch_index,
        is_valid=judge(record, bundle.requests, bundle.telemetry, metrics, read_log(folder, record)).valid,
        error=record.error,
        metrics=metrics if record.status == "completed" else {},
        rounds=[each.data.value(METRIC) for each in rounds_of(record, bundle.requests, bundle.telemetry)],
        latencies=requests_of(*prompt_latencies(request_rows(bundle.requests))),
        engine_start_s=record.circumstances.start_s,
        took_s=None if record.warmup_s is None or record.duration_s is None else record.warmup_s + record.duration_s,
    )
