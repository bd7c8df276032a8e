"""Prompts whose outputs differ between two arms, side by side, as literal text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from lab.comparison.agreement import Agreement
from lab.comparison.agreement import Pair as Texts
from lab.metrics.number_format import percentage
from webapp.pages.compare import data
from webapp.pages.compare.selection import Selection
from webapp.shared import url_params, url_widgets
from webapp.shared.text import count, literal

#: Prompts per page, and characters shown of each text.
_PAGE_SIZE = 5
_MAX_PROMPT, _MAX_SHARED, _MAX_REST = 1_500, 400, 1_500


def show(selection: Selection) -> None:
    """Show the differing outputs of one candidate in the chosen cell."""
    pairs = {pair.candidate.arm: pair for pair in selection.here}
    st.subheader("Outputs", anchor=False)
    if not pairs:
        st.caption("No candidate was measured in this cell.")
        return
    arm_column, page_column, _ = st.columns([1.6, 1.2, 2.4])
    with arm_column:
        arm = url_widgets.choose(url_params.AGAINST, list(pairs))
    agreement = data.agreement(selection.comparison, pairs[arm])
    differing = [compared for compared in agreement.pairs if not compared.same]
    most = len(differing)
    pages = [f"{at + 1} to {min(at + _PAGE_SIZE, most)} of {most}" for at in range(0, most, _PAGE_SIZE)]
    with page_column:
        page = url_widgets.choose(url_params.PROMPTS, pages) if pages else ""
    url_widgets.report_missing(url_params.AGAINST, url_params.PROMPTS)
    st.markdown(_sentence(agreement, arm, selection.baseline))
    if pages:
        first = pages.index(page) * _PAGE_SIZE
        by_prompt = {texts.prompt_id: texts for texts in differing[first : first + _PAGE_SIZE]}
        for row in data.texts(data.runs_at([pairs[arm]]), tuple(by_prompt)).to_dict("records"):
            with st.container(border=True):
                _show_prompt(row, by_prompt[row["prompt_id"]], selection.baseline, arm)


def _sentence(agreement: Agreement, arm: str, baseline: str) -> str:
    """Describe how many prompts agree, where the others begin to differ, and how many outputs are repetitive."""
    same = agreement.same_share
    if same is None:
        sentence = "Outputs are not compared here: they were sampled, or no prompt was answered by both arms."
        return f"{sentence} {_degenerate(agreement, arm, baseline)}"
    ends = [percentage(end) for end in (same.low, same.high) if end is not None]
    bounds = f" (95 % CI {' to '.join(ends)})" if len(ends) == 2 else ""
    sentence = (
        f"**{percentage(same.value)}** of {count(len(agreement.pairs), 'prompt')} got the same greedy output from "
        f"{literal(arm)} as from {literal(baseline)}{bounds}."
    )
    exact, estimated = agreement.median_first_differing_token, agreement.median_estimated_first_differing_token
    if estimated is not None:
        about = "" if exact is not None else "about "
        sentence += f" The others differ from {about}token {estimated + 1:.0f} on (median)."
    return f"{sentence} {_degenerate(agreement, arm, baseline)}"


def _degenerate(agreement: Agreement, arm: str, baseline: str) -> str:
    ours, theirs = agreement.candidate_degenerate_share, agreement.baseline_degenerate_share
    if ours is None or theirs is None:
        return "Outputs are too short to judge whether they are repetitive."
    return f"Repetitive outputs: {percentage(ours)} of {literal(arm)}, {percentage(theirs)} of {literal(baseline)}."


def _show_prompt(row: Mapping[Any, Any], where: Texts, baseline: str, candidate: str) -> None:
    """Show the prompt, the common beginning of both outputs, and each output from the first difference on."""
    at = where.first_differing_character
    st.caption(f"Prompt {literal(row['prompt_id'])}")
    st.code(_shown(_text(row["prompt"]), _MAX_PROMPT), language=None, wrap_lines=True)
    ours, theirs = _text(row["baseline_output"]), _text(row["candidate_output"])
    parts = at or 0
    if parts:
        st.caption(f"Both begin with the same {count(parts, 'character')}{_token(where)}:")
        st.code(_ending(ours[:parts], _MAX_SHARED), language=None, wrap_lines=True)
    for column, arm, text in zip(st.columns(2), (baseline, candidate), (ours, theirs), strict=True):
        with column:
            st.caption(f"{literal(arm)} continues" if parts else literal(arm))
            rest = text[parts:]
            if rest:
                st.code(_shown(rest, _MAX_REST), language=None, wrap_lines=True)
            else:
                st.caption(":gray[(ends here)]")


def _token(where: Texts) -> str:
    """Return the first differing token, counted from 1."""
    if where.first_differing_token is not None:
        return f" and differ from token {where.first_differing_token + 1}"
    if where.estimated_first_differing_token is not None:
        return f" and differ from about token {where.estimated_first_differing_token + 1}"
    return ""


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _shown(text: str, most: int) -> str:
    left = len(text) - most
    return text if left <= 0 else f"{text[:most]} … ({left:,} more characters)"


def _ending(text: str, most: int) -> str:
    left = len(text) - most
    return text if left <= 0 else f"({left:,} characters before) … {text[-most:]}"
