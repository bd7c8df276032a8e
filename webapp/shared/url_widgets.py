"""Widgets and tabs bound to URL parameters (`webapp.shared.url_params`); reports values that no longer exist.

A parameter is bound to the same kind of widget on every page, so a link carries the choice: a selectbox (`choose`), a
multiselect (`choose_many`, a repeated parameter), a day (`choose_day`), a text (`write`) or tabs (`show_tabs`).

A link within the app is followed to the view that it names, even if its page showed another view before. A page opened
without parameters is as it was left: Streamlit keeps for a session what its reader chose there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any

import streamlit as st

from webapp.server.first_paint import PAGE
from webapp.shared.text import literal
from webapp.shared.url_params import BEGUN_FROM, BEGUN_TO, SEPARATOR, Param

#: Key in the session's state: by page, the parameters bound there so far.
_HAD = "link-had"


def choose(param: Param, options: Sequence[str], *, help_text: str | None = None) -> str:
    """The chosen option; the first one if the link has no value, or one that no longer exists."""
    new = param.key not in st.session_state
    wanted = st.session_state.get(param.key) or st.query_params.get(param.key)
    option = _option(wanted, options)
    if wanted and option is None:
        st.session_state[missing_key(param.key)] = wanted
    if option is None and param.always_in_url:
        option = options[0]
    if option is not None:
        if new and param.always_in_url:
            _put_into_url(param, option)
        st.session_state[param.key] = option
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
    """The chosen options; `first` if the link has no value.

    Without `show` there is no widget and the result is empty, but missing values of the link are still reported.
    """
    new = param.key not in st.session_state
    wanted = st.query_params.get_all(param.key) if new else list(st.session_state[param.key])
    option_of = {name: _option(name, options) for name in wanted}
    if lost := [name for name, option in option_of.items() if option is None]:
        st.session_state[missing_key(param.key)] = ", ".join(lost)
    if not show:
        return ()
    chosen = list(dict.fromkeys(option for option in option_of.values() if option is not None)) or (
        list(first) if new else []
    )
    if new and chosen != wanted:
        st.query_params[param.key] = chosen
        if wanted:
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
    """A day, or None. An invalid day in the link is reported."""
    if param.key not in st.session_state and (wanted := st.query_params.get(param.key)):
        try:
            date.fromisoformat(wanted)
        except ValueError:
            st.session_state[missing_key(param.key)] = wanted
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
    """In a callback: set these values in their widgets, and drop the reports of missing values."""
    for param, value in values.items():
        forget_missing(param)
        if param.key in st.session_state:
            st.session_state[param.key] = value


def write(param: Param, *, placeholder: str, help_text: str) -> str:
    """The text that the reader entered, or an empty string."""
    written: str = st.text_input(param.label, **bound(param.key), placeholder=placeholder, help=help_text)
    return written.strip()


def note_missing(param: Param, options: Sequence[str]) -> None:
    """Before the widget is made: remember a value of the link that is not among the options, for `report_missing`."""
    if (
        param.key not in st.session_state
        and _option(wanted := st.query_params.get(param.key), options) is None
        and wanted
    ):
        st.session_state[missing_key(param.key)] = wanted


def report_missing(*params: Param) -> None:
    """A warning for each value of the link that does not exist; gone once the reader has chosen another one."""
    for param in params:
        if wanted := st.session_state.get(missing_key(param.key)):
            st.warning(
                f"The {param.noun} {literal(wanted)} in this link does not exist (any more). "
                f"Shown instead: {literal(_shown(param))}.",
                icon=":material/link_off:",
            )


def _shown(param: Param) -> str:
    value = st.session_state.get(param.key)
    if isinstance(value, list):
        return ", ".join(value) or "any"
    return str(value or ("any day" if param in (BEGUN_FROM, BEGUN_TO) else "the first one"))


def _option(wanted: str | None, options: Sequence[str]) -> str | None:
    """The option that a link names, or None; a bare job id is enough for a job."""
    if wanted in options:
        return wanted
    return next((option for option in options if wanted and option.endswith(SEPARATOR + wanted)), None)


def _put_into_url(param: Param, value: str) -> None:
    """Write a value that the page chose itself into the URL, before the widget is bound.

    A bound widget writes only what its reader changes, and removes another value that it finds in the URL when it is
    created: that is replaced in a run of its own.
    """
    wanted = st.query_params.get(param.key)
    if wanted != value:
        st.query_params[param.key] = value
        if wanted:
            st.rerun()


def forget_missing(param: Param) -> None:
    st.session_state.pop(missing_key(param.key), None)


def show_tabs(param: Param, parts: Mapping[str, Callable[[], None]]) -> None:
    """Tabs of which only the open one is drawn. `parts`: the function that draws each tab, by its name."""
    note_missing(param, list(parts))
    tabs = st.tabs(list(parts), **bound(param.key))
    report_missing(param)
    for tab, show_part in zip(tabs, parts.values(), strict=True):
        if tab.open:
            with tab:
                show_part()


def bound(key: str) -> dict[str, Any]:
    """Arguments of a widget whose value the URL carries; they make it part of the view of the current page."""
    st.session_state.setdefault(_HAD, {}).setdefault(st.session_state.get(PAGE), set()).add(key)
    return {"key": key, "bind": "query-params"}


def missing_key(key: str) -> str:
    """Key in the session's state: the missing value of this parameter."""
    return f"missing-{key}"


def follow_link(page: str) -> None:
    """On a page that was just opened by a link: drop what was chosen there before, as a link holds its whole view.

    When a browser goes back, it passes through URLs of a page with another page's parameters: these are not links.
    Between pages with a parameter in common Streamlit does not show a link: other choices stay.
    """
    had: dict[str, set[str]] = st.session_state.get(_HAD, {})
    here, wanted = had.get(page, set()), set(st.query_params) & set().union(*had.values())
    if wanted and (not here or wanted & here):
        for key in here | wanted:
            st.session_state.pop(key, None)
            st.session_state.pop(missing_key(key), None)
