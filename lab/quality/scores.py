"""The score of one answer: 1 right, 0 wrong, None where it is unknown."""

from __future__ import annotations

import json
import re

import numpy as np

from lab.metrics.record_table import Floats
from lab.metrics.request_table import RequestTable
from lab.quality.code_answers import UNIT_TESTS

#: The ways to score an answer, each with a description.
SCORES = {
    "exact": "the answer is the expected one, apart from white space and case",
    "contains": "the expected answer occurs in it, apart from white space and case",
    "number": "the last number in it is the expected one",
    "json": "it is valid JSON, in a fence or not, with the expected value if there is one",
    UNIT_TESTS: "the Python in it passes the expected tests, which the worker runs apart from everything else",
}
#: The scores that need an expected answer; for UNIT_TESTS it must be tests.
COMPARED = ("exact", "contains", "number")
#: A minus behind a digit is that of a range or of a difference: `2023-2024`.
_NUMBER = re.compile(r"(?:(?<!\d)-)?(?:\d[\d,]*(?:\.\d+)?|(?<![\d.])\.\d+)")
_FENCE = re.compile(r"\A```[a-z]*\n(.*?)\n?```\Z", re.DOTALL)


def score(kind: str, answer: str, expected: str | None) -> float | None:
    """Return the score of an answer, without its reasoning.

    Raises KeyError for a kind that is not one of SCORES, and for UNIT_TESTS, because this function runs no code.
    """
    if kind == "json":
        return float(_is_json(answer, expected))
    if kind not in SCORES or kind == UNIT_TESTS:
        raise KeyError(kind)
    if expected is None:
        return None
    if kind == "number":
        return float(_last_number(answer) == _last_number(expected) is not None)
    wanted, given = _plain(expected), _plain(answer)
    return float(wanted == given if kind == "exact" else wanted in given)


def scores(kind: str | None, requests: RequestTable) -> Floats:
    """Return the score of each request; NaN for failed requests and for those without an expected answer."""
    found = np.full(len(requests), np.nan)
    if kind is None:
        return found
    if kind == UNIT_TESTS:
        return np.where(requests.is_completed, requests.numbers("tests_passed"), np.nan)
    texts, expected = requests.texts("output_text").to_pylist(), requests.texts("expected").to_pylist()
    reasoned = requests.numbers("reasoning_chars")
    for index in np.flatnonzero(requests.is_completed):
        begins = 0 if np.isnan(reasoned[index]) else int(reasoned[index])
        value = score(kind, texts[index][begins:], expected[index])
        found[index] = np.nan if value is None else value
    return found


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def _last_number(text: str) -> float | None:
    found = _NUMBER.findall(text)
    return float(found[-1].replace(",", "")) if found else None


def _is_json(answer: str, expected: str | None) -> bool:
    text = answer.strip()
    if fenced := _FENCE.match(text):
        text = fenced[1]
    try:
        value = json.loads(text)
        return expected is None or value == json.loads(expected)
    except (ValueError, RecursionError):
        return False
