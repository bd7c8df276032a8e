"""Part sweep: one small study through Drafthouse's plan and worker, and the same cells by `vllm bench sweep serve`.

Two arms, two loads, two repeats on the same prompts, one engine start per arm on both sides. Aim: 0.55 of the rival's
wall time. Ours has both engines up side by side and includes warm-up and bundles; the rival has one engine after the
other and starts one client per cell. Drafthouse has already probed the engine's version and flags, as it does once
after an installation.

Once with engines of one process, and once with those of vLLM's CPU build as it starts them: three processes, of which
each imports vLLM by itself, the last bound to one processor. On a host of two, starts side by side then wait for each
other; beside a GPU an engine has two processes, and no processor is bound.
"""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

from benchmarks.client import FLAGS
from benchmarks.processes import measured_study, own_home
from benchmarks.table import Row, show
from host.settings import Settings
from jobs.datasets.loader import load_prompts
from jobs.engine_logs import engine_log
from jobs.engines.kinds.vllm import speculative_config
from jobs.engines.models import check_model
from jobs.submission import check_study
from lab.errors import EngineError
from lab.study import Arm, Load, Speculation, Study, Workload
from services.verifying.processes import counted, vllm_environment, vllm_program
from services.verifying.rival import TARGET, bench_arguments, write_dataset
from warehouse.migrate import migrate
from workers.engine_runtime.launch import engine_command

WORKLOAD = Workload(output_tokens=32)
STUDY = Study(
    name="bench sweep",
    target=TARGET,
    arms=(
        Arm(name="plain"),
        Arm(
            name="draft",
            speculation=Speculation(method="draft_model", model="reference-draft", num_speculative_tokens=3),
        ),
    ),
    workloads=(WORKLOAD,),
    loads=(Load(max_concurrency=1, num_prompts=8), Load(max_concurrency=4, num_prompts=16)),
    repeats=2,
    order="side_by_side",
    repeats_per_launch=2,  # one engine start, like the rival
    engine_flags=FLAGS,
)
#: The settings of engines of one process, and a policy that allows them.
_ONE_PROCESS = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
_IN_ONE_PROCESS = STUDY.model_copy(
    update={
        "engine_flags": FLAGS | {"distributed_executor_backend": "uni"},
        "arms": tuple(arm.model_copy(update={"environment": _ONE_PROCESS}) for arm in STUDY.arms),
    }
)
_POLICY = '[engines.vllm]\nflags = ["distributed-executor-backend"]\n'


def run(settings: Settings, _repeats: int) -> None:
    """Measure and print. Raises UserError if the engine or the models are missing."""
    for name in (TARGET, "reference-draft"):
        check_model(settings.models_dir, name)
    ways = {"engines of one process": _IN_ONE_PROCESS, "vLLM's own processes": STUDY}
    cells = f"{len(STUDY.arms)} arms x {len(STUDY.loads)} loads x {STUDY.repeats} repeats"
    show(
        f"Sweep: {cells}",
        "vllm bench sweep serve",
        [Row(f"{way}, wall s", *_both(settings, way, study), "0.55 at most") for way, study in ways.items()],
    )


def _both(settings: Settings, way: str, study: Study) -> tuple[list[float], list[float]]:
    with own_home(settings) as own:
        (own.home / "policy.toml").write_text(_POLICY, encoding="utf-8")
        print(f"sweep, {way}: by Drafthouse", file=sys.stderr)
        ours = ours_s(own, study)
        print(f"sweep, {way}: by vLLM", file=sys.stderr)
        return [ours], [_theirs(own, study)]


def ours_s(settings: Settings, study: Study) -> float:
    """Return the seconds from submitting the study to the end of its job. Raises EngineError if a run failed."""
    migrate(settings)
    check_study(settings, study)
    return measured_study(settings, study)[1]


def _theirs(settings: Settings, study: Study) -> float:
    """Return the seconds that the rival takes for the same cells. Raises EngineError unless all requests succeeded."""
    folder = settings.home / "rival"
    folder.mkdir()
    command = [vllm_program(settings), "bench", "sweep", "serve", *_sweep_arguments(settings, study, folder)]
    wall_s = counted(command, vllm_environment(settings, study, study.arms[0])).wall_s
    results = [json.loads(path.read_text(encoding="utf-8")) for path in folder.rglob("run=*.json")]
    failed = sum(result["failed"] for result in results)
    if failed or len(results) != len(study.arms) * len(study.loads) * study.repeats:
        raise EngineError(f"the rival measured {len(results)} cells, and {failed} of its requests failed")
    return wall_s


def _sweep_arguments(settings: Settings, study: Study, folder: Path) -> list[str]:
    most = max(load.num_prompts for load in study.loads)
    dataset = write_dataset(folder / "prompts.jsonl", load_prompts(settings, WORKLOAD, most, study.seed))
    serve = engine_command(settings, study, study.arms[0], engine_log(settings.logs_dir, "bench"), keyed=False)
    bench = [vllm_program(settings), *bench_arguments(settings, dataset, WORKLOAD.output_tokens)]
    bench += ["--base-url", serve.endpoint.base_url]
    loads = [{"max_concurrency": load.max_concurrency, "num_prompts": load.num_prompts} for load in study.loads]
    return [
        *("--serve-cmd", shlex.join(serve.argv), "--bench-cmd", shlex.join(bench)),
        *("--serve-params", _write(folder / "arms.json", [arm_parameters(settings, arm) for arm in study.arms])),
        *("--bench-params", _write(folder / "loads.json", loads)),
        *("--num-runs", str(study.repeats), "--output-dir", str(folder)),
    ]


def arm_parameters(settings: Settings, arm: Arm) -> dict[str, object]:
    """Return an arm for the rival's sweep: flags to add to the command of the plain server."""
    if arm.speculation is None:
        return {"_benchmark_name": arm.name}
    return {"_benchmark_name": arm.name, "speculative-config": speculative_config(settings.models_dir, arm.speculation)}


def _write(path: Path, records: list[dict[str, object]] | list[dict[str, int]]) -> str:
    path.write_text(json.dumps(records), encoding="utf-8")
    return str(path)
