"""How long a study will take, from past runs on the same hardware."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from jobs.engines.hardware import hardware_name, nvidia_gpus
from jobs.engines.models import local_folder
from lab.estimate import Estimate, History, PastRuns, estimate
from lab.study import Study
from lab.study.plan import WITH_GPU, WITHOUT_GPU, plan
from lab.study.reference_pair import TARGET
from warehouse.queries.connect import open_warehouse
from warehouse.settings import Settings


def forecast_study(settings: Settings, study: Study) -> Estimate:
    """Estimate how long the study takes on this host (or on the hardware it names), from the published runs."""
    past = history(settings, study.target, study.hardware)
    small = study.target == TARGET or (
        local_folder(settings.models_dir, study.target) is not None and not nvidia_gpus()
    )
    return estimate(plan(study), past, WITHOUT_GPU if small and study.hardware is None else WITH_GPU)


def history(settings: Settings, target: str, hardware: str | None = None) -> History:
    """Return what runs of the target took on hardware with `hardware` in its name, by default on this host's own.

    Empty before the first publication. Raises UserError for a warehouse of another revision.
    """
    if not settings.warehouse_file.exists():
        return History()
    from warehouse.queries import results  # noqa: PLC0415 - imports pandas, which takes a second

    with open_warehouse(settings.warehouse_file) as connection:
        found = results.run_seconds(connection)
    here = found["hardware"].str.casefold()
    same = here.str.contains(hardware.casefold(), regex=False) if hardware else here == hardware_name().casefold()
    return History([_past(row) for row in found[same & (found["target"] == target)].to_dict("records")])


def _past(row: Mapping[Hashable, Any]) -> PastRuns:
    import pandas as pd  # noqa: PLC0415 - likewise

    known: dict[str, Any] = {str(key): None if pd.isna(value) else value for key, value in row.items()}
    known["output_tokens"] = known["requested_output_tokens"]
    return PastRuns(**{name: known[name] for name in PastRuns.__dataclass_fields__})
