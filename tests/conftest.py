"""Settings of the test tools that every test shares."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# No limit on the time of one example: the machine also runs engines, and pytest-timeout watches the whole test.
settings.register_profile("drafthouse", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("drafthouse")
