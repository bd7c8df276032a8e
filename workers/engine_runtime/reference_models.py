"""Prepares the reference models under the home, for `drafthouse install`.

models/prepare.py does it in the environment of an engine, which has torch. A stamp is written last; it names the files
that the models were made from.
"""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

from host.files import write_whole
from host.private_files import write_for_engines
from host.settings import SHIPPED, Settings
from jobs.engines.profiles import installed_profile, installed_profiles
from lab.errors import UserError

STAMP = "prepared"
_SOURCE = SHIPPED / "models"
_MADE_FROM = ("prepare.py", "*/*.safetensors", "*/*.json", "prompts/*.jsonl")


@write_for_engines()
def prepare_models(settings: Settings) -> str:
    """Write the reference models, unless they exist. Return a sentence for the user. Raises UserError."""
    folder, recipe = settings.models_dir, _recipe()
    stamp = folder / STAMP
    if stamp.exists() and stamp.read_text(encoding="utf-8") == recipe:
        return f"the reference models are already in {folder}"
    # isolated: none of our modules and variables
    command = (str(_program(settings).with_name("python3")), "-I", str(_SOURCE / "prepare.py"), "--to", str(folder))
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise UserError(f"the reference models could not be prepared: {command[0]}: {error.strerror}") from None
    if done.returncode:
        raise UserError(f"the reference models could not be prepared:\n{done.stderr.strip()}")
    write_whole(stamp, recipe)
    return done.stdout.strip()


def _program(settings: Settings) -> Path:
    """Return the program of an engine with torch, by preference vLLM's own. Raises HostError without any."""
    engines = installed_profiles(settings)
    others = [name for name, profile in engines.items() if profile.kind in ("vllm", "transformers")]
    name = "vllm" if "vllm" in engines else next(iter(others), "vllm")
    program = installed_profile(settings, name).program(settings.engines_dir)
    assert program is not None  # noqa: S101 - it is installed
    return program


def _recipe() -> str:
    total = hashlib.sha256()
    for path in sorted(path for pattern in _MADE_FROM for path in _SOURCE.glob(pattern)):
        total.update(f"{path.relative_to(_SOURCE)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest() + "\n"
