"""Advice from a user's own runs: for each workload and concurrency enable speculation, leave it off, or measure next.

Two published sources serve as rules: a checklist of practice and a tuning procedure measured on a mixture of experts.
Measurements beat every rule: rules only say what to expect and what to try.
"""

from lab.advice.advise import (
    FIRST_GAMMA,
    Action,
    Advice,
    Basis,
    Failed,
    Figures,
    Measured,
    Outcome,
    Reason,
    advise,
    arm_with_k,
)

__all__ = [
    "FIRST_GAMMA",
    "Action",
    "Advice",
    "Basis",
    "Failed",
    "Figures",
    "Measured",
    "Outcome",
    "Reason",
    "advise",
    "arm_with_k",
]
