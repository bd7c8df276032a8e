"""Checks that our measuring client and `vllm bench serve` agree on one server of this host."""

from __future__ import annotations

import asyncio
import json
import statistics
import tempfile
from pathlib import Path

from host.settings import Settings
from jobs.datasets.loader import load_prompts
from jobs.host_report import Finding
from lab.errors import EngineError, UserError
from lab.metrics.number_format import ratio
from lab.study import Arm, Load, Study, Workload
from lab.study.reference_pair import FLAGS
from services.verifying.our_client import Figures, figures, measured
from services.verifying.processes import counted, serving, vllm_environment, vllm_program
from services.verifying.rival import TARGET, bench_arguments, rival_figures, write_dataset
from services.verifying.study import MOST_DIFFERENCE

_WHAT = "client and vllm bench serve"
_WORKLOAD, _LOAD = Workload(output_tokens=32), Load(max_concurrency=4, num_prompts=16)


def agreement(settings: Settings, engine: str) -> Finding:
    """Measure the reference model on this vLLM, without a draft, by both clients, A B B A, with the same prompts."""
    study = Study(
        name="verify-client",
        target=TARGET,
        arms=(Arm(name="plain", engine=engine),),
        workloads=(_WORKLOAD,),
        loads=(_LOAD,),
        engine_flags=FLAGS["vllm"],
    )
    try:
        prompts = load_prompts(settings, _WORKLOAD, _LOAD.num_prompts, seed=0)
        with tempfile.TemporaryDirectory(prefix="drafthouse-verify-") as folder:
            dataset = write_dataset(Path(folder) / "prompts.jsonl", prompts)
            with serving(settings, study, study.arms[0]) as base_url:
                asyncio.run(measured(base_url, TARGET, str(dataset), 8, _LOAD.max_concurrency))  # warms the server
                ours = [_ours(base_url, dataset)]
                theirs = [_theirs(settings, study, base_url, dataset) for _ in range(2)]
                ours.append(_ours(base_url, dataset))
    except (UserError, EngineError) as error:
        first, *others = str(error).strip().splitlines()
        found = f"not measured: {' '.join([first, *others[-1:]])}"  # a program's last line names the cause
        return Finding(_WHAT, ok=False, found=found, remedy="fix this, and verify again")
    return compared(ours, theirs)


def compared(ours: list[Figures], theirs: list[Figures]) -> Finding:
    """Compare both clients by the ratios of their mean figures."""
    names = {"output_tok_per_s": "output throughput", "ttft_ms": "TTFT p50", "tpot_ms": "TPOT p50"}
    ratios = {
        name: statistics.fmean(getattr(one, name) for one in ours)
        / statistics.fmean(getattr(one, name) for one in theirs)
        for name in names
    }
    words = ", ".join(f"{words} {ratio(ratios[name])}" for name, words in names.items())
    throughput = ratios["output_tok_per_s"]
    is_near = max(throughput, 1 / throughput) - 1 <= MOST_DIFFERENCE
    remedy = "" if is_near else "find what else runs on this host, and verify again"
    return Finding(_WHAT, ok=is_near, found=f"ours over theirs: {words}", remedy=remedy)


def _ours(base_url: str, dataset: Path) -> Figures:
    result = asyncio.run(measured(base_url, TARGET, str(dataset), _WORKLOAD.output_tokens, _LOAD.max_concurrency))
    return figures(result)


def _theirs(settings: Settings, study: Study, base_url: str, dataset: Path) -> Figures:
    result_file = dataset.with_suffix(".result.json")
    command = [
        *(vllm_program(settings, study.arms[0].engine), *bench_arguments(settings, dataset, _WORKLOAD.output_tokens)),
        *("--base-url", base_url, "--max-concurrency", str(_LOAD.max_concurrency)),
        *("--num-prompts", str(_LOAD.num_prompts)),
        *("--save-result", "--result-dir", str(result_file.parent), "--result-filename", result_file.name),
    ]
    counted(command, vllm_environment(settings, study, study.arms[0]))
    return rival_figures(json.loads(result_file.read_text(encoding="utf-8")))
