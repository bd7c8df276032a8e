"""A server that runs already: where its requests go, and the key that they carry."""

from __future__ import annotations

from jobs.engines.addresses import check_host
from lab.errors import UserError
from lab.study import Arm, Study
from warehouse.settings import Settings, secret
from workers.load.client import Endpoint


def endpoint_of(settings: Settings, study: Study, arm: Arm) -> Endpoint:
    """Raises UserError for an arm without a server, an address that is refused, or a key that is not here.

    The key is read here, on the worker, when it is about to be used, and kept nowhere else.
    """
    if arm.server is None:
        raise UserError(f"arm {arm.name!r} measures a running server: set base_url in its server")
    if not settings.allow_metadata_addresses:
        check_host(arm.server.base_url)
    return Endpoint(
        base_url=arm.server.base_url.rstrip("/"),
        model=arm.server.served_model or study.target,
        kind=study.endpoint,
        per_request_spec_metrics=arm.speculation is not None,
        foreign=True,
        checked=not settings.allow_metadata_addresses,
        api_key=None if arm.server.api_key is None else secret(settings.home, arm.server.api_key),
    )
