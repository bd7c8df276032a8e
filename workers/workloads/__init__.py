"""The prompts of a study: one module a dataset, and one place that picks from them."""

from workers.workloads.prompts import Prompt, check_workload, load_prompts, warm_up_prompts

__all__ = ["Prompt", "check_workload", "load_prompts", "warm_up_prompts"]
