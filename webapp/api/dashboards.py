"""Dashboards: listed, created, changed, removed and restored; and the figures pinned to them."""

# ruff: noqa: FAST003 - `Found` takes the id out of the path
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Body, Depends, Path
from pydantic import AwareDatetime, BaseModel, Field

from lab.errors import UnknownNameError
from warehouse.app_db import dashboards, pins
from warehouse.app_db.dashboards import Dashboard
from warehouse.app_db.pins import Pin, PinnedFigure
from webapp.api.calls import AuthorisedCall
from webapp.api.limits import Operation
from webapp.pages import PAGES

router = APIRouter(route_class=Operation, tags=["dashboards"])
Id = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Word = Annotated[str, Field(max_length=200, pattern=r"^[^\x00-\x1f]*$")]


class Figure(BaseModel):
    """A figure of a page: the page, the parameters of its link, and the figure's key there."""

    page: Word
    parameters: dict[Word, Annotated[list[Word], Field(max_length=200)]] = Field(default={}, max_length=100)
    figure: Word
    caption: str = Field(default="", max_length=pins.MAX_CAPTION_LENGTH, pattern=r"^[^\x00]*$")
    as_of: AwareDatetime | None = Field(default=None, description="The point in time of its data; null: now.")


class PinDocument(BaseModel):
    """A figure on a dashboard."""

    pin_id: str
    page: str
    parameters: Mapping[str, Sequence[str]]
    figure: str
    caption: str
    as_of: datetime | None
    pinned_at: datetime


@dataclass(frozen=True)
class WithPins(Dashboard):
    """A dashboard with its figures in their order."""

    figures: list[PinDocument]


class Named(BaseModel):
    """The name of a dashboard."""

    name: str = Field(min_length=1, max_length=dashboards.MAX_NAME_LENGTH)


class Pinned(BaseModel):
    """The figure that was pinned, or had been already."""

    pin_id: str


def _found(call: AuthorisedCall, dashboard_id: Id) -> Dashboard:
    found = dashboards.find(call.database, dashboard_id)
    if found is None:
        raise UnknownNameError(f"there is no dashboard {dashboard_id}")
    return found


#: The dashboard of the address, removed or not; the answer is 404 where there is none.
Found = Annotated[Dashboard, Depends(_found)]


@router.get("/dashboards")
def list_dashboards(call: AuthorisedCall) -> list[Dashboard]:
    """List dashboards that were not removed, the most recently changed first."""
    return dashboards.all_dashboards(call.database)


@router.post("/dashboards", status_code=201)
def make_dashboard(call: AuthorisedCall, named: Annotated[Named, Body()]) -> Dashboard:
    """Create a dashboard, owned by the visitor, unless the name exists."""
    return _found(call, dashboards.create(call.database, named.name, actor=call.actor))


@router.get("/dashboards/{dashboard_id}")
def show_dashboard(call: AuthorisedCall, found: Found) -> WithPins:
    """Show a dashboard and its figures, even if it was removed."""
    figures = [_pin(pin) for pin in pins.pins_on(call.database, found.dashboard_id)]
    return WithPins(**vars(found), figures=figures)


@router.patch("/dashboards/{dashboard_id}")
def rename_dashboard(call: AuthorisedCall, found: Found, named: Annotated[Named, Body()]) -> Dashboard:
    """Rename a dashboard; its links keep working."""
    dashboards.rename(call.database, found.dashboard_id, named.name, actor=call.actor)
    return _found(call, found.dashboard_id)


@router.delete("/dashboards/{dashboard_id}")
def remove_dashboard(call: AuthorisedCall, found: Found) -> Dashboard:
    """Remove a dashboard; it can be restored."""
    dashboards.remove(call.database, found.dashboard_id, actor=call.actor)
    return _found(call, found.dashboard_id)


@router.post("/dashboards/{dashboard_id}/restore")
def restore_dashboard(call: AuthorisedCall, found: Found) -> Dashboard:
    """Restore a dashboard with its figures. If its name has been reused, a number is appended."""
    dashboards.restore(call.database, found.dashboard_id, actor=call.actor)
    return _found(call, found.dashboard_id)


@router.post("/dashboards/{dashboard_id}/duplicate", status_code=201)
def duplicate_dashboard(call: AuthorisedCall, found: Found, named: Annotated[Named, Body()]) -> Dashboard:
    """Copy a dashboard under another name; the copy belongs to the visitor."""
    return _found(call, dashboards.duplicate(call.database, found.dashboard_id, named.name, actor=call.actor))


@router.post("/dashboards/{dashboard_id}/figures", status_code=201)
def pin_figure(call: AuthorisedCall, found: Found, figure: Annotated[Figure, Body()]) -> Pinned:
    """Append a figure, unless it is already pinned."""
    if figure.page != pins.TEXT and not (figure.page in PAGES and PAGES[figure.page].has_figures):
        raise UnknownNameError(f"there is no page {figure.page!r} whose figures could be pinned")
    shown = PinnedFigure(figure.page, figure.parameters, figure.figure, figure.as_of)
    return Pinned(pin_id=pins.add(call.database, found.dashboard_id, shown, figure.caption, actor=call.actor))


@router.delete("/dashboards/{dashboard_id}/figures/{pin_id}")
def remove_figure(call: AuthorisedCall, found: Found, pin_id: Id) -> WithPins:
    """Take a figure off the dashboard."""
    if pin_id not in {pin.pin_id for pin in pins.pins_on(call.database, found.dashboard_id)}:
        raise UnknownNameError(f"there is no figure {pin_id} on this dashboard")
    pins.remove(call.database, pin_id, actor=call.actor)
    return show_dashboard(call, found)


def _pin(pin: Pin) -> PinDocument:
    shown = pin.shown
    return PinDocument(
        pin_id=pin.pin_id,
        page=shown.page,
        parameters=shown.parameters,
        figure=shown.figure,
        caption=pin.caption,
        as_of=shown.as_of,
        pinned_at=pin.pinned_at,
    )
