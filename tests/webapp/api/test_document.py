"""Whatever the API's document allows is answered, and what it forbids is refused: never with an error of the server."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.core.result import Ok
from starlette.types import ASGIApp, Receive, Scope, Send

from lab.access import Actor, Role
from tests.webapp.homes import make_home
from webapp.access.gate import ACTOR, GATE, Gate
from webapp.api.app import api

_EXAMPLES = 8


class LetIn:
    """Stands where the guard does: everybody is an administrator."""

    def __init__(self, app: ASGIApp, gate: Gate) -> None:
        self._app, self._gate = app, gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        known = {ACTOR: Actor("somebody", Role.ADMINISTRATOR, "api"), GATE: self._gate}
        await self._app({**scope, **known}, receive, send)


def test_no_request_ends_in_an_error_of_the_server(tmp_path_factory: pytest.TempPathFactory) -> None:
    gate = Gate(make_home(tmp_path_factory.mktemp("fuzzed")))
    document = schemathesis.openapi.from_asgi("/openapi.json", LetIn(api(), gate))
    operations = [found.ok() for found in document.get_all_operations() if isinstance(found, Ok)]
    assert len(operations) == sum(len(path) for path in api().openapi()["paths"].values())
    for operation in operations:

        @given(case=operation.as_strategy())
        @settings(max_examples=_EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
        def asked(case: schemathesis.Case[Any]) -> None:
            response = case.call()
            assert response.status_code < 500, response.text
            if response.status_code >= 400:
                assert response.headers["content-type"][0] == "application/problem+json"
                assert response.json()["detail"]

        asked()
