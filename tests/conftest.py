"""Settings of the test tools that every test shares."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# No limit on the time of one example: the machine also runs engines, and pytest-timeout watches the whole test. The
# same examples each time, so that a change is judged by itself; `--hypothesis-profile=explore` looks for new ones.
_SLOW = [HealthCheck.too_slow]
settings.register_profile("drafthouse", deadline=None, suppress_health_check=_SLOW, max_examples=50, derandomize=True)
settings.register_profile("explore", deadline=None, suppress_health_check=_SLOW, max_examples=1000)
settings.load_profile("drafthouse")
