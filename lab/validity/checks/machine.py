"""Checks that no GPU and no processor was held back or shared, that idle engines were idle, that nothing else ran."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from lab.metrics.records import TelemetrySample
from lab.metrics.telemetry import known, time_mean
from lab.validity.check import Answer, Check, Fired, Missing
from lab.validity.evidence import Evidence
from lab.validity.words import listed, percent

#: Throttle reasons that mean trouble; a board at its power limit is normal under full load.
TROUBLE = frozenset({"hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown"})
POWER_LIMITS = frozenset({"sw_power_cap", "board_limit", "reliability"})
THROTTLED_WARNING, THROTTLED_INVALID, POWER_CAPPED = 0.01, 0.2, 0.5
#: How much the clock may fall from the first to the last third of the window while the GPU is at work.
CLOCK_FELL, CLOCK_SAMPLES, AT_WORK_PERCENT = 0.05, 4, 50.0
#: Seconds in which this run was idle but the GPU was not.
BUSY_IDLE_SAMPLES = 2
#: How much of a processor or a GPU the engine of another arm may use while it has no requests.
IDLE_WARNING_PERCENT, IDLE_INVALID_PERCENT = 5.0, 20.0
#: Share of the window in which Drafthouse's other processes worked on the machine. They yield to the measured ones.
BESIDE_WARNING = 0.05
#: Seconds in which another process was on the GPU.
SHARED_SAMPLES = 2
#: What other programs may take of the processors, or of an engine on a GPU, and how long programs may wait for memory.
OTHERS_PERCENT, OTHERS_WITH_GPU_PERCENT, PRESSURE_PERCENT = 10.0, 50.0, 5.0
#: In how many periods a quota may hold the processors back.
HELD_BACK_PERCENT = 5.0
#: How much the processors' clock may fall, which follows the load more freely than a GPU's.
CPU_CLOCK_FELL = 0.15


def _gpu_expected(evidence: Evidence) -> bool:
    """Return whether there may be a GPU: the machine of a server that Drafthouse did not start is unknown."""
    seen_one = any(sample.gpu_utilisation_percent is not None for sample in evidence.samples)
    return seen_one or bool(evidence.run.circumstances.gpus) or not evidence.run.circumstances.command


def _throttled(evidence: Evidence) -> Answer:
    if not _gpu_expected(evidence):
        return None
    reasons_of_samples = [_reasons(sample) for sample in evidence.samples if sample.gpu_throttle_reasons is not None]
    if not reasons_of_samples:
        return Missing("the throttle reasons of the GPUs")
    hot = [reasons & TROUBLE for reasons in reasons_of_samples if reasons & TROUBLE]
    if len(hot) > THROTTLED_WARNING * len(reasons_of_samples):
        share, names = len(hot) / len(reasons_of_samples), sorted(frozenset().union(*hot))
        return Fired(
            f"The GPU was slowed down in {percent(share)} of the seconds: {listed(names)}.",
            "invalid" if share > THROTTLED_INVALID else "warning",
        )
    capped = sum(bool(reasons & POWER_LIMITS) for reasons in reasons_of_samples) / len(reasons_of_samples)
    if capped > POWER_CAPPED:
        return Fired(f"The GPU was at its power limit in {percent(capped)} of the seconds.", "note")
    return None


def _reasons(sample: TelemetrySample) -> frozenset[str]:
    return frozenset(filter(None, (sample.gpu_throttle_reasons or "").split(",")))


def _clock_fell(evidence: Evidence) -> Answer:
    if not _gpu_expected(evidence):
        return None
    clocks = [
        sample.gpu_sm_clock_mhz
        for sample in evidence.samples
        if sample.gpu_sm_clock_mhz is not None and (sample.gpu_utilisation_percent or 0.0) >= AT_WORK_PERCENT
    ]
    third = len(clocks) // 3
    if third < CLOCK_SAMPLES:
        return Missing(f"the clocks of {3 * CLOCK_SAMPLES} seconds at work")
    first, last = float(np.median(clocks[:third])), float(np.median(clocks[-third:]))
    if last >= (1 - CLOCK_FELL) * first:
        return None
    return Fired(f"The GPU's clock fell from {first:.0f} to {last:.0f} MHz within the window.")


def _shared_gpu(evidence: Evidence) -> Answer:
    if not _gpu_expected(evidence):
        return None
    idle = [
        later.gpu_utilisation_percent
        for earlier, later in pairwise(evidence.samples)
        if _nothing_to_do(earlier) and _nothing_to_do(later) and later.gpu_utilisation_percent is not None
    ]
    others = [sample.gpu_other_processes for sample in evidence.samples if sample.gpu_other_processes is not None]
    if not idle and not others:
        return Missing("the other processes on the GPU")
    busy = [percents for percents in idle if percents >= AT_WORK_PERCENT]
    if len(busy) >= BUSY_IDLE_SAMPLES:
        return Fired(
            f"The GPU was at work in {len(busy)} of {len(idle)} seconds in which this run had no request in flight: "
            "something else uses it."
        )
    return _other_processes(others)


def _other_processes(others: Sequence[int]) -> Answer:
    foreign = [count for count in others if count]
    if len(foreign) < SHARED_SAMPLES:
        return None
    most = max(foreign)
    return Fired(
        f"Up to {most} {'process' if most == 1 else 'processes'} other than the engine's had the GPU open, in "
        f"{len(foreign)} of {len(others)} seconds.",
        "warning",
    )


def _nothing_to_do(sample: TelemetrySample) -> bool:
    """Return whether this run had no request in flight: utilisation covers the second before the sample."""
    return sample.requests_in_flight == 0 and sample.chunks_received == 0 and not sample.engine_running


def _idle_engines(evidence: Evidence) -> Answer:
    engines = evidence.run.idle_engines
    gpu_expected = bool(engines) and _gpu_expected(evidence)
    unknown = [e.arm for e in engines if e.cpu_percent is None or (gpu_expected and e.gpu_percent is None)]
    shares = [
        (share, engine.arm, device)
        for engine in engines
        for share, device in ((engine.cpu_percent, "a processor"), (engine.gpu_percent, "a GPU"))
        if share is not None
    ]
    most, arm, device = max(shares, default=(0.0, "", ""))
    if most > IDLE_WARNING_PERCENT:
        return Fired(
            f"The engine of {arm!r}, which should have been idle, took {most:.3g} % of {device} during the window.",
            "invalid" if most > IDLE_INVALID_PERCENT else "warning",
        )
    return Missing(f"what the idle engines of {listed(unknown)} took") if unknown else None


def _beside(evidence: Evidence) -> Answer:
    if evidence.run.beside is None or not evidence.window_s:
        return Missing("what else of Drafthouse ran on the machine")
    jobs = [work for work in evidence.run.beside if work.kind == "job"]
    if jobs:
        around = evidence.run.circumstances
        has_no_gpu = bool(around.command) and not around.gpus  # then another engine takes its processors
        return Fired(
            f"Another worker of this machine was busy with {listed([work.what for work in jobs])} for "
            f"{max(work.seconds for work in jobs):.3g} of the {evidence.window_s:.3g} s of the window.",
            "invalid" if has_no_gpu else "warning",
        )
    if not evidence.run.beside:
        return None
    took_s = sum(work.seconds for work in evidence.run.beside)
    works = listed([f"{_WORK[work.kind].format(work.what)} ({work.seconds:.2g} s)" for work in evidence.run.beside])
    return Fired(
        f"Drafthouse itself worked on the machine in {percent(took_s / evidence.window_s)} of the window: {works}.",
        "warning" if took_s > BESIDE_WARNING * evidence.window_s else "note",
    )


def _other_programs(evidence: Evidence) -> Answer:
    others = evidence.number("other_cpu_percent")
    pressure = time_mean(known(evidence.samples, "memory_pressure_percent"))
    waited = "" if (pressure or 0.0) <= PRESSURE_PERCENT else f"programs waited for memory in {pressure:.3g} % of it"
    if others is None or others <= OTHERS_PERCENT:
        if waited:
            return Fired(f"Memory was short during the window: {waited}.", "warning")
        return Missing("what other programs took of the processors") if others is None else None
    most = max(share for _, share in known(evidence.samples, "other_cpu_percent"))
    queues = [threads for _, threads in known(evidence.samples, "run_queue")]
    wanted = f"; up to {max(queues)} threads wanted one of {evidence.run.circumstances.cpu_count}" if queues else ""
    harmless = bool(evidence.run.circumstances.gpus) and others <= OTHERS_WITH_GPU_PERCENT
    return Fired(
        f"Other programs took {others:.3g} % of this machine's processors during the window (up to {most:.3g} % in a "
        f"second{wanted}){f'; {waited}' if waited else ''}.",
        "note" if harmless and not waited else "warning",
    )


def _held_back(evidence: Evidence) -> Answer:
    share = time_mean(known(evidence.samples, "cpu_throttled_percent"))
    if share is not None and share > HELD_BACK_PERCENT:
        return Fired(
            f"The container's quota held the processors back in {share:.3g} % of its periods: the engine could do more."
        )
    clocks = [clock for _, clock in known(evidence.samples, "cpu_mhz")]
    third = len(clocks) // 3
    if third < CLOCK_SAMPLES or evidence.run.circumstances.gpus:
        return None
    first, last = float(np.median(clocks[:third])), float(np.median(clocks[-third:]))
    if last >= (1 - CPU_CLOCK_FELL) * first:
        return None
    return Fired(f"The processors' clock fell from {first:.0f} to {last:.0f} MHz within the window.")


#: What each kind of work is called.
_WORK = {"ingest": "the ingestion of {}", "question": "the page's question {!r}", "command": "{!r}"}


CHECKS = (
    Check(
        name="gpu_throttled",
        traps=(20,),
        severity="invalid",
        looks_at=("gpu_throttle_reasons",),
        threshold=f"slowed by heat or power supply in more than {percent(THROTTLED_WARNING)} of the seconds, "
        f"invalid above {percent(THROTTLED_INVALID)}, else a warning; a note if more than "
        f"{percent(POWER_CAPPED)} were at the power limit",
        why="Heat slows the arm measured later. The power limit is normal under load and equal for all arms.",
        advice="Fix the cooling, or set a power limit the machine can sustain, and repeat the study interleaved.",
        rule=_throttled,
    ),
    Check(
        name="gpu_clock_fell",
        traps=(20,),
        severity="warning",
        looks_at=("gpu_sm_clock_mhz", "gpu_utilisation_percent"),
        threshold=f"the median clock at work is {percent(CLOCK_FELL)} lower in the last third of the window than in "
        f"the first; needs {CLOCK_SAMPLES} seconds of each",
        why="A falling clock had not settled, so the figure depends on the run's length.",
        advice="Warm up the machine before the study, or lock its clocks (nvidia-smi --lock-gpu-clocks).",
        rule=_clock_fell,
    ),
    Check(
        name="gpu_shared",
        traps=(10, 20),
        severity="invalid",
        looks_at=(
            "gpu_other_processes",
            "gpu_utilisation_percent",
            "requests_in_flight",
            "chunks_received",
            "engine_running",
        ),
        threshold=f"invalid if the GPU was at {AT_WORK_PERCENT:g} % in {BUSY_IDLE_SAMPLES} seconds without a "
        "request of this run (two samples in a row); a warning if other processes had it open in "
        f"{SHARED_SAMPLES} seconds. Skipped without idle seconds, unless the driver reports process "
        "owners",
        why="Another process takes GPU time while it works, and memory always.",
        advice="Stop the other process, or give the engine a GPU of its own (CUDA_VISIBLE_DEVICES).",
        rule=_shared_gpu,
    ),
    Check(
        name="idle_engine_busy",
        traps=(20,),
        severity="invalid",
        looks_at=("idle_engines",),
        threshold=f"another arm's idle engine takes more than {IDLE_WARNING_PERCENT:g} % of a processor or GPU "
        f"during the window: a warning; above {IDLE_INVALID_PERCENT:g} %: invalid",
        why="It takes time from the measured engine. An idle vLLM takes about 1 % of a processor.",
        advice='Use order = "interleaved", which runs no other engine.',
        rule=_idle_engines,
    ),
    Check(
        name="work_beside",
        traps=(27,),
        severity="invalid",
        looks_at=("beside", "duration_s"),
        threshold="another worker of the machine was busy: invalid if the measured engine has no GPU, else a "
        "warning. An ingestion, a page's query or a command took 0.1 s or longer: a note, and a warning "
        f"above {percent(BESIDE_WARNING)} of the window",
        why="Other work takes processor time, memory bandwidth and disk from engine and client.",
        advice="Run one worker per machine, and send heavy queries when nothing is measured, or on another machine.",
        rule=_beside,
    ),
    Check(
        name="other_programs",
        traps=(29,),
        severity="warning",
        looks_at=("other_cpu_percent", "run_queue", "memory_pressure_percent", "circumstances.gpus"),
        needs=("other_cpu_percent",),
        threshold=f"programs other than the worker and its engines took more than {OTHERS_PERCENT:g} % of the run's "
        f"processors (a note up to {OTHERS_WITH_GPU_PERCENT:g} % if the engine has a GPU), or some "
        f"program waited for memory in more than {PRESSURE_PERCENT:g} % of the window. Skipped for "
        "servers that Drafthouse does not start. A quiet two-core machine shows 1 to 3 %",
        why="With 80 % of two cores taken by other programs, repeats of one cell differed 3.7 times.",
        advice="Stop the other programs, or measure when they rest.",
        rule=_other_programs,
    ),
    Check(
        name="processors_held_back",
        traps=(20, 29),
        severity="warning",
        looks_at=("cpu_throttled_percent", "cpu_mhz", "circumstances.gpus"),
        threshold=f"a container's quota (cgroup) held the processors back in more than {HELD_BACK_PERCENT:g} % of "
        f"its periods, or, without a GPU, their median clock is {percent(CPU_CLOCK_FELL)} lower in the "
        f"last third of the window than in the first ({CLOCK_SAMPLES} seconds of each)",
        why="A quota stops all threads for the rest of a 100 ms period, which puts steps into latencies.",
        advice="Give the container whole processors (a cpuset) instead of a quota; warm up the machine, or fix its "
        "clock.",
        rule=_held_back,
    ),
)
