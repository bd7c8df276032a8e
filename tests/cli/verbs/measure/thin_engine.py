"""An engine that is installed from a wheel: releases of it, built here, of which the later ones accept fewer tokens."""

from __future__ import annotations

import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

from tests.workers import stand_in_server
from tests.workers.stand_in_engine import arguments
from tests.workers.stand_in_server import Json, Server, Talk

DRAFTED = 3


def build(folder: Path, version: str, code: str) -> Path:
    """A wheel of this version, whose command `thin-serve` runs this code as its function main."""
    info, wheel = f"thin_engine-{version}.dist-info", folder / f"thin_engine-{version}-py3-none-any.whl"
    files = {
        "thin_engine.py": f"def main():\n    {code}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: thin-engine\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\nthin-serve = thin_engine:main\n",
    }
    record = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(name, text)
    return wheel


def serving(accepted: int) -> str:
    """The code of a release that accepts so many of three drafted tokens."""
    return f"from tests.cli.verbs.measure.thin_engine import serve; serve({accepted})"


class _Handler(stand_in_server.Handler):
    disable_nagle_algorithm = True

    def _events(self, body: Json) -> Iterator[Json]:
        for event in super()._events(body):
            time.sleep(0.002)
            yield event


def serve(accepted: int) -> None:
    """Serve as the command line says."""
    options = arguments()
    talk = Talk({}, accepted_each_round=accepted if options.speculative_config else 0)

    def metrics() -> str:
        drafts = {
            "drafts": talk.rounds,
            "draft_tokens": talk.rounds * DRAFTED,
            "accepted_tokens": talk.accepted,
        }
        counted = (
            {f"spec_decode_num_{name}": count for name, count in drafts.items()} if options.speculative_config else {}
        )
        counted |= {"generation_tokens": talk.generated, "prompt_tokens": talk.prompt_tokens}
        gauges = "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\nvllm:kv_cache_usage_perc 0.25\n"
        return "".join(f"vllm:{name}_total {count}\n" for name, count in counted.items()) + gauges

    pages = {"/health": lambda: "", "/version": lambda: '{"version": "1.0"}', "/metrics": metrics}
    talk.pages = {**pages, "/reset_prefix_cache": lambda: "{}"}
    print(f"non-default args: {{'model': '{options.model}'}}", flush=True)
    server = Server(options.host, options.port, talk, _Handler)
    print(f"listening on port {server.server_port}", file=sys.stderr, flush=True)
    server.serve_forever()
