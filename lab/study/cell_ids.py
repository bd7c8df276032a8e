"""Whether two runs measured the same: canonical forms of arm, workload and load, and their SHA-256.

Names are left out, and so is what stands at its default: an arm that was renamed, or a study written before a field was
added, is still the same. Circumstances (hardware, engine version, driver) are no part of it: they are what runs of one
cell are compared over. Neither is the file a model or a dataset lies in, where its content is known.
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
    """What is known of the files behind the names of a study: SHA-256 by name, None or absent where it is unknown."""

    models: Mapping[str, str | None] = field(default_factory=dict)
    datasets: Mapping[str, str | None] = field(default_factory=dict)  # by the workload's name

    def model(self, name: str) -> str:
        """The digest of a model's weights, or else its name."""
        return self.models.get(name) or name


def identity(study: Study, arm: Arm, workload: Workload, load: Load, contents: Contents) -> Identity:
    """The digests of one cell. The study's seed belongs to its workload and its load: it chooses the prompts, their
    order and the moments they leave at.
    """
    dataset = contents.datasets.get(workload.name)
    parts: Canonical = {
        "target": contents.model(study.target),
        "arm": arm_form(study, arm, contents),
        "workload": workload_form(workload, dataset),
        "load": load_form(load),
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
    """How the arm serves: with the study's flags in it, because the engine cannot tell them from its own."""
    form: Canonical = arm.model_dump(
        mode="json", exclude_defaults=True, exclude={"name", "baseline", "flags", "server"}
    )
    form["engine"] = arm.engine
    if flags := _dashed(study.engine_flags) | _dashed(arm.flags):
        form["flags"] = dict(flags)
    if arm.server is not None:  # the key that opens it does not change what it serves
        form["server"] = arm.server.model_dump(mode="json", exclude_defaults=True, exclude={"api_key"})
    if arm.speculation is not None and arm.speculation.model is not None:
        speculation = arm.speculation.model_dump(mode="json", exclude_defaults=True)
        form["speculation"] = speculation | {"model": contents.model(arm.speculation.model)}
    return form


def workload_form(workload: Workload, dataset_digest: str | None) -> Canonical:
    """What is asked. A dataset that was read is its content, wherever its file lies."""
    form: Canonical = workload.model_dump(mode="json", exclude_defaults=True)
    return form | {"dataset": dataset_digest or workload.dataset, "output_tokens": workload.output_tokens}


def load_form(load: Load) -> Canonical:
    """When it is asked; its label is a name."""
    return dict(load.model_dump(mode="json", exclude_defaults=True, exclude={"label"}))


def digest(form: JsonValue) -> str:
    """SHA-256 (hex) of the canonical JSON: keys sorted, no spaces, as UTF-8."""
    text = json.dumps(form, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _dashed(flags: Mapping[str, FlagValue]) -> dict[str, FlagValue]:
    """Both spellings, max_model_len and max-model-len, mean the same flag."""
    return {name.replace("_", "-"): value for name, value in flags.items()}
