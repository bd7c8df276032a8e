"""What people added to a study, with the menu to change it: name, note, tags, hide and delete; and deleted studies."""

from __future__ import annotations

import streamlit as st

from access.web import visitor
from jobs import curation
from lab.errors import UserError
from lab.roles import Change
from warehouse.app_db import curated
from warehouse.app_db.curated import Curated
from warehouse.app_db.engine import DATABASE_ERRORS, reading
from webapp.shared import published_data, undo_banner
from webapp.shared.errors import callback, show_refusals
from webapp.shared.text import count, literal, moment

#: Whose last change `undo_banner` shows.
UNDO = "studies"


def show(job_id: str) -> None:
    """Show a study's tags and note; nothing of a study without them."""
    known = find(job_id)
    if known is None:
        return
    if known.hidden_at is not None:
        st.caption(f":material/visibility_off: Hidden from lists since {moment(known.hidden_at)}.")
    if known.tags:
        with st.container(horizontal=True, gap="xsmall"):
            for tag in known.tags:
                st.badge(literal(tag), icon=":material/sell:", color="gray")
    if known.note:
        st.markdown(f":material/sticky_note_2: {literal(known.note)}")


def show_menu(job_id: str, called: str) -> None:
    """Draw the menu of a study for those who may change it; its content is built when it opens."""
    if find(job_id) is None or not visitor.allowed(Change.CURATE, owner_of(job_id)):
        return
    menu = st.popover("Study", icon=":material/edit_note:", key=f"study-menu-{job_id}", on_change="rerun")
    if menu.open:
        with menu:
            _show_form(job_id, called)
            st.divider()
            _show_deleting(job_id, called)


def owner_of(job_id: str) -> str | None:
    """Return who submitted or imported a study; None: nobody that is known, or the job table does not answer."""
    try:
        with reading(published_data.engine()).connect() as connection:
            return curated.owner_of(connection, job_id)
    except (UserError, *DATABASE_ERRORS):
        return None


def find(job_id: str) -> Curated | None:
    """Return what people added; None if the job table does not answer: results can be read all the same."""
    try:
        return published_data.curated_study(published_data.engine(), job_id)
    except (UserError, *DATABASE_ERRORS):
        return None


def _show_form(job_id: str, called: str) -> None:
    known, tags_in_use = curated.find(published_data.engine(), job_id), tags()
    with st.form(f"study-form-{job_id}", border=False):
        name = st.text_input("Name", called, max_chars=curation.MOST_NAME)
        help_text = f"Up to {curation.MOST_TAGS}; Explore filters by them"
        chosen = st.multiselect(
            "Tags", sorted({*known.tags, *tags_in_use}), known.tags, accept_new_options=True, help=help_text
        )
        note = st.text_area("Note", known.note, max_chars=curation.MOST_NOTE, height=100)
        help_text = "Lists and pickers leave it out; verdicts, links and SQL stay as they are"
        hidden = st.checkbox("Hidden", known.hidden_at is not None, help=help_text)
        if st.form_submit_button("Save", type="primary", icon=":material/check:"):
            renamed = None if name.strip() == called else name
            engine, actor = published_data.engine(), visitor.actor()
            with show_refusals():
                curation.change(engine, job_id, actor=actor, name=renamed, tags=chosen, note=note, hidden=hidden)
                st.rerun()


def tags() -> list[str]:
    return sorted({tag for one in published_data.curated_studies(published_data.engine()) for tag in one.tags})


def _show_deleting(job_id: str, called: str) -> None:
    depends = curation.dependents(published_data.settings(), published_data.engine(), job_id)
    if depends:
        st.markdown("Needed by:\n" + "\n".join(f"- {literal(each)}" for each in depends))
    kept = count(curation.KEPT_FOR.days, "day")
    st.caption(f"Deleting takes its results out of every page and table. It can be restored for at least {kept}.")
    label = "Delete anyway" if depends else "Delete the study"
    st.button(label, icon=":material/delete:", key=f"delete-{job_id}", on_click=_delete, args=(job_id, called))


@callback
def _delete(job_id: str, called: str) -> None:
    curation.delete(published_data.settings(), published_data.engine(), job_id, actor=visitor.actor())
    undo_banner.record(
        UNDO, f"{called} ({job_id}) is deleted.", icon=":material/delete:", undo=lambda: _restore(job_id)
    )


@callback
def _restore(job_id: str) -> None:
    curation.restore(published_data.settings(), published_data.engine(), job_id, actor=visitor.actor())
    undo_banner.record(UNDO, f"{job_id} is restored. Its results reappear within seconds.", icon=":material/undo:")


def show_gone(job_id: str) -> bool:
    """Say that a study was deleted, with a button that restores it; return whether it was."""
    known = find(job_id)
    if known is None or known.deleted_at is None:
        return False
    rest = ", and its bundles were purged" if known.purged_at else ""
    when = f"was deleted by {literal(known.deleted_by)}, {moment(known.deleted_at)}{rest}."
    st.info(f"{literal(known.called or job_id)} {when}", icon=":material/delete:")
    _show_restoring(known, "here")
    return True


def show_deleted() -> None:
    """List the deleted studies, folded, each with a button that restores it."""
    deleted = curation.deleted(published_data.engine())
    if not deleted:
        return
    with st.expander(f"Deleted: {count(len(deleted), 'study', 'studies')}", icon=":material/delete:"):
        for one in deleted:
            _show_one(one)


def _show_one(one: Curated) -> None:
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        by = f"by {literal(one.deleted_by)}, {moment(one.deleted_at)}"
        st.markdown(f"**{literal(one.called or one.job_id)}** :gray[{literal(one.job_id)} · {by}]", width="content")
        _show_restoring(one, "listed")


def _show_restoring(one: Curated, where: str) -> None:
    if one.purged_at is None and visitor.allowed(Change.CURATE, owner_of(one.job_id)):
        key = f"restore-{where}-{one.job_id}"
        st.button("Restore", icon=":material/undo:", key=key, on_click=_restore, args=(one.job_id,))
