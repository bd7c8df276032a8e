"""What every operation of the API gets: the visitor and the lab's settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import sqlalchemy as sa
from fastapi import Depends, Request
from starlette.exceptions import HTTPException

from access.web.gate import ACTOR, AGAIN, GATE, Gate
from host.settings import Settings
from lab.roles import Actor


@dataclass(frozen=True)
class Call:
    """An authorised call of the API: its visitor and the lab's settings."""

    actor: Actor
    gate: Gate
    again: Callable[[], Actor | None]  # the visitor as of now, for long answers; None if they lost access

    @property
    def settings(self) -> Settings:
        return self.gate.settings

    @property
    def database(self) -> sa.Engine:
        return self.gate.engine


def authorised_call(request: Request) -> Call:
    actor, gate = request.scope.get(ACTOR), request.scope.get(GATE)
    again = request.scope.get(AGAIN)
    if not isinstance(actor, Actor) or not isinstance(gate, Gate) or again is None:
        raise HTTPException(401, "send a token: Authorization: Bearer ...")
    return Call(actor, gate, again)


AuthorisedCall = Annotated[Call, Depends(authorised_call)]
