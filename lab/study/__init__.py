"""A study and its parts, as a user submits them."""

from lab.study.arm import Arm, Server, Speculation
from lab.study.load import Load
from lab.study.model_base import FlagValue, Frozen, Name
from lab.study.study import Sampling, Slo, Study
from lab.study.trial import Trial
from lab.study.tune import Tune
from lab.study.workload import Sessions, Workload

__all__ = [
    "Arm",
    "FlagValue",
    "Frozen",
    "Load",
    "Name",
    "Sampling",
    "Server",
    "Sessions",
    "Slo",
    "Speculation",
    "Study",
    "Trial",
    "Tune",
    "Workload",
]
