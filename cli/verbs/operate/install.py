"""`drafthouse install`, which `drafthouse demo` calls, too."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.output import print_text
from host.settings import Settings, load_settings
from jobs.engines.profiles import read_profiles
from lab.errors import UserError
from warehouse.migrate import make_home
from workers.engine_runtime.install import VLLM_VERSION, add_engine, folder_name, install_vllm, is_version
from workers.engine_runtime.reference_models import prepare_models

#: The engines.toml of a container image names the vLLM of the image instead.
_OURS = "{engines}/vllm/"


def install(
    engine: Annotated[str, typer.Argument(help="The engine: vllm.")] = "vllm",
    version: Annotated[str, typer.Argument(help="Its version.")] = VLLM_VERSION,
) -> None:
    """Install vLLM into an environment of its own, and prepare the reference models.

    Without an NVIDIA GPU it is vLLM's CPU build. Another version than the usual one is added to engines.toml.
    """
    if engine != "vllm" or not is_version(version):
        raise UserError(f"{engine} {version} cannot be installed: name vllm, and a version such as {VLLM_VERSION}")
    settings = load_settings()
    make_home(settings)
    if version == VLLM_VERSION:
        install_for_demo(settings)
        return
    print_text(install_vllm(settings.engines_dir / folder_name(version), version))
    print_text(add_engine(settings.engines_file, version))


def install_for_demo(settings: Settings) -> None:
    """Install vLLM, unless engines.toml names one of the host's own, and prepare the reference models."""
    profile = read_profiles(settings.engines_file).get("vllm")
    if profile is None or profile.command[0].startswith(_OURS):
        print_text("Installing vLLM and preparing the reference models, where missing ...")
        print_text(install_vllm(settings.engines_dir / folder_name(VLLM_VERSION)))
    print_text(prepare_models(settings))
