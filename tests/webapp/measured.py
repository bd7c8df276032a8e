"""Bundles of a whole study, as a worker would leave them, with figures made up after a rule: a candidate is faster by
its ratio at each load.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from host.settings import Settings
from lab.metrics.records import RequestRecord
from lab.schedule import Outcome, Step, schedule_of
from lab.study import Study
from lab.study.plan import PlannedRun
from tests.migrated import copy_migrated, is_new, scratch_folder
from tests.warehouse.runs import TELEMETRY, circumstances, counters, request, run_record
from tests.webapp.homes import claimed_job, finish, make_home
from warehouse.bundles.run_bundle import write_bundle
from warehouse.ingest.service import ingest_all
from workers.outcomes import read_outcome

#: Milliseconds a token of one stream without speculation takes, by concurrency.
BASE_TPOT_MS = {1: 25.0, 4: 34.0, 16: 100.0}
#: By how much an arm is faster than the baseline, by method and concurrency.
RATIOS = {
    "draft_model": {1: 1.48, 4: 1.08, 16: 0.92},
    "ngram": {1: 1.21, 4: 0.97, 16: 0.88},
    "eagle3": {1: 1.36, 4: 1.10, 16: 0.95},
}
#: An engine whose schedule drafts nothing at a load, to one that cannot draft.
READY_TO_DRAFT = 0.97
ACCEPTED = {"draft_model": 0.78, "ngram": 0.42, "eagle3": 0.66}
#: More text repeats itself, the more is accepted.
OF_CATEGORY = {"code": 1.0, "repeat": 1.18, "prose": 0.8}
_NOTHING: Mapping[str, str] = {}
START = datetime(2026, 11, 21, 4, 12, 33, tzinfo=UTC)
HARDWARE = "AMD EPYC 7B13 (2 cores)"


#: Homes in which nothing but one study was measured, with its job: by all that its figures depend on.
_MEASURED: dict[tuple[object, ...], tuple[Path, str]] = {}
_ONLY_READ: dict[tuple[object, ...], tuple[Settings, str]] = {}


def measure_study(
    settings: Settings, study: Study, *, failing: str = "", miscounted: str = "", writes: Mapping[str, str] = _NOTHING
) -> str:
    """Submit the study, leave a bundle for each of its runs and publish them.

    Runs of the arm `failing` have failed; those of `miscounted` have half of the tokens that the server counted.
    `writes`: the output of an arm for every odd request, where it is not that of all the others.
    A home in which nothing has happened yet gets the files of the first that was filled so: measuring takes a second.
    """
    about = (study.model_dump_json(), failing, miscounted, *sorted(writes.items()))
    if not is_new(settings.home):
        return _measure(settings, study, failing, miscounted, writes)
    if about not in _MEASURED:
        made = Settings(home=scratch_folder() / "home")
        copy_migrated(made.home)
        made.models_dir.symlink_to(settings.models_dir)  # submitting looks for them
        made = made.model_copy(update={"engines_file": settings.engines_file})
        _MEASURED[about] = made.home, _measure(made, study, failing, miscounted, writes)
        made.models_dir.unlink()
    home, job_id = _MEASURED[about]
    shutil.copytree(home, settings.home, dirs_exist_ok=True)
    return job_id


def measured_only_to_be_read(study: Study, **how: Any) -> tuple[Settings, str]:
    """A home in which the study was measured as by `measure_study`, the same one for all who ask; and its job."""
    about = (study.model_dump_json(), *sorted(how.items()))
    if about not in _ONLY_READ:
        home = make_home(scratch_folder())
        _ONLY_READ[about] = home, measure_study(home, study, **how)
    return _ONLY_READ[about]


def _measure(settings: Settings, study: Study, failing: str, miscounted: str, writes: Mapping[str, str]) -> str:
    job_id = claimed_job(settings, study)
    schedule, outcomes = schedule_of(study), list[Outcome]()
    while isinstance(step := schedule.next(outcomes), Step):
        for run in step.launch.runs:
            wrong = {"failed": run.arm.name == failing, "miscounted": run.arm.name == miscounted}
            index = step.launch.index
            folder = write_run(settings, study, run, job_id, index, writes=writes.get(run.arm.name), **wrong)
            outcomes.append(Outcome(run, index, is_valid=True) if study.tune is None else read_outcome(folder, run))
    finish(settings, job_id, "done")
    ingest_all(settings)
    return job_id


def write_run(
    settings: Settings,
    study: Study,
    run: PlannedRun,
    job_id: str,
    launch_index: int,
    *,
    failed: bool = False,
    miscounted: bool = False,
    writes: str | None = None,
    attempt: int = 0,
    slower: float = 1.0,
) -> Path:
    """`slower`: how many times as long each token takes."""
    requests = [] if failed else [_written(made, writes) for made in _requests(run, slower)]
    drafts, accepted = _accepted(run, len(requests))
    record = run_record(
        run_id=run.key(job_id) + (f"-{attempt}" if attempt else ""),
        cell_key=run.key(job_id),
        attempt=attempt,
        job_id=job_id,
        study_id=study.digest(),
        study_name=study.name,
        target=study.target,
        arm=run.arm,
        is_baseline=run.arm == study.baseline,
        workload=run.workload,
        load=run.load,
        slo=study.slo,
        repeat=run.repeat,
        launch_index=launch_index,
        status="failed" if failed else "completed",
        error="EngineError: vllm serve ended with exit code 1: <b>no such head</b> $x$" if failed else None,
        started_at=(START + timedelta(minutes=launch_index)).isoformat(),
        duration_s=None if failed else max(made.end_s or 0.0 for made in requests),
        counters_before=counters(num_accepted_tokens_per_position=(0.0,) * (len(accepted) or 3)),
        counters_after=counters(
            generation_tokens=float(len(requests) * run.workload.output_tokens * (2 if miscounted else 1)),
            num_drafts=float(drafts),
            num_draft_tokens=float(drafts * len(accepted)),
            num_accepted_tokens=float(sum(accepted)),
            num_accepted_tokens_per_position=tuple(map(float, accepted)) or (0.0, 0.0, 0.0),
        ),
        circumstances=circumstances(hardware=HARDWARE, engine_version="0.32.0+cpu"),
    )
    return write_bundle(settings.bundles, record, requests, TELEMETRY, None)


def _written(made: RequestRecord, text: str | None) -> RequestRecord:
    return made if text is None or made.index % 2 == 0 else replace(made, output_text=text)


def _requests(run: PlannedRun, slower: float) -> list[RequestRecord]:
    """Waves of as many requests as there is concurrency; every repeat a little slower than the one before."""
    streams, tokens = run.load.max_concurrency, run.workload.output_tokens
    tpot_s = BASE_TPOT_MS.get(streams, 30.0) / 1000 / _ratio(run) * (1 + 0.02 * run.repeat) * slower
    ttft_s = 0.04 + 0.004 * streams
    wave_s = ttft_s + tokens * tpot_s
    made = []
    for index in range(run.load.num_prompts):
        begun = (index // streams) * wave_s
        times = tuple(begun + ttft_s + place * tpot_s for place in range(tokens))
        made.append(
            replace(
                request(),
                index=index,
                prompt_id=f"p{index}",
                category=run.workload.category,
                requested_output_tokens=tokens,
                intended_send_s=begun,
                sent_s=begun,
                first_token_s=times[0],
                end_s=times[-1] + 0.001,
                chunk_s=times,
                chunk_tokens=(1,) * tokens,
                completion_tokens=tokens,
            )
        )
    return made


def _ratio(run: PlannedRun) -> float:
    if run.arm.speculation is None:
        return 1.0
    if run.arm.speculation.scheduled_tokens(run.load.max_concurrency) == 0:
        return READY_TO_DRAFT
    ratio = RATIOS[run.arm.speculation.method].get(run.load.max_concurrency, 1.0)
    return ratio * math.sqrt(OF_CATEGORY.get(run.workload.category or "", 1.0))


def _accepted(run: PlannedRun, requests: int) -> tuple[int, list[int]]:
    """Drafts of the run, and how many were accepted up to each position."""
    speculation = run.arm.speculation
    if speculation is None:
        return 0, []
    rate = min(0.97, ACCEPTED[speculation.method] * OF_CATEGORY.get(run.workload.category or "", 1.0))
    drafts = requests * run.workload.output_tokens // 2
    return drafts, [round(drafts * rate**position) for position in range(1, speculation.num_speculative_tokens + 1)]
