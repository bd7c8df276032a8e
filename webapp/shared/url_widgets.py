"""Widgets and tabs whose choice is in the URL (`webapp.shared.url_params`); reports values that no longer exist.

A parameter has the same kind of widget on every page, so a link carries the choice: a selectbox (`choose`), a
multiselect (`choose_many`, a repeated parameter), a day (`choose_day`), a text (`write`) or tabs (`show_tabs`).

The URL holds the whole view. A link, a reload or the browser's way back sets every widget to what the URL says, or to
its default; a widget that its reader changes is written into the URL at the end of the script (`view_in_url`). Links of
the navigation carry the view that each page was left with (`left_view`).

Streamlit's own binding is not used: it adds the parameters of the page before to each link, and removes them in an
entry of the browser's history, so that the way back leads to a view that nobody has seen.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from typing import Any

import streamlit as st
from streamlit.runtime.scriptrunner import RerunException, get_script_run_ctx

from webapp.shared import url_params
from webapp.shared.text import literal
from webapp.shared.url_params import BEGUN_FROM, BEGUN_TO, SEPARATOR, Param

#: Keys in the session's state: the values of this run's widgets in the URL, None for a default; the parameters that
#: each page was left with; the parameters of the request for this run; the last URLs of runs, each with the time until
#: which the browser may send it; whether a link of ours led to this run; whether a callback changed the study, and
#: whether this run follows such a change; the page that was run last.
_SHOWN, _LEFT, _ASKED, _WRITTEN, _LINKED = "link-shown", "link-left", "link-asked", "link-written", "link-linked"
_CHANGING, _CHANGED, _PAGE = "link-study-changing", "link-study-changed", "link-page"
_KEYS = frozenset(param.key for param in url_params.ALL) | {
    url_params.ALL_OUTPUTS,
    url_params.DRAFT_COST,
    url_params.ANY_WORKLOAD,
    url_params.HIDDEN,
}
#: A browser with a slow connection may still send the URL from before the last change for this long.
_LATEST_S = 10.0
#: The browser gets no more options than this: of a longer list the first ones, or those with what its reader has typed.
MOST_OFFERED = 200
Parameters = dict[str, list[str]]


def begin(page: str) -> None:
    """Follow a link to its view; call this at the beginning of each run of a page."""
    opened = st.session_state.get(_PAGE) != page
    st.session_state[_PAGE] = page
    context = get_script_run_ctx()
    is_back = context is not None and context.is_history_navigation
    is_first = _WRITTEN not in st.session_state
    is_link = is_back or not _is_late(_in_url())
    st.session_state[_SHOWN], st.session_state[_ASKED] = {}, _in_url()
    st.session_state[_CHANGED] = st.session_state.pop(_CHANGING, False)
    st.session_state[_LINKED] = (opened or is_link) and not (is_back or is_first)
    if opened or is_link:
        for key in _KEYS:
            st.session_state.pop(key, None)
            st.session_state.pop(missing_key(key), None)
        _note(_in_url())  # here, because a page that ends early does not get further


@contextmanager
def view_in_url(page: str) -> Iterator[None]:
    """Wrap the script of a page: at its end the URL describes what the widgets show.

    After `st.stop` nothing can be written any more: a page that ends early leaves the URL as it was, but for a study
    that the reader has just chosen.
    """
    if is_study_changed():
        _name_study()
    st.session_state.setdefault(_LEFT, {})[page] = _in_url()  # of a page that is left before its script has ended
    try:
        yield
    except RerunException:
        st.session_state[_CHANGING] = is_study_changed()  # the page draws itself again after the same change
        raise
    _write(page)


def _name_study() -> None:
    key = url_params.JOB.key
    study = st.session_state[_SHOWN].get(key)
    st.query_params.from_dict({**_in_url(), key: study or []})
    _note(_in_url())


def _note(view: Parameters) -> None:
    """Remember the URL of this run, and until when the browser may still send the one before."""
    noted, now_s = st.session_state.get(_WRITTEN, ()), time.monotonic()
    if not noted or noted[-1][0] != view:
        before = ((earlier, min(until_s, now_s + _LATEST_S)) for earlier, until_s in noted if until_s > now_s)
        st.session_state[_WRITTEN] = (*before, (view, math.inf))


def _is_late(view: Parameters) -> bool:
    """Return whether the browser requested this run before it got the last URL, so that no link was followed."""
    return any(view == noted and time.monotonic() < until_s for noted, until_s in st.session_state.get(_WRITTEN, ()))


def _write(page: str) -> None:
    """Write the URL, without parameters of widgets that this run did not draw.

    The browser is sent a URL only if it shows another one. If its reader has followed a link meanwhile, the browser
    applies the URL to the new page, which therefore always sends its own.
    """
    shown: Mapping[str, list[str] | None] = st.session_state[_SHOWN]
    kept = {key: values for key, values in _in_url().items() if key not in shown and key not in _KEYS}
    view = kept | {key: values for key, values in shown.items() if values}
    is_changed_by_page = _in_url() != st.session_state[_ASKED]
    in_browser = _in_url() if is_changed_by_page else st.session_state[_WRITTEN][-1][0]
    if view != in_browser or st.session_state[_LINKED]:
        st.query_params.from_dict(_in_url() if view == _in_url() else view)  # another order would make it another URL
    _note(view)
    st.session_state[_LEFT][page] = view


def _in_url() -> Parameters:
    return {key: st.query_params.get_all(key) for key in st.query_params}


def left_view(page: str, study: str | None) -> Parameters:
    """Return the parameters of a link to the page as its reader left it, with this study."""
    left: Parameters = st.session_state.get(_LEFT, {}).get(page, {})
    dropped = {url_params.JOB.key, *url_params.NOT_IN_NAVIGATION}
    of_link = "".join(left.get(url_params.JOB.key, ()))
    if url_params.job_id_of(of_link) != url_params.job_id_of(study or ""):
        dropped |= url_params.OF_STUDY
    rest = {key: values for key, values in left.items() if key not in dropped}
    return ({url_params.JOB.key: [study]} if study else {}) | rest


def record(key: str, value: str | Sequence[str] | None) -> None:
    """Record the value of a widget for the URL; None or empty if it shows its default."""
    shown: dict[str, list[str] | None] = st.session_state.setdefault(_SHOWN, {})
    shown[key] = [value] if isinstance(value, str) and value else list(value or ()) or None


def seed(key: str, read: Callable[[str], Any], default: Any) -> None:
    """Set a widget that the caller creates to the value in the URL. `read` may raise ValueError."""
    if key not in st.session_state:
        try:
            text = st.query_params.get(key)
            st.session_state[key] = default if text is None else read(text)
        except ValueError:
            st.session_state[key] = default


def study_changed() -> None:
    """Note in a callback that the study changed: values missing in it were not in a link, and are not reported."""
    st.session_state[_CHANGING] = True


def is_study_changed() -> bool:
    return bool(st.session_state.get(_CHANGED))


def choose(param: Param, options: Sequence[str], *, help_text: str | None = None) -> str:
    """Return the chosen option; the first one if the link has no value, or one that no longer exists."""
    _set_option(param, options)
    chosen = st.selectbox(
        param.label,
        offered(param, options, [st.session_state[param.key]]),
        key=param.key,
        accept_new_options=len(options) > MOST_OFFERED,
        on_change=forget_missing,
        args=(param,),
        help=help_text,
    )
    assert chosen is not None  # noqa: S101 - an index is set, so there is no empty choice
    record_option(param, chosen, options, is_default=chosen == options[0])
    return chosen


def _set_option(param: Param, options: Sequence[str]) -> None:
    """Set the widget to the option chosen by the reader or the link, or to the first one."""
    wanted = st.session_state.get(param.key) or st.query_params.get(param.key)
    option = find_option(wanted, options) or searched(param, wanted, options)
    if wanted and option is None and is_searched(param):
        option = find_option(st.query_params.get(param.key), options)
    elif wanted and option is None:
        _note_missing(param, wanted)
    st.session_state[param.key] = option or options[0]


def record_option(param: Param, chosen: str, options: Sequence[str], *, is_default: bool = False) -> None:
    """Record the option for the URL; a bare id in the link is kept."""
    in_url = st.query_params.get(param.key)
    same = in_url if find_option(in_url, options) == chosen else chosen
    record(param.key, None if is_default else same)


def choose_many(
    param: Param,
    options: Sequence[str],
    *,
    first: Sequence[str] = (),
    help_text: str | None = None,
    placeholder: str | None = None,
    show: bool = True,
    keeps_missing: bool = False,
    on_change: Any = None,
    show_option: Callable[[str], str] = str,
) -> tuple[str, ...]:
    """Return the chosen options; `first` if the link has no value.

    Values that do not exist are reported and left out; with `keeps_missing` they stay chosen if there is no other, so
    that nothing is shown rather than everything. Without `show` there is no widget, unless for such a value.
    `show_option` returns an option's text in the list.
    """
    new = param.key not in st.session_state
    wanted = st.query_params.get_all(param.key) if new else list(st.session_state[param.key])
    options_of = {name: find_option(name, options) or searched(param, name, options) for name in wanted}
    found = list(dict.fromkeys(option for option in options_of.values() if option is not None))
    lost = [name for name, option in options_of.items() if option is None and not is_searched(param, name)]
    kept = lost if keeps_missing and not found else []
    if lost and (found or not keeps_missing):
        _note_missing(param, ", ".join(lost))
    if not show and not kept:
        return ()
    st.session_state[param.key] = found or kept or (list(first) if new else [])
    picked: list[str] = st.multiselect(
        param.label,
        offered(param, options, [*found, *kept, *first]),
        key=param.key,
        accept_new_options=len(options) > MOST_OFFERED,
        on_change=on_change or forget_missing,
        args=(param,),
        help=help_text,
        placeholder=placeholder or "any",
        format_func=show_option,
    )
    record(param.key, None if picked == list(first) else picked)
    return tuple(picked)


def choose_day(param: Param) -> date | None:
    """Return the chosen day, or None. An invalid day in the link is reported."""
    if param.key not in st.session_state and (wanted := st.query_params.get(param.key)):
        try:
            date.fromisoformat(wanted)
        except ValueError:
            _note_missing(param, wanted)
    seed(param.key, date.fromisoformat, None)
    picked: date | None = st.date_input(
        param.label,
        None,
        key=param.key,
        on_change=forget_missing,
        args=(param,),
        format="YYYY-MM-DD",
    )
    record(param.key, None if picked is None else picked.isoformat())
    return picked


def reset(values: Mapping[Param, Any]) -> None:
    """Set these values in their widgets, and drop the reports of missing values. A callback."""
    for param, value in values.items():
        forget_missing(param)
        if param.key in st.session_state:
            st.session_state[param.key] = value


def write(param: Param, *, placeholder: str, help_text: str) -> str:
    """Return the text that the reader entered, or an empty string."""
    seed(param.key, str, "")
    written: str = st.text_input(param.label, key=param.key, placeholder=placeholder, help=help_text)
    record(param.key, written)
    return written.strip()


def toggle(label: str, key: str, *, help_text: str | None = None, **options: Any) -> bool:
    """Return whether the reader or the link has switched it on; `key` is also its name in the link."""
    seed(key, lambda text: text == "true", default=False)
    is_on: bool = st.toggle(label, key=key, help=help_text, **options)
    record(key, "true" if is_on else None)
    return is_on


def report_missing(*params: Param) -> None:
    """Show a warning for each value of the link that does not exist, until the reader chooses another one."""
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


def find_option(wanted: str | None, options: Sequence[str]) -> str | None:
    """Return the option that a link names, or None; a bare job id is enough for a job."""
    if wanted in options:
        return wanted
    return next((option for option in options if wanted and option.endswith(SEPARATOR + wanted)), None)


def searched(param: Param, typed: str | None, options: Sequence[str]) -> str | None:
    """Return the only option of a long list with this text in it. If several have it, these are offered next."""
    if not typed or len(options) <= MOST_OFFERED:
        return None
    matching = _matching(typed, options)
    if len(matching) > 1:
        st.session_state[_search_key(param)] = typed
        return None
    return matching[0] if matching else None


def is_searched(param: Param, typed: str | None = None) -> bool:
    """Return whether several options have the text that was typed last; `typed`: whether it was this text."""
    found: str | None = st.session_state.get(_search_key(param))
    return bool(found) if typed is None else found == typed


def offered(param: Param, options: Sequence[str], chosen: Sequence[str | None]) -> list[str]:
    """Return what a list offers: the chosen options, and the first ones of a long list."""
    typed: str | None = st.session_state.get(_search_key(param))
    named = [option for option in chosen if option is not None]
    if len(options) <= MOST_OFFERED:
        return list(dict.fromkeys([*options, *named]))
    if typed:
        matching = _matching(typed, options)
        st.caption(f"{len(matching):,} have “{literal(typed)}”: choose one of them.")
        return list(dict.fromkeys([*matching[:MOST_OFFERED], *named]))
    return list(dict.fromkeys([*options[:MOST_OFFERED], *named]))


def _matching(typed: str, options: Sequence[str]) -> list[str]:
    return [option for option in options if typed.casefold() in option.casefold()]


def _search_key(param: Param) -> str:
    return f"searched-{param.key}"


def _note_missing(param: Param, wanted: str) -> None:
    if not is_study_changed():
        st.session_state[missing_key(param.key)] = wanted


def forget_missing(param: Param) -> None:
    """Forget what was missing or typed: the reader has chosen something else. A callback."""
    st.session_state.pop(missing_key(param.key), None)
    st.session_state.pop(_search_key(param), None)


def show_tabs(param: Param, parts: Mapping[str, Callable[[], None]]) -> None:
    """Show tabs of which only the open one is drawn. `parts`: the function that draws each tab, by its name."""
    names = list(parts)
    _set_option(param, names)
    tabs = st.tabs(names, key=param.key, on_change=lambda: forget_missing(param))
    record(param.key, None if st.session_state[param.key] == names[0] else st.session_state[param.key])
    report_missing(param)
    for tab, show_part in zip(tabs, parts.values(), strict=True):
        if tab.open:
            with tab:
                show_part()


def missing_key(key: str) -> str:
    """Return the session's key of this parameter's missing value."""
    return f"missing-{key}"
