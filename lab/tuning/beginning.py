"""The tuning of a study: its drafts, loads and prompts, with the numbers of drafted tokens yet to be chosen."""

from __future__ import annotations

from collections.abc import Sequence

from lab.study import Study, Tune
from lab.study.parsing import study_from_dict
from lab.study.tune import drafts

#: The most characters of a study's name that are used; a name may have 200.
_LETTERS_KEPT = 180


def tuning_of(
    study: Study,
    *,
    workload: str | None = None,
    drafted_tokens: Sequence[int] = (),
    budget_minutes: float | None = None,
) -> Study:
    """Return the study as a tuning: unchanged if it is one, else renamed, with its baseline and each draft once.

    `workload` names the only workload to tune for. Raises StudyError if a part of the study cannot be tuned.
    """
    given = {"drafted_tokens": drafted_tokens or None, "budget_minutes": budget_minutes}
    tune = (study.tune or Tune()).model_dump() | {key: value for key, value in given.items() if value is not None}
    # the baseline, and every draft once, whatever numbers of tokens it was measured with
    once_each = [study.baseline, *{draft.name: draft.arm for draft in drafts(study.arms, Tune())}.values()]
    arms = study.arms if study.tune else once_each
    data = study.model_dump(mode="json", exclude_defaults=True, exclude_none=True)
    if study.tune is None:
        data["name"] = f"{study.name[:_LETTERS_KEPT]}, tuned"
    if workload is not None:
        data["workloads"] = [
            written for written, its in zip(data["workloads"], study.workloads, strict=True) if its.name == workload
        ]
    return study_from_dict(data | {"arms": [arm.model_dump(exclude_none=True) for arm in arms], "tune": tune})
