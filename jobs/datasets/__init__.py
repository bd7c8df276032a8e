"""The prompts of a study: one module a dataset, and one place that picks from them."""

from jobs.datasets.check import check_workload
from jobs.datasets.listing import DatasetState, add_dataset, dataset_digest, datasets
from jobs.datasets.loader import load_prompts
from jobs.datasets.prompt import Message, Prompt
from jobs.datasets.registry import remove as remove_dataset
from jobs.datasets.resolve import dataset_path
from jobs.datasets.warm_up import warm_up_prompts

__all__ = [
    "DatasetState",
    "Message",
    "Prompt",
    "add_dataset",
    "check_workload",
    "dataset_digest",
    "dataset_path",
    "datasets",
    "load_prompts",
    "remove_dataset",
    "warm_up_prompts",
]
