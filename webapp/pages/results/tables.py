"""The Results page's cards and tables: the summary of a study, and the order of columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from lab.advice import claim
from lab.advice.answer_text import interval
from lab.comparison import breakeven
from lab.metrics.catalogue import BY_NAME
from lab.metrics.definition import Metric
from lab.metrics.number_format import bounds, is_too_wide, times
from warehouse.queries.comparing.comparisons import Pair, StudyComparison, break_evens
from webapp.shared.cards import Card
from webapp.shared.downloads import engine_versions
from webapp.shared.tables import Column, columns, of_metric
from webapp.shared.text import RunCounts, count
from webapp.shared.verdicts.tables import SIGNS

_WHERE = ["arm", "dataset", "category", "requested_output_tokens", "pattern", "concurrency"]
_CELLS = ["arm", "verdict", "ratio", "low", "high", "value", "repeats", *_WHERE[1:]]
_RUNS = [
    *("arm", "dataset", "category", "requested_output_tokens", "pattern", "repeat", "status", "is_valid"),
    *("output_tok_per_s", "request_per_s"),
    *("ttft_p50_ms", "ttft_p99_ms", "tpot_p50_ms", "e2e_p50_ms", "acceptance_rate", "acceptance_length"),
    *("requests_completed", "requests_failed", "duration_s", "kv_cache_usage_max", "host_cpu_mean_percent"),
    "other_cpu_percent",
    *("gpu_power_mean_w", "energy_j", "energy_j_per_output_token", "gpu_utilisation_mean_percent"),
    *("gpu_memory_used_max_bytes", "gpu_temperature_max_c", "gpu_throttled_share"),
    *("engine_version", "started_at", "run_id"),
]
#: Metrics of GPUs, left out where no run has any.
GPU = frozenset(column for column in _RUNS if column.startswith(("gpu_", "energy_")))
_NO_INTERVAL = "No cell has an interval yet: one repeat does not show how much runs vary."
_NO_NARROW = "No cell has an interval that is narrow enough to say."
_NO_PAIR = "Needs the baseline and another arm at the same load."
FINDINGS = ["severity", "arm", "category", "pattern", "repeat", "sentence", "advice", "check_name", "run_id"]
_FAILED = ["arm", "category", "pattern", "repeat", "error", "started_at", "run_id"]


def cells(values: pd.DataFrame, arms: Sequence[str]) -> pd.DataFrame:
    """Return the rows behind the charts, arms in the order of the legends."""
    ordered = values.sort_values("arm", key=lambda column: column.map(list(arms).index), kind="stable")
    words = ordered["verdict"].map(SIGNS).mask(ordered["is_baseline"], "baseline")
    return _columns(ordered.assign(verdict=words), _CELLS)


def runs(results: pd.DataFrame) -> pd.DataFrame:
    """Return one row per run, in readable units, without empty GPU columns."""
    table = _columns(results, _RUNS)
    scaled = [name for name in _RUNS if name in table and name in BY_NAME]
    table = table.assign(**{name: table[name] * BY_NAME[name].factor for name in scaled})
    empty = [name for name in table if name in GPU and table[name].isna().all()]
    return table.drop(columns=empty)


def failed(failed_runs: pd.DataFrame) -> pd.DataFrame:
    return _columns(failed_runs, _FAILED)


def _columns(frame: pd.DataFrame, wanted: list[str]) -> pd.DataFrame:
    """Return the wanted columns that exist; dataset and output length only if they differ between rows."""
    present = [column for column in wanted if column in frame]
    constant = {
        column
        for column in ("dataset", "requested_output_tokens")
        if column in present and len(frame[column].unique()) <= 1
    }
    return frame[[column for column in present if column not in constant]]


def cell_config(measure: Metric) -> dict[str, Any]:
    value = replace(of_metric(measure), label=measure.title, help="Mean of the repeats")
    return columns(*_WHERE, "verdict", "ratio", "low", "high", "repeats", value=value)


FINDING_COLUMNS = columns(
    *("arm", "category", "pattern", "repeat", "run_id"),
    pinned="severity",
    severity=Column("Severity", width="small"),
    sentence=Column("Finding", width="large"),
    advice=Column("What to do", width="large"),
    check_name=Column("Check"),
)
RUN_COLUMNS = columns(*_RUNS, "error", "concurrency")


def rules_sentence(comparison: StudyComparison) -> str:
    """Name the rule behind each of two intervals of an arm that has several cells; empty where each has one."""
    arms = {pair.candidate.arm for pair in comparison.pairs}
    if comparison.stored is not None and not comparison.is_whole:
        return " Means over a category are computed now, from the runs of today; its cells have the stored verdicts."
    if len(arms) == len(comparison.pairs) or best_pair(comparison) is None:
        return ""
    return (
        f" Intervals over all cells are corrected for {count(len(arms), 'arm')}, those of single cells for "
        f"{count(len(comparison.pairs), 'cell')}."
    )


def best_pair(comparison: StudyComparison) -> Pair | None:
    """Return the cell with the strongest evidence against the baseline; None while no cell has an interval."""
    gains = [(pair, pair.gain) for pair in comparison.pairs if not pair.comparison.control]
    sure = [(gain.low, pair) for pair, gain in gains if gain is not None and gain.low is not None]
    return max(sure, key=lambda bounded: bounded[0])[1] if sure else None


def _where(pair: Pair) -> str:
    return f"{pair.candidate.arm}, {pair.cell.workload}, concurrency {pair.cell.concurrency}"


def best_card(comparison: StudyComparison, noun: str) -> Card:
    cells = sum(not pair.comparison.control for pair in comparison.pairs)
    label = f"Surest {noun} of {count(cells, 'cell')}"
    best = best_pair(comparison)
    if best is None or best.ratio is None:
        return Card(label, "–", _NO_INTERVAL if cells else _NO_PAIR)
    ratio = best.ratio
    if ratio.low is not None and ratio.high is not None and is_too_wide(ratio.value, ratio.low, ratio.high):
        return Card(label, "unknown", _NO_NARROW)
    within = f" {bounds(ratio.value, ratio.low, ratio.high)}".rstrip()
    more = f"; {alone}" if (alone := best.alone_sentence) else ""
    return Card(
        label, times(ratio.value, ratio.low, ratio.high), f"{SIGNS[best.verdict.word]}{within}: {_where(best)}{more}"
    )


def claim_sentence(claimed: float, comparison: StudyComparison) -> str:
    """Return a sentence such as `2× was claimed; measured 1.48x [1.36, 1.60] (draft, code, concurrency 1): the claim is
    refuted.`

    Names the cell that supports the claim best, and counts the findings of all cells.
    """
    pairs = [pair for pair in comparison.pairs if not pair.comparison.control]
    found = [claim.judge(claimed, pair) for pair in pairs]
    if not pairs:
        return f"{claimed:g}× was claimed; no measurement can be compared with it."
    kindest = max(found, key=claim.ORDER.index)
    gains = [(0.0 if pair.gain is None else pair.gain.value, pair) for pair in pairs]
    of_kindest = [gain for gain, finding in zip(gains, found, strict=True) if finding == kindest]
    best = max(of_kindest, key=lambda gain: gain[0])[1]
    counts = ", ".join(f"{found.count(word)} {word}" for word in claim.ORDER if word in found)
    among = f" Of {count(len(pairs), 'cell')}: {counts}." if len(pairs) > 1 else ""
    return f"{claimed:g}× was claimed; measured {interval(best.ratio)} ({_where(best)}): the claim is {kindest}.{among}"


def break_even_card(comparison: StudyComparison) -> Card:
    """Return the break-even card: where the best pair's arm stops paying on its workload."""
    label = "Break-even"
    best = best_pair(comparison)
    if best is None:
        return Card(label, "–", _NO_INTERVAL if comparison.pairs else _NO_PAIR)
    where = f"{best.candidate.arm}, {best.cell.workload}"
    even = break_evens(comparison).get((best.candidate.arm, best.cell.workload))
    if even is None:
        return Card(label, "–", f"{where}: several loads have the same concurrency")
    words = breakeven.sentence(even)
    if words.startswith("inconclusive"):
        return Card(label, "inconclusive", f"{where}: {words.removeprefix('inconclusive: ')}")
    return Card(label, words.partition(" (")[0], where)


def runs_card(results: pd.DataFrame, planned: int | None) -> Card:
    """Return the card of measured runs, one per cell and repeat. `planned`: the study's number of runs, if known."""
    runs = results[results["is_counted"]]
    completed = runs["status"] == "completed"
    invalid = completed & runs["is_valid"].eq(other=False)
    counts = RunCounts(int(completed.sum()), int(invalid.sum()), int((~completed).sum()))
    of = f" of {planned}" if planned is not None and planned != counts.completed else ""
    known = runs.loc[completed, "requests_completed"]
    requests = "an unknown number of requests" if known.isna().any() else count(int(known.sum()), "request")
    return Card("Runs measured", f"{counts.completed}{of}", f"{counts.lost}, {requests} answered")


def hardware_card(results: pd.DataFrame) -> Card:
    """Return the card of hardware, engines and targets of all runs."""
    engines = engine_versions(results)
    served = f"{_all_of(engines) or 'engine unknown'}; target {_all_of(results['target']) or 'unknown'}"
    return Card("Hardware", _all_of(results["hardware"]) or "unknown", served)


def _all_of(column: pd.Series) -> str:
    return ", ".join(sorted(set(column.dropna().astype(str))))


def repeats_sentence(cells: pd.DataFrame) -> str:
    """Describe the basis of the page's intervals."""
    repeats = sorted(set(cells["repeats"].dropna().astype(int)))
    if repeats == [1] and cells["low"].notna().any():
        return "One repeat per cell: the intervals are estimated from the scatter of other cells."
    if not repeats or repeats == [1]:
        return "One repeat per cell is too few to judge: there are no intervals."
    counted = f"{repeats[0]}" if len(repeats) == 1 else f"{repeats[0]} to {repeats[-1]}"
    return f"{counted} repeats per cell; ratios are geometric means of the repeats' ratios, with 95 % intervals."
