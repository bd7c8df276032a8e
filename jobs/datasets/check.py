"""Whether a workload can be had: asked when a study is submitted, so that nobody waits for a refusal."""

from __future__ import annotations

from jobs.datasets import synthetic
from jobs.datasets.dataset import Dataset
from jobs.datasets.formats.files import Stock
from jobs.datasets.resolve import find
from jobs.datasets.tokenizer import check_tokenizer
from lab.errors import UserError
from lab.study import Workload
from warehouse.settings import Settings

_OF_MADE = ("input_tokens", "prefix_tokens", "num_prefixes")


def check_workload(
    settings: Settings, workload: Workload, count: int, *, target: str | None = None, trace: bool = False
) -> None:
    """Raise UserError unless `load_prompts` can give `count` prompts, with their arrival times for a `trace`.

    `target` is the model whose tokenizer will count. A registered file is not read again for this.
    """
    found = find(settings, workload.dataset)
    check_fields(found.dataset, workload)
    stock = None if found.dataset.make is not None else found.stock(settings)
    if stock is not None:
        check_stock(workload, stock, count)
    if trace and (stock is None or not stock.has_times):
        raise UserError(f"dataset {workload.dataset} records no arrival times to replay: try burstgpt")
    counts = stock is None or stock.has_lengths_only or found.dataset.fits is not None
    if target is not None and (counts or (workload.own_output_lengths and stock is not None and stock.has_replies)):
        check_tokenizer(settings, target)


def check_fields(dataset: Dataset, workload: Workload) -> None:
    """Raise UserError for a setting that this dataset does not have, or needs and was not given."""
    if dataset.make is None:
        if wrong := [name for name in _OF_MADE if getattr(workload, name) is not None]:
            raise UserError(f"{' and '.join(wrong)} only suit random and prefix_repetition, not {workload.dataset}")
        return
    if workload.category not in (None, synthetic.CATEGORY):
        raise UserError(f"dataset {dataset.name} has no categories: leave category out")
    if workload.own_output_lengths:
        raise UserError(f"dataset {dataset.name} records no output lengths: leave own_output_lengths out")
    if dataset.make is synthetic.random_prompts:
        if workload.input_tokens is None:
            raise UserError(f"dataset {dataset.name} needs input_tokens: how long is each prompt to be?")
        if workload.prefix_tokens is not None or workload.num_prefixes is not None:
            raise UserError("prefix_tokens and num_prefixes belong to dataset prefix_repetition")


def check_stock(workload: Workload, stock: Stock, count: int) -> None:
    """Raise UserError when a file has not what the workload asks for."""
    if workload.category is not None and workload.category not in stock.categories:
        known = ", ".join(stock.categories)
        hint = f"its categories are {known}" if known else "its prompts have no category: leave category out"
        raise UserError(f"dataset {workload.dataset} has no category {workload.category!r}; {hint}")
    if workload.own_output_lengths and not stock.has_output_lengths:
        raise UserError(
            f"dataset {workload.dataset} does not record an output length for each prompt: leave own_output_lengths out"
        )
    there = stock.rows if workload.category is None else stock.categories[workload.category]
    if count > there:
        raise UserError(too_few(workload, there, count))


def too_few(workload: Workload, there: int, count: int) -> str:
    what = f"dataset {workload.dataset}" + (f", category {workload.category}," if workload.category else "")
    return f"{what} has {there} prompts, but num_prompts asks for {count}: ask for {there} at most"
