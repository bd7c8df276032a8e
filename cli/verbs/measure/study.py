"""`drafthouse study`: names, notes and tags of studies, own and imported; hide, delete, restore and purge them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from cli.arguments import AsJson, StudyId
from cli.lab import the_lab
from cli.output import print_json, print_table, print_text
from lab.errors import UserError

app = typer.Typer(add_completion=False)

DeletedStudy = Annotated[str, typer.Argument(metavar="STUDY", help="A job's id, or the name of a deleted study.")]


@app.callback()
def study() -> None:
    """Name, note, tag, hide or delete a study, own or imported."""


@app.command()
def show(study: StudyId, *, as_json: AsJson = False) -> None:
    """Show a study's note and tags, and what depends on it."""
    found, depends = the_lab().study(study)
    if as_json:
        print_json(asdict(found) | {"depends": depends})
        return
    hidden = f"hidden since {found.hidden_at:%Y-%m-%d}" if found.hidden_at else ""
    lines = (("note", found.note), ("tags", ", ".join(found.tags)), ("name", found.name or ""), ("state", hidden))
    print_text("\n".join([found.job_id, *(f"{name}: {value}" for name, value in lines if value)]))
    print_text(
        "\n".join(["depends on it:", *(f"  {each}" for each in depends)]) if depends else "nothing depends on it"
    )


@app.command(name="list")
def list_studies(
    *,
    deleted: Annotated[bool, typer.Option("--deleted", help="Only deleted ones.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the studies that somebody named, noted, tagged, hid or deleted."""
    found = [one for one in the_lab().curated_studies() if not deleted or (one.deleted_at and not one.purged_at)]
    if as_json:
        print_json([asdict(one) for one in found])
        return
    if not found:
        print_text("No study was deleted." if deleted else "No study was named, noted, tagged, hidden or deleted.")
        return
    rows = [
        (
            one.job_id,
            one.called or one.name,
            ", ".join(one.tags),
            one.note.partition("\n")[0],
            one.hidden_at,
            one.deleted_at,
            one.deleted_by,
        )
        for one in found
    ]
    print_table(("job", "name", "tags", "note", "hidden", "deleted", "by"), rows)


@app.command()
def note(study: StudyId, text: Annotated[str, typer.Argument(help="The new note; an empty one removes it.")]) -> None:
    """Write a study's note, in place of an earlier one."""
    lab = the_lab()
    changed = lab.change_study(lab.study(study)[0].job_id, note=text)
    print_text(f"{changed.job_id}: {'noted' if changed.note else 'without a note'}")


@app.command()
def tag(
    study: StudyId,
    tags: Annotated[list[str], typer.Argument(help="Tags to add.")],
    *,
    remove: Annotated[bool, typer.Option("--remove", help="Remove them instead.")] = False,
) -> None:
    """Add tags to a study, or remove some."""
    lab = the_lab()
    known = lab.study(study)[0]
    wanted = set(known.tags) - set(tags) if remove else {*known.tags, *tags}
    changed = lab.change_study(known.job_id, tags=sorted(wanted))
    print_text(f"{changed.job_id}: {', '.join(changed.tags) or 'without tags'}")


@app.command()
def rename(
    study: StudyId, name: Annotated[str, typer.Argument(help="The new name; an empty one restores the first.")]
) -> None:
    """Give a study another name; links to it stay."""
    lab = the_lab()
    changed = lab.change_study(lab.study(study)[0].job_id, name=name)
    print_text(f"{changed.job_id} is {f'called {changed.name}' if changed.name else 'called by its first name again'}")


@app.command()
def hide(study: StudyId, *, show: Annotated[bool, typer.Option("--show", help="Show it again.")] = False) -> None:
    """Leave a study out of lists and pickers."""
    lab = the_lab()
    changed = lab.change_study(lab.study(study)[0].job_id, hidden=not show)
    print_text(f"{changed.job_id} is {'hidden' if changed.hidden_at else 'shown again'}")


@app.command()
def delete(
    study: StudyId,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Delete it even if something depends on it.")] = False,
) -> None:
    """Delete a study; `drafthouse study restore` brings it back."""
    lab = the_lab()
    known, depends = lab.study(study)
    if depends and not yes:
        raise UserError(f"{known.job_id} is needed by {'; '.join(depends)}: add --yes to delete it anyway")
    lab.delete_study(known.job_id)
    print_text(f"{known.job_id} is deleted: `drafthouse study restore {known.job_id}` brings it back")


@app.command()
def restore(study: DeletedStudy) -> None:
    """Restore a deleted study as it was."""
    print_text(f"{the_lab().restore_study(study)} is restored")


@app.command()
def purge(
    study: Annotated[
        str | None,
        typer.Argument(help="A deleted study; default: all deleted more than 30 days ago."),
    ] = None,
) -> None:
    """Remove the bundles of deleted studies for good."""
    purged = the_lab().purge_studies(study)
    print_text("\n".join(f"{job_id} is purged" for job_id in purged) or "Nothing was deleted more than 30 days ago.")
