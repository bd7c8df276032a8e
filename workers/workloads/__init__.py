"""The prompts of a study: one module a dataset, and one place that picks from them."""

from workers.workloads.check import check_workload
from workers.workloads.find import dataset_path
from workers.workloads.listing import DatasetState, add_dataset, dataset_digest, datasets
from workers.workloads.prompt import Message, Prompt
from workers.workloads.prompts import load_prompts
from workers.workloads.registry import remove as remove_dataset
from workers.workloads.warm_up import warm_up_prompts

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
