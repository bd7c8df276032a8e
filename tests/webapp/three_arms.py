"""Studies of a baseline, a draft model and n-gram."""

from __future__ import annotations

from lab.study import Study
from tests.lab.studies import DRAFT, study

ARMS = [
    {"name": "no draft"},
    {"name": "draft", "speculation": DRAFT},
    {"name": "n-gram", "speculation": {"method": "ngram", "num_speculative_tokens": 2}},
]
#: What one of them may write where the others agree.
OTHERWISE = "return 2  # <b>bold</b> $x$ [a](http://b)"


def three_arms(**changes: object) -> Study:
    """On two categories at two concurrencies; the arms do not come in the order of their names."""
    arms = [*ARMS[:2], {"name": "a first by name", "speculation": {"method": "ngram", "num_speculative_tokens": 3}}]
    workloads = [{"category": "code", "output_tokens": 8}, {"category": "repeat", "output_tokens": 8}]
    return study(**{"arms": arms, "workloads": workloads, **changes})
