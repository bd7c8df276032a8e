"""Which engines a job needs, as a text that SQL compares with those of a worker: `/sglang//vllm 0.32.0/`.

A study names engines. The host that measures its first run adds their versions, where it knows them, and from then on
only hosts with the same versions continue the job: arms of two versions would be compared as if they had one.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Mapping

#: The version of each engine of a host by its name; None: unknown.
Versions = Mapping[str, str | None]
_ONE = re.compile(r"/([^/]*)/")
#: A name is one word.
_SAFE = str.maketrans("/ ", "||")


def needs_of(engines: Collection[str]) -> str:
    """Return the needs of a study with these engines, in any version."""
    return "".join(_one(name, None) for name in sorted(set(engines)))


def with_versions(needs: str, host: Versions) -> str:
    """Add the host's versions to the engines that have none."""
    return "".join(_one(one, host.get(one)) if " " not in one else f"/{one}/" for one in _ONE.findall(needs))


def without_versions(needs: str) -> str:
    """Remove all versions."""
    return "".join(f"/{one.partition(' ')[0]}/" for one in _ONE.findall(needs))


def met_by(host: Versions | None) -> tuple[str, dict[str, str]]:
    """Return whether a host has every engine of the column `needs`, as SQL with the values of its parameters: whatever
    it has is removed, and nothing is left. None: the host is not asked.

    Not as `= ''`: PostgreSQL would take that for rare, and sort all jobs of a submitter first.
    """
    if host is None:
        return "1 = 1", {}
    has = sorted({_one(name, None) for name in host} | {_one(name, version) for name, version in host.items()})
    values = {f"engine_{number}": one for number, one in enumerate(has)}
    left = functools.reduce(lambda left, name: f"replace({left}, :{name}, '')", values, "needs")
    return f"length({left}) < 1", values


def unmet(needs: str, host: Versions) -> list[str]:
    """Return what a host lacks of the needs: `vllm 0.32.0`."""
    has = {_one(name, version) for name, version in host.items()} | {_one(name, None) for name in host}
    return [one for one in _ONE.findall(needs) if f"/{one}/" not in has]


def _one(name: str, version: str | None) -> str:
    name = name.translate(_SAFE)
    return f"/{name} {version}/" if version else f"/{name}/"
