"""Series: a wall of all series with their states, one of them over time, and two of its nights side by side."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from access.web import visitor
from jobs.series import store
from jobs.series.store import Alarm, Night, Series
from lab.metrics.catalogue import BY_NAME
from lab.metrics.number_format import ratio
from lab.roles import Change
from webapp.charts import series as charts
from webapp.charts.panels import Figure
from webapp.pages.series import figures
from webapp.shared import published_data, url_params, url_widgets
from webapp.shared.cards import Colour
from webapp.shared.errors import show_user_errors
from webapp.shared.figures import colour_mode, show_figures, show_panels
from webapp.shared.tables import Column, columns, show_table
from webapp.shared.text import count, literal, moment
from webapp.shared.url_params import JOB, View, job_label, page_file

_COLUMNS = columns(
    "speedup",
    "low",
    "high",
    "engine_version",
    "hardware",
    "job_id",
    pinned="due",
    due=Column("Due (UTC)"),
    arm=Column("Arm"),
    label=Column("Commit"),
    why=Column("State", width="medium"),
    word=Column("Finding"),
    length=Column(BY_NAME["acceptance_length"].label, alignment="right"),
    baseline_tok_per_s=Column("Baseline (tok/s)", "%.1f"),
)
_SHOWN = [
    *("due", "arm", "label", "why", "speedup", "low", "high", "word", "length"),
    *("baseline_tok_per_s", "engine_version", "hardware"),
]


def show_page() -> None:
    st.title("Series", anchor=False)
    with show_user_errors():
        every = store.all_series(published_data.engine())
        if not every:
            st.info(
                "A series measures a study each night and raises an alarm when it has become worse. Add one with "
                '`drafthouse series add STUDY --every "day at 02:00"`.',
                icon=":material/timeline:",
            )
            st.stop()
        alarms = [alarm for alarm in store.alarms(published_data.engine()) if alarm.is_open]
        nights = {each.series: store.nights(published_data.engine(), each.series) for each in every}
        show_wall(every, nights, alarms)
        name = url_widgets.choose(url_params.SERIES, [each.series for each in every])
        url_widgets.report_missing(url_params.SERIES)
        view = View("series", {url_params.SERIES.key: (name,)})
        show_alarms([alarm for alarm in alarms if alarm.series == name])
        drawn = figures.figures(view.parameters, colour_mode())
        for is_wide in (True, False):
            show_figures([figure for figure in drawn if figure.is_wide == is_wide], colour_mode(), view)
        show_pairs(next(each for each in every if each.series == name), nights[name])
        rows = figures.table(nights[name])
        shown = [name for name in (*_SHOWN, "job_id") if name != "label" or rows["label"].any()]
        show_table(rows[shown].iloc[::-1], _COLUMNS, "Nights, newest first", view, "nights")


def show_wall(every: Sequence[Series], nights: dict[str, list[Night]], alarms: Sequence[Alarm]) -> None:
    """Show a small multiple of each arm of each series with its state; those with an alarm come first."""
    alarmed = {alarm.series for alarm in alarms}
    with st.grid(4, min_column_width=260, gap="small"):
        for each in sorted(every, key=lambda each: each.series not in alarmed):
            arms = list(dict.fromkeys(night.arm for night in nights[each.series]))
            for arm in arms or [""]:
                of_arm = [night for night in nights[each.series] if night.arm == arm]
                with st.container(border=True, height="stretch", gap="xxsmall"):
                    _show_small(each, of_arm, arm if len(arms) > 1 else "", alarmed)


def _show_small(each: Series, nights: Sequence[Night], arm: str, alarmed: set[str]) -> None:
    word, colour = _state(each, nights, alarmed)
    with st.container(horizontal=True, horizontal_alignment="distribute"):
        query = {url_params.SERIES.key: each.series}
        st.page_link(page_file("series"), label=literal(each.series), query_params=query)
        st.badge(word, color=colour)
    rows = figures.table(nights)
    if rows["speedup"].notna().any():
        panel = ("", charts.small(rows, colour_mode()))
        show_panels(Figure(f"wall-{each.series}-{arm}", each.series, "", (), (panel,), rows), colour_mode())
    st.caption(" · ".join(filter(None, (literal(arm), _last(nights)))))


def _state(each: Series, nights: Sequence[Night], alarmed: set[str]) -> tuple[str, Colour]:
    last = next((night for night in reversed(nights) if night.again_of is None), None)
    if each.series in alarmed:
        return "alarm", "red"
    if each.paused_at is not None:
        return "paused", "gray"
    if last is None:
        return "no night yet", "gray"
    if last.state in ("queued", "measured"):
        return ("running", "blue") if last.state == "queued" else ("fine", "green")
    return last.state, "orange"


def _last(nights: Sequence[Night]) -> str:
    measured = [night for night in nights if night.again_of is None and night.state == "measured"]
    if not measured:
        return "no night has a value yet"
    last = measured[-1]
    return (
        f"{literal(ratio(last.speedup, last.low, last.high))} on {moment(last.due_at)}, {count(len(measured), 'night')}"
    )


def show_alarms(alarms: Sequence[Alarm]) -> None:
    """Show the open alarms; whoever may change the series can acknowledge each with a note."""
    for alarm in alarms:
        with st.container(horizontal=True, vertical_alignment="bottom"):
            st.error(f"{moment(alarm.raised_at)}: {literal(alarm.sentence)}", icon=":material/notifications_active:")
            if not visitor.allowed_any(Change.SERIES):
                continue
            key = f"note-{alarm.alarm_id}"
            note = st.text_input(
                "Note", key=key, placeholder="why it is known", label_visibility="collapsed", width=240
            )
            if st.button("Acknowledge", key=f"acknowledge-{alarm.alarm_id}", disabled=not note):
                store.acknowledge(published_data.engine(), alarm.alarm_id, note, actor=visitor.actor())
                st.rerun()


def show_pairs(of: Series, nights: Sequence[Night]) -> None:
    """Link two nights of each arm in Compare: by default the one that fell last, else the last, and the one before."""
    studies = published_data.studies_with_results()
    names = dict(zip(studies["job_id"], studies["study_name"], strict=True))
    arms = list(dict.fromkeys(night.arm for night in nights))
    for arm in arms:
        pair = _pair([night for night in nights if night.arm == arm])
        if pair is None:
            continue
        before, after = pair
        label = job_label(names.get(after.job_id, of.study), after.job_id or "")
        whose = f" of {literal(arm)}" if len(arms) > 1 else ""
        st.page_link(
            page_file("compare"),
            label=f"{moment(before.due_at)} and {moment(after.due_at)}{whose} side by side in Compare",
            icon=":material/compare_arrows:",
            query_params={JOB.key: before.job_id or "", url_params.WITH.key: label, url_params.BASELINE.key: arm},
        )


def _pair(nights: Sequence[Night]) -> tuple[Night, Night] | None:
    measured = [night for night in nights if night.again_of is None and night.state == "measured" and night.job_id]
    if len(measured) < 2:
        return None
    fallen = [
        place for place, night in enumerate(measured) if "fall" in (night.speedup_finding, night.acceptance_finding)
    ]
    at = max(fallen[-1] if fallen else len(measured) - 1, 1)
    return measured[at - 1], measured[at]


if __name__ == "__main__":
    show_page()
