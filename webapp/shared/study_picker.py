"""The study that pages show: the bar to choose it, empty states, caveats, and following a study while it runs.

The choice is the parameter `job` of the URL. Pages of one study show the newest with a comparison if none is chosen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

import duckdb
import pandas as pd
import streamlit as st

from jobs import queue
from jobs.table import ACTIVE, Job, State
from lab.errors import UserError
from lab.validity.checks.machine import OTHERS_PERCENT
from lab.validity.words import lost_words
from warehouse.app_db.engine import DATABASE_ERRORS
from webapp.shared import curating, published_data, url_params, url_widgets
from webapp.shared.cards import show_badge
from webapp.shared.errors import show_user_errors
from webapp.shared.text import count, literal
from webapp.shared.url_params import JOB, page_file

#: The newest jobs are offered even if they have no results.
_MAX_JOBS = 50
_MAX_LETTERS = 100
_REFRESH_EVERY = "3s"
#: The name of the model that this project ships.
REFERENCE_TARGET = "reference"
_STATES: dict[State, str] = {
    "queued": "is queued",
    "running": "is running, and its first run has not ended yet",
    "done": "is done, and its runs are not published yet",
    "failed": "failed",
    "cancelled": "was cancelled",
}


@dataclass(frozen=True)
class Bar:
    """Labels of the chosen study, and of the one that pages of one study show if none is chosen."""

    chosen: str | None
    default: str | None


def show_bar(*, is_of_study: bool) -> Bar:
    """Show the bar. `is_of_study`: the page shows one study, by default the newest with a comparison."""
    studies, jobs = _listed(_studies()), _jobs()
    default = default_study(studies)
    options = labels(studies, jobs)
    if not options:
        return Bar(None, None)
    chosen = _chosen(options, studies, default if is_of_study else None)
    with st.container(key="study-bar", horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown("**Study**", width="content")
        st.selectbox(
            JOB.label,
            url_widgets.offered(JOB, options, [chosen]),
            accept_new_options=len(options) > url_widgets.MOST_OFFERED,
            index=None,
            key=JOB.key,
            on_change=_changed,
            label_visibility="collapsed",
            placeholder="None chosen" if default is None else f"Latest study: {default}",
            width=480,
        )
        if chosen is not None:
            _show_state(url_params.job_id_of(chosen))
        failure = None if default is None or chosen not in (None, default) else newer_failure(studies, jobs, default)
        if failure is not None:
            _show_failure("A newer study", *failure)
    if chosen is None:
        url_widgets.record(JOB.key, None)
    else:
        url_widgets.record_option(JOB, chosen, options)
    url_widgets.report_missing(JOB)
    return Bar(chosen, default)


def default_study(studies: pd.DataFrame) -> str | None:
    """Return the label of the newest study that compares an arm with its baseline; None without a study.

    Without such a study it is the newest with valid runs, or else the newest. Imported ones only if none was measured
    here: whoever imports results chooses their name and their date.
    """
    if studies.empty:
        return None
    measured = studies[studies["origin"] == "measured"]
    studies = studies if measured.empty else measured
    comparing = studies[studies["is_comparison"]]
    return _newest(studies if comparing.empty else comparing)


def _newest(studies: pd.DataFrame) -> str:
    """Return the label of the newest study with valid runs, or else of the newest."""
    valid = studies[studies["runs_completed"] > studies["runs_invalid"]]
    first = (studies if valid.empty else valid).iloc[0]
    return url_params.job_label(first["study_name"], first["job_id"])


def labels(studies: pd.DataFrame, jobs: Sequence[Job]) -> list[str]:
    """Return studies with results and the newest jobs, the last submitted first."""
    of_jobs = {url_params.job_label(job.name, job.job_id): _utc(job.submitted_at) for job in jobs}
    since = min(of_jobs.values(), default=None)
    is_newer = 0 if since is None or studies.empty else int((_moments(studies) >= since).sum())
    newer = studies.head(is_newer)
    newer = newer if newer.empty else newer[~newer["job_id"].isin([job.job_id for job in jobs])]
    names = zip(newer["study_name"], newer["job_id"], _moments(newer), strict=True) if len(newer) else ()
    submitted = {url_params.job_label(name, job_id): _utc(at) for name, job_id, at in names} | of_jobs
    newest = sorted(submitted, key=lambda label: (submitted[label], label), reverse=True)
    return newest + labels_of(studies.iloc[is_newer:])


def labels_of(studies: pd.DataFrame) -> list[str]:
    return (studies["study_name"] + url_params.SEPARATOR + studies["job_id"]).tolist() if len(studies) else []


def _moments(studies: pd.DataFrame) -> pd.Series:
    return pd.to_datetime(studies["submitted_at"], utc=True)


def newer_failure(studies: pd.DataFrame, jobs: Sequence[Job], shown: str | None) -> tuple[Job, str] | None:
    """Return the newest job that lost runs and has nothing to compare, if it is newer than the study `shown`, and how
    it ended: `failed: OSError: ...`.
    """
    shown_id = None if shown is None else url_params.job_id_of(shown)
    if not studies.empty:
        studies = studies[studies["job_id"].isin([shown_id, *(job.job_id for job in jobs)])]
    by_id = {row["job_id"]: row for _, row in studies.iterrows()}
    known = by_id.get(shown_id)
    since = None if known is None else _utc(known["submitted_at"])
    for job in sorted(jobs, key=lambda job: job.submitted_at, reverse=True):
        if since is not None and _utc(job.submitted_at) <= since:
            return None
        if how := _ended_without_comparison(job, by_id.get(job.job_id)):
            return job, how
    return None


def _ended_without_comparison(job: Job, runs: pd.Series | None) -> str | None:
    """Say how a job ended, if it failed or lost runs, and no arm can be compared with the baseline; else None."""
    if job.state not in ("done", "failed") or (runs is not None and runs["is_comparison"]):
        return None
    if job.cause:
        return f"failed: {job.cause}"
    if runs is None:
        return "failed without an error message" if job.state == "failed" else None
    failed, completed, invalid = (int(runs[name]) for name in ("runs_failed", "runs_completed", "runs_invalid"))
    lost = lost_words(failed, invalid, failed + completed)
    lacks = "nothing to compare" if completed > invalid else "no valid run"
    return f"has {lacks}: {lost}" if lost else None


def _chosen(options: Sequence[str], studies: pd.DataFrame, default: str | None) -> str | None:
    """Set the widget to the study that the reader or the link has chosen, else to the default, and return it."""
    in_state = JOB.key in st.session_state
    named = st.session_state[JOB.key] if in_state else st.query_params.get(JOB.key)
    wanted = named if named or in_state else _only_filtered_study()
    option = url_widgets.find_option(wanted, options) or _newest_of_name(wanted, studies) or _unlisted(wanted)
    option = option or url_widgets.searched(JOB, wanted, options)
    if option is None and url_widgets.is_searched(JOB):
        option = url_widgets.find_option(st.query_params.get(JOB.key), options)
    elif named and option is None:  # Explore itself reports a study that only its filter names
        st.session_state[url_widgets.missing_key(JOB.key)] = named
    chosen: str | None = option or default
    st.session_state[JOB.key] = chosen
    if chosen and url_widgets.is_study_changed():
        st.session_state[url_params.SLICED["study"].key] = [chosen]
    return chosen


def _only_filtered_study() -> str | None:
    """Return the study of a link to Explore that has a single study, in its filter only."""
    named = st.query_params.get_all(url_params.SLICED["study"].key)
    return named[0] if len(named) == 1 and url_params.SEPARATOR in named[0] else None


def _newest_of_name(name: str | None, studies: pd.DataFrame) -> str | None:
    """Resolve a name as the command line does: the newest study with valid runs, or else the newest one."""
    named = studies[studies["study_name"] == name] if len(studies) else studies
    return None if named.empty else _newest(named)


def _unlisted(wanted: str | None) -> str | None:
    """Return the label, with the name of today, of an older job, or of a hidden or deleted study."""
    if not wanted:
        return None
    job_id = url_params.job_id_of(wanted)
    if (job := published_data.job(job_id)) is not None:
        return url_params.job_label(job.name, job_id)
    known, studies = curating.find(job_id), _studies()
    if known is not None and known.deleted_at is not None:
        return url_params.job_label(known.called or job_id, job_id)
    found = studies if studies.empty else studies[studies["job_id"] == job_id]
    return None if found.empty else url_params.job_label(found["study_name"].iloc[0], job_id)


def _changed() -> None:
    """Let Explore follow the bar; other choices stay if the new study offers them."""
    url_widgets.forget_missing(JOB)
    url_widgets.study_changed()


def _show_state(job_id: str) -> None:
    if (job := published_data.job(job_id)) is not None:
        (_show_live_badge if job.state in ACTIVE else show_badge)(job)
        return
    known = curating.find(job_id)
    is_deleted = known is not None and known.deleted_at is not None
    word, icon = ("deleted", ":material/delete:") if is_deleted else ("imported", ":material/upload_file:")
    st.badge(word, color="gray", icon=icon)


@st.fragment(run_every=_REFRESH_EVERY)
def _show_live_badge(job: Job) -> None:
    """Show a queued or running job's badge, updated until the page is redrawn."""
    with show_user_errors():
        show_badge(published_data.job_of_queue(published_data.engine(), job.job_id))


def _show_failure(which: str, job: Job, how: str) -> None:
    how = how if len(how) <= _MAX_LETTERS else f"{how[:_MAX_LETTERS]}…"
    st.page_link(
        page_file("jobs"),
        label=f"{which}, {literal(job.name)}, {literal(how)}",
        icon=":material/error:",
        query_params={JOB.key: url_params.job_label(job.name, job.job_id)},
        width="content",
    )


def _studies() -> pd.DataFrame:
    """Return the studies with results; none if the warehouse does not answer, which the page reports itself."""
    try:
        return pd.DataFrame() if published_data.publication() is None else published_data.studies_with_results()
    except (UserError, duckdb.Error):
        return pd.DataFrame()


def listed_studies() -> pd.DataFrame:
    """Return the studies with results that are not hidden."""
    return _listed(_studies())


def _listed(studies: pd.DataFrame) -> pd.DataFrame:
    """Return the studies that are not hidden."""
    return studies if studies.empty else studies[~studies["is_hidden"]]


def _jobs() -> list[Job]:
    """Return the newest jobs; none if the job table does not answer, which the page reports itself."""
    try:
        return queue.jobs(published_data.engine(), limit=_MAX_JOBS)
    except (UserError, *DATABASE_ERRORS):
        return []


def _utc(moment: datetime) -> datetime:
    stamp = pd.Timestamp(moment)
    return (stamp.tz_localize("UTC") if stamp.tzinfo is None else stamp.tz_convert("UTC")).to_pydatetime()


@contextmanager
def empty_state(title: str, text: str) -> Iterator[None]:
    """Show in a frame that there is nothing yet; the block adds what leads to something."""
    with st.container(border=True, horizontal_alignment="center"):
        st.space("medium")
        st.subheader(title, anchor=False, text_alignment="center")
        st.markdown(text, text_alignment="center")
        yield
        st.space("medium")


def show_empty_state() -> None:
    """Before the first run, explain how to get results and end the page."""
    with show_user_errors():
        if published_data.publication() is not None and not published_data.studies_with_results().empty:
            return
        active = queue.active(published_data.engine())
    if active:
        text = f"{literal(active[0].name)} is {active[0].state}. Its first run appears here seconds after it ends."
        with empty_state("No results yet: the first study is queued or running", text):
            st.page_link(page_file("jobs"), label="Watch it on the Jobs page", icon=":material/list_alt:")
    else:
        text = (
            "Submit a study and this page shows where a draft model pays and where it costs. "
            "The form starts with the demo study, which runs on any machine."
        )
        with empty_state("No results yet: nothing has been measured here", text):
            for job in _jobs()[:1]:
                if how := _ended_without_comparison(job, None):
                    _show_failure("The last study", job, how)
            if st.button("Submit the first study", type="primary", icon=":material/add_circle:"):
                st.switch_page(page_file("submit"))
    published_data.rerun_when_published(published_data.publication())
    st.stop()


def chosen_study() -> str:
    """Return the id of the study in the bar. Ends the page with the reason if it has no results (yet)."""
    chosen: str = st.session_state[JOB.key]
    job_id = url_params.job_id_of(chosen)
    if curating.show_gone(job_id):  # the warehouse may have it for some seconds more
        st.stop()
    studies = published_data.studies_with_results()
    if not studies["job_id"].eq(job_id).any():
        _show_without_results(job_id, default_study(_listed(studies)))
    return job_id


def _show_without_results(job_id: str, default: str | None) -> None:
    job = published_data.job(job_id)
    error = "" if job is None or not job.cause else f" ({literal(job.cause)})"
    verb = "is unknown here" if job is None else _STATES[job.state]
    has_failed = job is not None and job.state == "failed"
    show, icon = (st.error, ":material/error:") if has_failed else (st.info, ":material/hourglass_empty:")
    show(f"This study has no results: it {verb}{error}.", icon=icon)
    with st.container(horizontal=True):
        query = {JOB.key: job_id}
        st.page_link(page_file("jobs"), label="Its job", icon=":material/list_alt:", query_params=query)
        if default is not None:
            query = {JOB.key: default}
            label = f"Latest study: {literal(default)}"
            st.page_link(page_file("results"), label=label, icon=":material/monitoring:", query_params=query)
    published_data.rerun_when_published(published_data.publication())
    st.stop()


def show_caveats(runs: pd.DataFrame, job: Job | None) -> None:
    """Show what limits the results: a study still running, imported or lost runs, the reference model."""
    if job is not None and job.state in ACTIVE:
        st.info(
            f"This study is {job.state}: the page shows what is measured so far and updates itself.",
            icon=":material/progress_activity:",
        )
    tools = sorted(set(runs["tool"][runs["origin"] == "imported"].dropna()))
    if "drafthouse" in tools:
        tools.remove("drafthouse")
        st.caption(
            ":material/upload_file: Not measured here: imported from a folder that another Drafthouse exported. The "
            "page of a run says by whom, and from which job."
        )
    if tools:
        st.caption(
            f":material/upload_file: Imported from files of {literal(', '.join(tools))}: unknown values are empty, "
            "and checks that need them were skipped."
        )
    counted = runs[runs["is_counted"]]
    completed = counted["status"] == "completed"
    invalid = int((completed & (counted["is_valid"] == False)).sum())  # noqa: E712 - null is unknown, and stays in
    if lost := lost_words(int((~completed).sum()), invalid, len(counted)):
        why = "The tabs Checks and Failed runs on Results say why."
        left_out = f"Charts and comparisons leave them out{_without_valid(counted)}."
        st.warning(f"{lost}. {left_out} {why}", icon=":material/gpp_bad:")
    if busy := others_sentence(counted):
        st.warning(busy, icon=":material/memory:")
    if set(runs["target"]) == {REFERENCE_TARGET}:
        st.caption(
            ":material/info: The target is the reference model: not a useful model, but one padded until a step costs "
            "enough for speculation to pay without a GPU. Only the shape of its curves carries over, not their speed."
        )


def show_nothing_to_compare(runs: pd.DataFrame, needed: str) -> None:
    """Say that nothing can be compared yet. `needed`: the requirements, as a sentence without its full stop.

    Arms without a valid run are named: they were measured, but are missing.
    """
    counted = runs[runs["is_counted"]]
    if len(counted) and not _are_valid(counted).any():
        failed = int((counted["status"] == "failed").sum())
        st.info(f"Nothing to compare: {lost_words(failed, len(counted) - failed, len(counted))}.")
        return
    unmarked = (runs["origin"] == "imported").all() and not runs["is_baseline"].fillna(value=False).any()
    how = (
        ". No imported run is marked as the baseline: on External results, remove these runs and import the baseline's "
        "files with Baseline ticked and the other files without, all with the same name of the study"
    )
    st.info(f"Nothing to compare yet: {needed}{_without_valid(counted)}{how if unmarked else ''}.")


def others_sentence(counted: pd.DataFrame) -> str:
    """Say what other programs took of the processors; empty if it was little or is unknown."""
    others = counted["other_cpu_percent"].dropna()
    busy = others[others > OTHERS_PERCENT]
    if busy.empty:
        return ""
    where = f"{len(busy)} of {count(len(others), 'run')}"
    return (
        f"Other programs took up to {busy.max():.0f} % of the processors, in {where} over {OTHERS_PERCENT:g} %. "
        "On a quiet host repeats differ less."
    )


def _are_valid(counted: pd.DataFrame) -> pd.Series:
    return (counted["status"] == "completed") & (counted["is_valid"] != False)  # noqa: E712 - null counts as valid


def _without_valid(counted: pd.DataFrame) -> str:
    """Name the arms without a valid run, as a sentence without its full stop; empty if there are none."""
    valid = set(counted.loc[_are_valid(counted), "arm"])
    missing = [literal(arm) for arm in counted["arm"].unique() if arm not in valid]
    return f". No valid run: {', '.join(missing)}" if missing else ""


def follow(job: Job | None) -> None:
    """While the study is queued or running, rerun the page at each new publication."""
    if job is not None and job.state in ACTIVE:
        published_data.rerun_when_published(published_data.publication())
