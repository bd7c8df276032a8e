"""Choosing several values of a parameter: `params.choose` for more than one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import streamlit as st

from webapp.params import Param
from webapp.text import literal


def choose_several(param: Param, options: Sequence[str], *, help_text: str | None = None) -> list[str]:
    """The chosen options in their own order; all of them where nothing, or nothing that is there, is chosen.

    What a link asks for and is not there is kept for `say_missing`.
    """
    asked = _asked(param)
    there = [option for option in options if option in asked]
    if gone := [one for one in asked if one not in options]:
        st.session_state[_gone_key(param)] = gone
    if asked:
        st.session_state[param.key] = there
    chosen = st.multiselect(
        param.label,
        list(options),
        key=param.key,
        bind="query-params",
        on_change=_forget,
        args=(param,),
        placeholder="All",
        help=help_text,
    )
    return [option for option in options if option in chosen] or list(options)


def say_missing(param: Param) -> None:
    """One sentence about what the link asked for in vain; gone once the reader has chosen."""
    if gone := st.session_state.get(_gone_key(param)):
        names = ", ".join(literal(one) for one in gone)
        st.warning(f"This link asks for the {param.noun} {names}, not here (any more).", icon=":material/link_off:")


def of(parameters: Mapping[str, Sequence[str]], param: Param, options: Sequence[str]) -> list[str]:
    """The same choice by a link's parameters."""
    asked = parameters.get(param.key, ())
    return [option for option in options if option in asked] or list(options)


def _asked(param: Param) -> list[str]:
    if param.key in st.session_state:
        return list(cast("Sequence[str]", st.session_state[param.key]))
    return st.query_params.get_all(param.key)


def _gone_key(param: Param) -> str:
    return f"missing-{param.key}"


def _forget(param: Param) -> None:
    st.session_state.pop(_gone_key(param), None)
