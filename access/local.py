"""The person at this machine: whoever can write the home may do everything, so there is no role to look up."""

from __future__ import annotations

import getpass
import os

from lab.roles import Actor, Role, Via


def local_actor(via: Via = "command") -> Actor:
    """Return the user of the operating system, as an administrator."""
    return Actor(_user_name(), Role.ADMINISTRATOR, via)


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run under a number without a name
        return f"uid {os.getuid()}"
