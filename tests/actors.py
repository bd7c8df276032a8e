"""People for tests: one of each role, and a second submitter."""

from __future__ import annotations

from lab.roles import Actor, Role

ADMIN = Actor("ada", Role.ADMINISTRATOR)
SUBMITTER = Actor("sam", Role.SUBMITTER)
OTHER_SUBMITTER = Actor("sue", Role.SUBMITTER)
VIEWER = Actor("vera", Role.VIEWER)
