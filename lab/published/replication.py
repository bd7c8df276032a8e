"""Published figures beside those of a study that repeats them: each figure in its own unit and scale.

A relative figure is set beside a ratio, never made absolute. Other differences (hardware, versions, models,
prompts) are listed, so that a slower machine is not taken for a contradiction.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from lab.comparison.compare import CellRuns, compare_cells
from lab.comparison.samples import RunSample
from lab.comparison.tables import gmean
from lab.cost import per_million_tokens
from lab.published.figures import PublishedFigure

#: Our metric for each printed one, and the factor. A duration is not comparable: its number of tokens is not stated.
_METRICS: dict[str, tuple[str, float]] = {
    "output_throughput": ("output_tok_per_s", 1.0),
    "peak_output_throughput": ("output_tok_per_s", 1.0),
    "total_token_throughput": ("total_tok_per_s", 1.0),
    "mean_ttft": ("ttft_mean_ms", 1.0),
    "mean_tpot": ("tpot_mean_ms", 1.0),
    "p95_ttft": ("ttft_p95_ms", 1.0),
    "p95_itl": ("itl_p95_ms", 1.0),
    "median_latency": ("e2e_p50_ms", 1.0),
    "acceptance_rate": ("acceptance_rate", 100.0),
    "acceptance_length": ("acceptance_length", 1.0),
}
_COST = "cost_per_million_output_tokens"
_POSITION = re.compile(r"acceptance_rate_pos(\d+)")
_LENGTHS = re.compile(r"random (\d+)/(\d+)")
#: The sources' names of datasets in Drafthouse's own.
_DATASETS = {"summarization": "summarisation", "mlperf": "mlperf_summarisation"}
_UNNAMED = "unnamed"
_SHARE_OF_BASELINE, _CHANGE = "percent of baseline", "percent change"


@dataclass(frozen=True)
class OurRun:
    """A completed run of the replication. `metrics` by column; None is unknown."""

    run_id: str
    arm: str
    is_baseline: bool
    method: str
    draft_model: str | None
    num_speculative_tokens: int | None
    workload: str
    dataset: str
    input_tokens: int | None
    output_tokens: int | None
    pattern: str
    concurrency: int
    repeat: int
    hardware: str
    engine: str
    engine_version: str | None
    target: str
    metrics: Mapping[str, float | tuple[float, ...] | None]

    @property
    def names(self) -> tuple[str, str]:
        return (self.workload, self.pattern)


@dataclass(frozen=True)
class PairedFigure:
    """A published figure, and ours in its unit and scale; None if no run here replicates it."""

    figure: PublishedFigure
    ours: float | None
    arms: tuple[str, ...] = ()
    run_ids: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()

    @property
    def ratio(self) -> float | None:
        """Return ours / theirs, both as ratios to the baseline where the figure is relative."""
        if self.ours is None:
            return None
        theirs = self.figure.ratio_to_baseline or self.figure.value
        ours = 1 + self.ours / 100 if self.figure.scale == _CHANGE else self.ours
        ours = self.ours / 100 if self.figure.scale == _SHARE_OF_BASELINE else ours
        return ours / theirs if theirs else None


def side_by_side(figures: Iterable[PublishedFigure], runs: Sequence[OurRun]) -> list[PairedFigure]:
    """Set each published figure beside ours, in the given order."""
    return [_paired(figure, runs) for figure in figures]


def _paired(figure: PublishedFigure, runs: Sequence[OurRun]) -> PairedFigure:
    here = _of_arm(figure, [run for run in runs if _same_prompts(figure, run) and _same_load(figure, run)])
    if not here:
        return PairedFigure(figure, None)
    baselines = [run for run in runs if run.is_baseline]
    ours = _value(figure, here) if figure.scale == "absolute" else _relative(figure, here, baselines)
    return PairedFigure(
        figure,
        ours,
        arms=tuple(dict.fromkeys(run.arm for run in here)),
        run_ids=tuple(run.run_id for run in here),
        differences=tuple(_differences(figure, here)),
    )


def _of_arm(figure: PublishedFigure, runs: Sequence[OurRun]) -> list[OurRun]:
    """Return the runs whose arm matches that of the figure.

    A run with another engine or draft is kept if there is no better match: that is a difference, not a mismatch. If
    the source does not say how many tokens are drafted and our runs vary in it, none matches.
    """
    tokens = figure.num_speculative_tokens
    same_method = [run for run in runs if run.method == figure.method]
    same_method = [run for run in same_method if tokens is None or run.num_speculative_tokens == tokens]
    for name, wanted in (("engine", figure.engine), ("draft_model", figure.draft_model)):
        same = [run for run in same_method if getattr(run, name) == wanted]
        same_method = same or same_method
    plain = [run for run in same_method if run.is_baseline]
    if figure.method == "none":
        return plain or same_method
    return same_method if tokens is not None or len({run.num_speculative_tokens for run in same_method}) <= 1 else []


def _same_prompts(figure: PublishedFigure, run: OurRun) -> bool:
    if figure.dataset == _UNNAMED:
        return True
    ours = PurePath(run.dataset).stem.removesuffix("_sample")
    theirs = _DATASETS.get(figure.dataset, figure.dataset.replace("-", "_"))
    return ours == ("random" if _LENGTHS.fullmatch(figure.dataset) else theirs)


def _same_load(figure: PublishedFigure, run: OurRun) -> bool:
    """Return whether the pattern has the same name or concurrency. Figures over a sweep match every load."""
    if run.pattern == figure.access_pattern or figure.max_concurrency is None:
        return True
    return run.concurrency == figure.max_concurrency


def _value(figure: PublishedFigure, runs: Sequence[OurRun]) -> float | None:
    """Return the mean over repeats; for a sweep, at the concurrency of the highest throughput."""
    if figure.max_concurrency is None:
        cells = dict.fromkeys(run.names for run in runs)
        speeds = {cell: _mean([run for run in runs if run.names == cell], "output_tok_per_s") for cell in cells}
        best = max(cells, key=lambda cell: speeds[cell] or 0.0)
        runs = [run for run in runs if run.names == best]
    if figure.metric == _COST:
        return per_million_tokens(figure.price_usd_per_hour, _mean(runs, "output_tok_per_s"))
    if position := _POSITION.fullmatch(figure.metric):
        at, by_position = int(position[1]), [run.metrics.get("acceptance_per_position") for run in runs]
        values = [rates[at] for rates in by_position if isinstance(rates, tuple) and len(rates) > at]
        return math.fsum(values) / len(values) * 100 if values else None
    name, factor = _METRICS.get(figure.metric, ("", 1.0))
    value = _mean(runs, name)
    return None if value is None else value * factor


def _relative(figure: PublishedFigure, runs: Sequence[OurRun], baselines: Sequence[OurRun]) -> float | None:
    """Return the ratio to the baseline, computed like a comparison; over several cells their geometric mean."""
    name, _ = _METRICS.get(figure.metric, ("", 1.0))
    cells = [
        CellRuns(
            [_sample(run, name) for run in baselines if run.names == key],
            [_sample(run, name) for run in runs if (run.arm, run.names) == (arm, key)],
        )
        for arm, key in dict.fromkeys((run.arm, run.names) for run in runs)
    ]
    ratio = gmean([comparison for comparison in compare_cells(cells, "higher") if comparison.ratio is not None])
    if ratio is None:
        return None
    return ratio * 100 if figure.scale == _SHARE_OF_BASELINE else (ratio - 1) * 100


def _sample(run: OurRun, metric: str) -> RunSample:
    value = run.metrics.get(metric)
    return RunSample(run.run_id, run.arm, run.repeat, value if isinstance(value, (int, float)) else None)


def _mean(runs: Sequence[OurRun], metric: str) -> float | None:
    values = [value for run in runs if isinstance(value := run.metrics.get(metric), (int, float))]
    return math.fsum(values) / len(values) if values else None


def _differences(figure: PublishedFigure, runs: Sequence[OurRun]) -> Iterable[str]:
    """List the differences, published value first. A hub name matches with or without its owner."""
    pairs: dict[str, tuple[object, set[object]]] = {
        "hardware": (figure.hardware, {run.hardware for run in runs}),
        "engine": (figure.engine, {run.engine for run in runs}),
        "engine version": (figure.engine_version or "not stated", {run.engine_version or "unknown" for run in runs}),
        "target": (figure.target, {run.target for run in runs}),
        "draft model": (figure.draft_model, {run.draft_model for run in runs}),
        "prompts": (_lengths(figure), {f"random {run.input_tokens}/{run.output_tokens}" for run in runs}),
        "concurrency": (figure.max_concurrency, {run.concurrency for run in runs}),
        "drafted tokens": (
            "not stated" if figure.num_speculative_tokens is None and figure.method != "none" else None,
            {run.num_speculative_tokens for run in runs},
        ),
    }
    for name, (theirs, ours) in pairs.items():
        if theirs is not None and not all(
            own_value == theirs or str(own_value).endswith(f"/{theirs}") for own_value in ours
        ):
            yield f"{name}: {theirs} there, {', '.join(sorted(map(str, ours)))} here"


def _lengths(figure: PublishedFigure) -> str | None:
    return figure.dataset if _LENGTHS.fullmatch(figure.dataset) else None
