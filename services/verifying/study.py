"""The study that `drafthouse verify` measures, and the verdict of its runs on the host's engines."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from jobs.engines.capabilities import Capabilities
from jobs.host_report import Finding
from lab.metrics.number_format import percentage, times
from lab.study import Arm, Load, Speculation, Study, Workload
from lab.study.reference_pair import DRAFTS, FLAGS, TARGET
from lab.validity.words import listed

#: Methods that can be tried with the reference models, and the draft that each needs.
_TRIED = {**DRAFTS, "ngram": None}
WORKLOAD, LOAD = Workload(category="code", output_tokens=32), Load(max_concurrency=2, num_prompts=12)
#: If identical arms differ by more, the host is too noisy to measure a draft model.
MOST_DIFFERENCE = 0.25
_MOST_NAMED = 4
_LOGS = "`drafthouse logs {job}` shows what the engine wrote; docs/troubleshooting.md names usual causes"


def plain_name(engine: str) -> str:
    return f"{engine}: no draft"


def control_name(engine: str) -> str:
    return f"{engine}: no draft again"


def method_name(engine: str, method: str) -> str:
    return f"{engine}: {method}"


def verification_study(engines: Sequence[Capabilities], target: str = TARGET) -> Study:
    """Return the study: for every engine an arm without a draft and an arm for each method that can be tried; for the
    first engine also an identical arm. A user's own target is tried with n-grams only, as no draft is known for it.
    """
    arms = []
    for number, engine in enumerate(engines):
        flags = dict(FLAGS.get(engine.kind, {})) if target == TARGET else {}
        arms.append(Arm(name=plain_name(engine.engine), engine=engine.engine, flags=flags, baseline=number == 0))
        if number == 0:
            arms.append(Arm(name=control_name(engine.engine), engine=engine.engine, flags=flags))
        for method in tried(engine, target):
            speculation = Speculation(method=method, model=_TRIED[method], num_speculative_tokens=3)
            name = method_name(engine.engine, method)
            arms.append(Arm(name=name, engine=engine.engine, flags=flags, speculation=speculation))
    return Study(
        name="verify", target=target, arms=tuple(arms), workloads=(WORKLOAD,), loads=(LOAD,), repeats=1, alone=True
    )


def tried(engine: Capabilities, target: str) -> list[str]:
    drafts = _TRIED if target == TARGET else {"ngram": None}
    return [method for method in drafts if method in engine.methods]


def judged(
    engines: Sequence[Capabilities], target: str, runs: pd.DataFrame, invalid: pd.DataFrame, job_id: str
) -> list[Finding]:
    """Return a finding for every engine, every method that it lists, and the identical runs.

    `runs` of `queries.results`, `invalid` with run_id and sentence.
    """
    found = []
    for engine in engines:
        plain = _of_arm(runs, plain_name(engine.engine))
        found.append(_engine(engine, plain, invalid, job_id))
        found += [
            _method(engine, method, plain, _of_arm(runs, method_name(engine.engine, method)), job_id)
            for method in tried(engine, target)
        ]
        if others := [method for method in engine.methods if method not in tried(engine, target)]:
            words = f"listed, not tried here: {listed(others, _MOST_NAMED)}: they need models made for them"
            found.append(Finding(f"{engine.engine}: other methods", ok=True, found=words))
    if engines:
        first = engines[0].engine
        found.append(_identical(_of_arm(runs, plain_name(first)), _of_arm(runs, control_name(first))))
    return found


def _of_arm(runs: pd.DataFrame, arm: str) -> pd.Series | None:
    rows = runs[runs["arm"] == arm]
    return None if rows.empty else rows.iloc[-1]


def _engine(engine: Capabilities, run: pd.Series | None, invalid: pd.DataFrame, job_id: str) -> Finding:
    what = f"engine {engine.engine}"
    if run is None or run["status"] != "completed":
        return Finding(what, ok=False, found=_error(run), remedy=_LOGS.format(job=job_id))
    requests, tokens = int(run["requests_completed"]), int(run["completion_tokens"])
    wanted = WORKLOAD.output_tokens * LOAD.num_prompts
    if tokens != wanted:
        counted = f"answered {requests} requests with {tokens} tokens by its own count, where {wanted} were requested"
        return Finding(what, ok=False, found=counted, remedy="do not compare its figures per token with others")
    reasons = invalid.loc[invalid["run_id"] == run["run_id"], "sentence"].tolist()
    if reasons:
        return Finding(what, ok=False, found="; ".join(reasons), remedy="the study's tab Checks says what to do")
    start = "" if pd.isna(run["engine_start_s"]) else f" started in {run['engine_start_s']:.0f} s,"
    return Finding(
        what,
        ok=True,
        found=f"{engine.kind} {run['engine_version']}{start} answered {requests} requests with the {tokens} tokens "
        f"asked for, {run['output_tok_per_s']:.3g} tok/s",
    )


def _method(engine: Capabilities, method: str, plain: pd.Series | None, run: pd.Series | None, job_id: str) -> Finding:
    what = f"{engine.engine}: {method}"
    if run is None or run["status"] != "completed":
        return Finding(what, ok=False, found=_error(run), remedy=_LOGS.format(job=job_id))
    if pd.isna(run["acceptance_length"]):
        remedy = "without the engine's counters of drafts no acceptance can be measured"
        return Finding(what, ok=False, found="runs, and reports no acceptance", remedy=remedy)
    found = f"runs; acceptance length {run['acceptance_length']:.2f}"
    if plain is not None and plain["status"] == "completed":
        found += f", {times(run['output_tok_per_s'] / plain['output_tok_per_s'])} of no draft once"
    return Finding(what, ok=True, found=found)


def _identical(run: pd.Series | None, again: pd.Series | None) -> Finding:
    what = "identical runs"
    if run is None or again is None or {run["status"], again["status"]} != {"completed"}:
        return Finding(what, ok=False, found="not measured: one of the two failed", remedy="fix the engine first")
    ratio = again["output_tok_per_s"] / run["output_tok_per_s"]
    difference = max(ratio, 1 / ratio) - 1
    is_near = bool(difference <= MOST_DIFFERENCE)
    found = f"two engine starts without a draft differ by {percentage(difference, 1)} in output throughput"
    remedy = "" if is_near else "find what else runs on this host, and measure with more repeats"
    return Finding(what, ok=is_near, found=found, remedy=remedy)


def _error(run: pd.Series | None) -> str:
    if run is None:
        return "not measured: the study ended before"
    return str(run["error"] or run["status"]).strip().splitlines()[0]
