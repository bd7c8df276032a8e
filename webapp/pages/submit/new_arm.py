"""A new arm of the form, and the name that follows an arm's fields until somebody types over it. Pure: no widgets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lab.study.methods import method_of, spoken_name
from lab.study.reference_pair import DRAFTS, TARGET
from webapp.pages.submit.form_model import NO_SPECULATION, Row

#: The number of tokens that an arm begins with, and those that follow if it is taken.
FIRST_K = 3
_NEXT_K = (FIRST_K, 5, 1, 2, 4, 6, 7, 8)
_SAME = ("engine", "method", "draft_model")
_OF_METHOD = ("method", "draft_model", "lookup_min", "lookup_max")


def made_name(method: str | None, k: int | None) -> str:
    """The name made from a row's method and number of tokens: `draft model k=3`."""
    if method in (None, NO_SPECULATION):
        return spoken_name(None, None)
    return spoken_name(method, k)


def new_arm(arms: Sequence[Row], engine: str, methods: Sequence[str], target: str) -> dict[str, Any]:
    """An arm to add: the method of the last one that speculates, with the first number of tokens that is not taken.

    `engine` is the last arm's, `methods` are its methods.
    """
    last = next((arm for arm in reversed(arms) if arm.get("method") not in (None, NO_SPECULATION)), None)
    drafts = {key: last.get(key) for key in _OF_METHOD} if last else _first_draft(methods, target)
    arm = {"engine": engine, **drafts}
    same = [other for other in arms if all((other.get(key) or None) == (arm.get(key) or None) for key in _SAME)]
    taken = {other.get("k") for other in same}
    k = next((number for number in _NEXT_K if number not in taken), FIRST_K)
    return {**arm, "k": k, "name": made_name(arm["method"], k)}


def _first_draft(methods: Sequence[str], target: str) -> dict[str, Any]:
    """The draft that comes with the reference model, or a method that needs no draft model, if the engine has one."""
    if target == TARGET and "draft_model" in methods:
        return {"method": "draft_model", "draft_model": DRAFTS["draft_model"]}
    without_model = [method for method in methods if method_of(method).draft_model == "refused"]
    return {"method": next(iter([*without_model, *methods]), "ngram")}
