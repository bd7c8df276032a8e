from __future__ import annotations

from collections.abc import Iterator

import pytest
from altair.utils import schemapi


@pytest.fixture(autouse=True)
def checked() -> Iterator[None]:
    """Each part of a chart is checked against Vega-Lite's schema when it is made, which the pages do without."""
    with schemapi.debug_mode(True):
        yield
