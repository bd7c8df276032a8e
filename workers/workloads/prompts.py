"""From a workload to its prompts: the same ones in the same order for every arm, host and repeat."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lab.errors import UserError
from lab.study import Workload
from warehouse.settings import Settings
from workers.workloads import jsonl, reference
from workers.workloads.jsonl import Row

#: Datasets with a name of their own; any other name is the path of a JSONL file.
_NAMED = {"reference": reference.rows}


@dataclass(frozen=True)
class Prompt:
    """One prompt. The id is a hash of its text: the same prompt has the same id in every dataset and on every host."""

    prompt_id: str
    category: str | None
    text: str


def load_prompts(settings: Settings, workload: Workload, count: int, seed: int) -> tuple[Prompt, ...]:
    """The first `count` prompts of the workload in the order of `seed`; fewer of them are the start of more.

    Raises UserError when the dataset cannot be read or holds fewer.
    """
    rows = _rows(settings, workload)
    if count > len(rows):
        what = f"dataset {workload.dataset}" + (f", category {workload.category}," if workload.category else "")
        raise UserError(
            f"{what} has {len(rows)} prompts, but num_prompts asks for {count}: ask for {len(rows)} at most"
        )
    order = np.random.default_rng(seed).permutation(len(rows))[:count]
    return tuple(_prompt(rows[place]) for place in order)


def check_workload(settings: Settings, workload: Workload, count: int) -> None:
    """Raise UserError unless `load_prompts` can give `count` prompts; for the moment a study is submitted."""
    load_prompts(settings, workload, count, seed=0)


def warm_up_prompts(prompts: Sequence[Prompt], count: int) -> tuple[Prompt, ...]:
    """`count` prompts of the same kind and length as `prompts` that share no prefix with any of them.

    A prompt sent before would leave its prefix in the server's cache and flatter the measured window.
    """
    return tuple(_disguised(prompts[place % len(prompts)], place) for place in range(count))


def _disguised(prompt: Prompt, place: int) -> Prompt:
    mark = f"<{place}> "
    return Prompt(f"warm-up-{place}", prompt.category, mark + prompt.text[len(mark) :])


def _rows(settings: Settings, workload: Workload) -> list[Row]:
    named = _NAMED.get(workload.dataset)
    rows = named(settings) if named else jsonl.rows(workload.dataset)
    if workload.category is None:
        return rows
    if picked := [row for row in rows if row.category == workload.category]:
        return picked
    known = sorted({row.category for row in rows if row.category})
    hint = f"its categories are {', '.join(known)}" if known else "its prompts have no category: leave category out"
    raise UserError(f"dataset {workload.dataset} has no category {workload.category!r}; {hint}")


def _prompt(row: Row) -> Prompt:
    return Prompt(hashlib.sha256(row.prompt.encode()).hexdigest()[:16], row.category, row.prompt)
