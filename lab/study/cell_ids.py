"""Identity of what two runs measured: canonical forms of arm, workload and load, and their SHA-256.

Names and defaults are left out: a renamed arm, or a study written before a field was added, is still the same. The
environment (hardware, engine version, driver) is not part of it: runs of one cell are compared across environments. The
path of a model's or a dataset's file is left out, too, if its content is known.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from lab.metrics.records import Identity
from lab.study import Arm, Load, Study, Workload
from lab.study.model_base import FlagValue

Canonical = dict[str, JsonValue]


@dataclass(frozen=True)
class Contents:
    """Digests of the files behind the names of a study: SHA-256 by name, None or absent if unknown."""

    models: Mapping[str, str | None] = field(default_factory=dict)
    datasets: Mapping[str, str | None] = field(default_factory=dict)  # by the workload's name

    def model(self, name: str) -> str:
        """Return the digest of a model's weights, or else its name."""
        return self.models.get(name) or name


def identity(study: Study, arm: Arm, workload: Workload, load: Load, contents: Contents) -> Identity:
    """Return the digests of one cell.

    The study's seed belongs to workload and load: it chooses the prompts, their order and their arrival times.
    """
    dataset = contents.datasets.get(workload.name)
    parts: Canonical = {
        "target": contents.model(study.target),
        "arm": arm_form(study, arm, contents),
        # a dataset that was read counts by its content, wherever its file is
        "workload": workload.model_dump(mode="json", exclude_defaults=True)
        | {"dataset": dataset or workload.dataset, "output_tokens": workload.output_tokens},
        "load": load.model_dump(mode="json", exclude_defaults=True, exclude={"label"}),
        "sampling": study.sampling.model_dump(mode="json", exclude_defaults=True),
        "endpoint": study.endpoint,
        "seed": study.seed,
    }
    return Identity(
        cell_id=digest(parts),
        arm_id=digest(parts["arm"]),
        workload_id=digest([parts["workload"], study.seed]),
        load_id=digest(parts["load"]),
        dataset_digest=dataset,
    )


def arm_form(study: Study, arm: Arm, contents: Contents) -> Canonical:
    """Return an arm's canonical form, with the study's flags: to the engine they are the same as the arm's own."""
    form: Canonical = arm.model_dump(
        mode="json", exclude_defaults=True, exclude={"name", "baseline", "flags", "server"}
    )
    form["engine"] = arm.engine
    if flags := _dashed(study.engine_flags) | _dashed(arm.flags):
        form["flags"] = dict(flags)
    if arm.server is not None:  # neither the key nor what is trusted changes what the server serves
        without = {"api_key", "api_key_header", "ca_file"}
        form["server"] = arm.server.model_dump(mode="json", exclude_defaults=True, exclude=without)
    if arm.speculation is not None and arm.speculation.model is not None:
        speculation = arm.speculation.model_dump(mode="json", exclude_defaults=True)
        form["speculation"] = speculation | {"model": contents.model(arm.speculation.model)}
    return form


def digest(form: JsonValue) -> str:
    """Return the SHA-256 (hex) of the canonical JSON: keys sorted, no spaces, as UTF-8."""
    text = json.dumps(form, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _dashed(flags: Mapping[str, FlagValue]) -> dict[str, FlagValue]:
    """Normalise the spelling: max_model_len and max-model-len mean the same flag."""
    return {name.replace("_", "-"): value for name, value in flags.items()}
