"""`python -m benchmarks.engine_matrix VERSION...`: install each release of vLLM, try it, write its capture, remove it.

The reference pair is served without speculation and with each method that has a model here; those that start are
measured by a study through queue and worker. A release that cannot be installed or tried is reported, and the others
continue.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import json
import logging
import re
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from benchmarks.engine_matrix import live
from benchmarks.engine_matrix.known import known
from benchmarks.processes import measured_study, own_home
from host.settings import Settings, load_settings
from jobs.engines.capabilities import capabilities
from jobs.engines.captures import (
    BASELINE,
    Answer,
    Capture,
    Reported,
    TriedArm,
    release,
    write,
)
from lab.errors import DrafthouseError, EngineError
from lab.study import Arm, Study
from lab.study.parsing import study_from_dict
from warehouse.bundles.run_bundle import Bundle, find_bundles, read_bundle
from warehouse.migrate import migrate
from workers.engine_runtime.install import folder_name, install_vllm
from workers.load.client import open_session

#: Methods that the reference pair has a model for, or that need none.
_SPECULATION: dict[str, dict[str, Any]] = {
    "ngram": {"prompt_lookup_max": 3},
    "draft_model": {"model": "reference-draft"},
    "eagle3": {"model": "reference-eagle3"},
}
#: Further starts without speculation: what each is asked, by its flags.
_BESIDES: dict[str, dict[str, Any]] = {
    "tool call": {"enable_auto_tool_choice": True, "tool_call_parser": "hermes"},
    "two ranks": {"data_parallel_size": 2},
    "sleep": {"enable_sleep_mode": True},
}
#: Two ranks share the processors that one is bound to elsewhere.
_UNBOUND = {"VLLM_CPU_OMP_THREADS_BIND": "nobind"}
_CONFIGURED = re.compile(r"Initializing a V\d LLM engine")
#: Where vLLM checks its settings, in a traceback.
_CONFIGURING = re.compile(r"/vllm/(?:config/|engine/arg_utils\.py)")
#: How an engine says no. What else ends a start (a signal, a full memory, time) is the machine's doing.
_SAYS_NO = re.compile(r"(?!MemoryError|OSError|TimeoutError)\w*(?:Error|Exception): ")
_MOST_CHARS = 500


def main() -> int:
    """Return exit status 1 if a release could not be tried."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engine_matrix", description=__doc__)
    parser.add_argument("versions", nargs="+", help="releases of vLLM, such as 0.14.1")
    parser.add_argument("--keep", action="store_true", help="leave the environments that this makes")
    given = parser.parse_args()
    failed = False
    for version in given.versions:
        began_s = time.monotonic()
        try:
            capture = tried(load_settings(), version, keep=given.keep)
        except DrafthouseError as error:
            failed = True
            print(f"vLLM {version} could not be tried: {error}", flush=True)
            continue
        arms = ", ".join(f"{name} {arm.state}" for name, arm in capture.arms.items())
        print(f"vLLM {capture.version}: {arms} ({time.monotonic() - began_s:.0f} s)", flush=True)
    return int(failed)


def tried(settings: Settings, version: str, *, keep: bool) -> Capture:
    """Try one release and write its capture. Raises UserError if it cannot be installed or asked."""
    folder = settings.engines_dir.absolute() / folder_name(version)
    keep = keep or folder.exists()
    try:
        print(install_vllm(folder, version), flush=True)
        with own_home(settings) as home:
            own = home.model_copy(update={"engines_file": _engines_file(settings, home.home, folder)})
            migrate(own)
            return _captured(own, folder)
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def _engines_file(settings: Settings, home: Path, folder: Path) -> Path:
    """Write this lab's engines.toml with the release in place of its `vllm`."""
    file = home / "engines.toml"
    text = settings.engines_file.read_text(encoding="utf-8")
    file.write_text(text.replace('"{engines}/vllm/bin/vllm"', f'"{folder}/bin/vllm"'), encoding="utf-8")
    return file


def _captured(settings: Settings, folder: Path) -> Capture:
    """Try every arm, then measure those that start. The capture is also written before the study, whose checks read
    it.
    """
    has = capabilities(settings, "vllm")
    if has.flags is None or has.version is None or has.flag_types is None or has.speculation is None:
        raise EngineError(f"the vLLM in {folder} does not say what it has")
    arms: dict[str, TriedArm] = {}
    pages: dict[str, Answer] = {}
    streams: dict[str, Any] = {}
    for arm in _study([BASELINE, *_SPECULATION]).arms:
        print(f"vLLM {has.version}: {arm.name}", flush=True)
        arms[arm.name], of_arm, of_streams = asyncio.run(_tried_arm(settings, arm))
        if (why := arms[BASELINE].why) is not None:  # this machine's doing: nothing is learned of the methods
            raise EngineError(f"it does not serve the reference pair here: {why}")
        pages |= of_arm
        streams |= of_streams
    pages["unknown flag"] = _refused_flag(folder)
    of_besides, of_streams = asyncio.run(_besides(settings))
    pages, streams = pages | of_besides, streams | of_streams
    capture = Capture(
        kind="vllm",
        version=has.version,
        package=f"vllm-cpu=={release(has.version)}" if has.version.endswith("+cpu") else f"vllm=={has.version}",
        tried_on=dt.datetime.now(dt.UTC).date(),
        reported=Reported(flags=has.flags, types=has.flag_types, methods=has.methods, speculation=has.speculation),
        arms=_without_shared_metrics(arms),
        streams=streams,
        answers=pages,
    )
    write(capture)
    measured = _measured(settings, [name for name, arm in arms.items() if arm.why is None])
    capture = capture.model_copy(
        update={"arms": {name: arm.model_copy(update=measured.get(name, {})) for name, arm in capture.arms.items()}}
    )
    write(capture)
    return capture


def _study(names: list[str]) -> Study:
    """Return the study of these arms, without a compiled graph, which takes minutes on a CPU. It is small, but longer
    than the second after which an engine's gauges are read.
    """
    tried = {name: {"method": name, "num_speculative_tokens": 3, **options} for name, options in _SPECULATION.items()}
    arms = [{"name": name, **({"speculation": tried[name]} if name in tried else {})} for name in names]
    return study_from_dict(
        {
            "name": "engine matrix",
            "target": "reference",
            "engine_flags": {"enforce_eager": True, "max_model_len": 1024, "max_num_seqs": 4},
            "arms": [arm | ({"baseline": True} if arm["name"] == BASELINE else {}) for arm in arms],
            "workloads": [{"category": "code", "output_tokens": 24}],
            "loads": [{"max_concurrency": 2, "num_prompts": 32}],
            "repeats": 1,
        }
    )


async def _tried_arm(settings: Settings, arm: Arm) -> tuple[TriedArm, dict[str, Answer], dict[str, Any]]:
    """Start one arm and ask it. An engine that does not start is a result."""
    try:
        async with live.running(settings, _study([BASELINE, *_SPECULATION]), arm) as engine:
            endpoint = replace(engine.command.endpoint, per_request_spec_metrics=False)
            async with open_session(endpoint) as session:
                events = await live.stream(session, endpoint, live.own_request(endpoint))
                names = {name: labels for name, (labels, _) in (await live.metrics(session, endpoint)).items()}
            answers, streams = {}, {}
            if arm.speculation is None:
                answers, streams = await live.answers(endpoint), await live.streams(endpoint)
            return TriedArm(state="not measured", metrics=names, events=events), answers, streams
    except EngineError as error:
        log = (settings.home / "logs" / f"{arm.name}.log").read_text(encoding="utf-8", errors="replace")
        why = str(error).partition("\n")[0][:_MOST_CHARS]
        by_configuration = _CONFIGURED.search(log) is None and _CONFIGURING.search(log) is not None
        state: Literal["refused", "not measured"] = "refused" if _SAYS_NO.match(why) else "not measured"
        return TriedArm(state=state, why=why, by_configuration=by_configuration and state == "refused"), {}, {}


async def _besides(settings: Settings) -> tuple[dict[str, Answer], dict[str, Any]]:
    """Return what the baseline answers with further flags; why it does not start with them has the status of none."""
    pages: dict[str, Answer] = {}
    streams: dict[str, Any] = {}
    study = _study([BASELINE])
    allowed = sorted({flag.replace("_", "-") for flags in _BESIDES.values() for flag in flags})
    policy = f"[engines.vllm]\nflags = {json.dumps(allowed)}\nenvironment = {json.dumps([*_UNBOUND])}\n"
    (settings.home / "policy.toml").write_text(policy, encoding="utf-8")
    for name, flags in _BESIDES.items():
        arm = study.arms[0].model_copy(update={"name": name, "flags": flags, "environment": _UNBOUND})
        print(f"{name} ...", flush=True)
        try:
            async with live.running(settings, study, arm) as engine:
                endpoint = replace(engine.command.endpoint, per_request_spec_metrics=False)
                match name:
                    case "tool call":
                        streams[name] = await live.tool_call(endpoint)
                    case "two ranks":
                        pages[name] = await live.ranks(endpoint)
                    case _:
                        pages |= await live.sleep(endpoint)
        except EngineError as error:
            pages[name] = Answer(status=0, text=str(error).partition("\n")[0][:_MOST_CHARS])
    return pages, streams


def _refused_flag(folder: Path) -> Answer:
    """Return how the engine's parser refuses a flag that no release has."""
    command = (str(folder / "bin" / "vllm"), "serve", "nobody", "--no-such-flag")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return Answer(status=done.returncode, text=(done.stderr.strip().splitlines() or [""])[-1])


def _without_shared_metrics(arms: dict[str, TriedArm]) -> dict[str, TriedArm]:
    """Leave the metrics that every arm has with the baseline alone."""
    shared = arms[BASELINE].metrics
    return {
        name: arm
        if name == BASELINE
        else arm.model_copy(update={"metrics": {key: it for key, it in arm.metrics.items() if key not in shared}})
        for name, arm in arms.items()
    }


def _measured(settings: Settings, names: list[str]) -> dict[str, dict[str, Any]]:
    """Measure these arms in one study. Return what of each capture the study decides. A run that fails is a result,
    too, unless it is the baseline's.
    """
    if BASELINE not in names:
        return {}
    problem = None
    try:
        measured_study(settings, _study(names))
    except EngineError as error:
        problem = error
    bundles = [read_bundle(folder) for folder in find_bundles(settings.bundles)]
    found = {bundle.run.arm.name: _of_run(bundle) for bundle in bundles}
    if problem is not None and found.get(BASELINE, {}).get("state") != "measured":
        raise problem
    return found


def _of_run(bundle: Bundle) -> dict[str, Any]:
    if bundle.run.error is not None:
        return {"why": bundle.run.error.partition("\n")[0][:_MOST_CHARS]}
    return {"state": "measured", "known": known(bundle)}


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    sys.exit(main())
