"""Advice from a user's own runs: for each workload and concurrency enable speculation, leave it, or measure this next.

Two published sources are rules here: a checklist of practice and a tuning procedure measured on a mixture of experts.
What was measured wins over every rule: they only say what to expect and what to try.
"""

from lab.advice.measured import Action, Advice, Basis, Failed, Figures, Measured, Outcome, Reason
from lab.advice.rules import FIRST_GAMMA
from lab.advice.verdict import advise

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
]
