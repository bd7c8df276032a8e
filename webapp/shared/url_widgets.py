"""The one way to choose by a URL parameter (`webapp.shared.url_params`), and what a link asks for in vain.

A parameter is bound to one kind of widget, on every page that has it, so a link carries the choice: to a selectbox
(`choose`), to a list of which several may be chosen (`choose_many`, a repeated parameter) or to a day (`choose_day`). A
value that a link asks for and that is not there any more is said beside the widget.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any

import streamlit as st

from webapp.server.first_paint import PAGE
from webapp.shared.text import literal
from webapp.shared.url_params import BEGUN_FROM, BEGUN_TO, SEPARATOR, Param

#: Key in the session's state: by page, the parameters that were chosen by there so far.
_HAD = "link-had"


def choose(param: Param, options: Sequence[str], *, help_text: str | None = None) -> str:
    """The chosen option; the first one where nothing, or nothing that is there, was asked for."""
    new = param.key not in st.session_state
    asked = st.session_state.get(param.key) or st.query_params.get(param.key)
    there = _there(asked, options)
    if asked and there is None:
        st.session_state[missing_key(param.key)] = asked
    if there is None and param.always_in_url:
        there = options[0]
    if there is not None:
        if new and param.always_in_url:
            _put_into_url(param, there)
        st.session_state[param.key] = there
    elif param.key in st.session_state:
        del st.session_state[param.key]
    chosen: str | None = st.selectbox(
        param.label,
        list(options),
        index=None if param.always_in_url else 0,
        **bound(param.key),
        on_change=forget_missing,
        args=(param,),
        help=help_text,
    )
    return chosen or options[0]


def choose_many(
    param: Param,
    options: Sequence[str],
    *,
    first: Sequence[str] = (),
    help_text: str | None = None,
    placeholder: str | None = None,
    show: bool = True,
    on_change: Any = None,
) -> tuple[str, ...]:
    """The chosen options, none where none was asked for; `first` where the link says nothing at all.

    Without `show` there is no widget, and nothing is chosen, but what a link asks for in vain is still said.
    """
    new = param.key not in st.session_state
    asked = st.query_params.get_all(param.key) if new else list(st.session_state[param.key])
    found = {each: _there(each, options) for each in asked}
    if lost := [each for each, there in found.items() if there is None]:
        st.session_state[missing_key(param.key)] = ", ".join(lost)
    if not show:
        return ()
    chosen = list(dict.fromkeys(there for there in found.values() if there is not None)) or (list(first) if new else [])
    if new and chosen != asked:
        st.query_params[param.key] = chosen
        if asked:
            st.rerun()
    st.session_state[param.key] = chosen
    picked: list[str] = st.multiselect(
        param.label,
        list(options),
        **bound(param.key),
        on_change=on_change or forget_missing,
        args=(param,),
        help=help_text,
        placeholder=placeholder or "any",
    )
    return tuple(picked)


def choose_day(param: Param, *, help_text: str | None = None) -> date | None:
    """A day, or None. A link whose day is none is said."""
    if param.key not in st.session_state and (asked := st.query_params.get(param.key)):
        try:
            date.fromisoformat(asked)
        except ValueError:
            st.session_state[missing_key(param.key)] = asked
    picked: date | None = st.date_input(
        param.label,
        None,
        **bound(param.key),
        on_change=forget_missing,
        args=(param,),
        format="YYYY-MM-DD",
        help=help_text,
    )
    return picked


def reset(values: Mapping[Param, Any]) -> None:
    """In a callback: put these values where their widgets are, and forget what was asked for in vain."""
    for param, value in values.items():
        forget_missing(param)
        if param.key in st.session_state:
            st.session_state[param.key] = value


def write(param: Param, *, placeholder: str, help_text: str) -> str:
    """What the reader has written, which the link carries; empty for nothing."""
    written: str = st.text_input(param.label, **bound(param.key), placeholder=placeholder, help=help_text)
    return written.strip()


def note_missing(param: Param, options: Sequence[str]) -> None:
    """Before its widget is made: whether the link asks for what is not among the options, for `say_missing`."""
    if param.key not in st.session_state and _there(asked := st.query_params.get(param.key), options) is None and asked:
        st.session_state[missing_key(param.key)] = asked


def say_missing(*params: Param) -> None:
    """One sentence for each value that the link asked for in vain; gone once the reader has chosen another."""
    for param in params:
        if asked := st.session_state.get(missing_key(param.key)):
            st.warning(
                f"This link asks for the {param.noun} {literal(asked)}, which is not here (any more). "
                f"Shown instead: {literal(_shown(param))}.",
                icon=":material/link_off:",
            )


def _shown(param: Param) -> str:
    value = st.session_state.get(param.key)
    if isinstance(value, list):
        return ", ".join(value) or "any"
    return str(value or ("any day" if param in (BEGUN_FROM, BEGUN_TO) else "the first one"))


def _there(asked: str | None, options: Sequence[str]) -> str | None:
    """The option that is asked for; a bare job id is enough for a job."""
    if asked in options:
        return asked
    return next((option for option in options if asked and option.endswith(SEPARATOR + asked)), None)


def _put_into_url(param: Param, value: str) -> None:
    """A bound widget writes what its reader changes; what the page itself chose is written here, before it is bound.

    A widget that finds something else in the URL at its birth takes it out: so that is replaced in a run of its own.
    """
    asked = st.query_params.get(param.key)
    if asked != value:
        st.query_params[param.key] = value
        if asked:
            st.rerun()


def forget_missing(param: Param) -> None:
    st.session_state.pop(missing_key(param.key), None)


def show_tabs(param: Param, parts: Mapping[str, Callable[[], None]]) -> None:
    """`parts`: what shows each tab, by its name. The first is open where neither the link nor the reader chose one."""
    note_missing(param, list(parts))
    tabs = st.tabs(list(parts), **bound(param.key))
    say_missing(param)
    for tab, show_part in zip(tabs, parts.values(), strict=True):
        if tab.open:
            with tab:
                show_part()


def bound(key: str) -> dict[str, Any]:
    """Of a widget whose value the URL carries: it belongs to the view of the page that is shown."""
    st.session_state.setdefault(_HAD, {}).setdefault(st.session_state.get(PAGE), set()).add(key)
    return {"key": key, "bind": "query-params"}


def missing_key(key: str) -> str:
    """In the session's state: what was asked for in vain for this parameter."""
    return f"missing-{key}"


def follow_link(page: str) -> None:
    """On a page that was just opened: a link tells all of its view, so what was chosen there before counts no longer.

    On its way back a browser passes through URLs of a page with another one's parameters: these are no links. Between
    pages that have a parameter in common Streamlit tells of no link: what was chosen for the rest stays.
    """
    had: dict[str, set[str]] = st.session_state.get(_HAD, {})
    here, asked = had.get(page, set()), set(st.query_params) & set().union(*had.values())
    if asked and (not here or asked & here):
        for key in here | asked:
            st.session_state.pop(key, None)
            st.session_state.pop(missing_key(key), None)
