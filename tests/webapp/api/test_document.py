"""Whatever the API's document allows is answered, and what it forbids is refused: never with an error of the server."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.core.result import Ok

from access.web.gate import Gate
from tests.webapp.api.inside import LetIn
from tests.webapp.homes import make_home
from webapp.api.app import api

_EXAMPLES = 6


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
