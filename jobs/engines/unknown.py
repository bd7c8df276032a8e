"""What a version of an engine leaves unknown in a study's results, said before the study starts."""

from __future__ import annotations

from collections.abc import Iterator

from jobs.engines.capabilities import Capabilities
from jobs.engines.captures import captures, release
from jobs.engines.relied_on import USES, Use, is_in
from lab.study import Arm, Study


def unknown_of_arm(study: Study, arm: Arm, field: str, has: Capabilities) -> list[tuple[str, str]]:
    """Return what stays unknown in an arm's runs as (field, sentence), and whether anybody has tried this version."""
    is_so = {"always": True, "speculating": arm.speculation is not None, "connector": _has_connector(study, arm)}
    lacking = [f"{_lacks(has)} {use.called}: {use.without}" for use in lacks(has) if is_so.get(use.matters or "")]
    return [(f"{field}.engine", sentence) for sentence in (*lacking, *untried(has))]


def _lacks(has: Capabilities) -> str:
    if has.version is None and has.flags is None:
        return f"the version of {has.engine} is unknown, and it may lack"
    return f"{has.engine} {has.version or 'of unknown version'} has no"


def lacks(has: Capabilities) -> Iterator[Use]:
    """Yield what Drafthouse relies on and this engine lacks, as far as its version or its own list of flags says so."""
    for use in USES.get(has.kind, ()):
        is_told = use.what == "flag" or has.version is not None
        if use.matters is not None and is_told and not is_in(use, has.kind, has.flags, has.version):
            yield use


def untried(has: Capabilities) -> Iterator[str]:
    """Yield a note if no capture covers this release, for a kind that has captures."""
    tried = [name for kind, name in captures() if kind == has.kind]
    if tried and has.version is not None and release(has.version) not in tried:
        yield (
            f"{has.engine} {has.version} has not been tried with Drafthouse: it is measured all the same, and what it "
            f"does not report is null; tried were {len(tried)} releases, {tried[0]} to {tried[-1]}"
        )


def _has_connector(study: Study, arm: Arm) -> bool:
    given = {name.replace("_", "-").partition(".")[0] for name in (*study.engine_flags, *arm.config, *arm.flags)}
    return "kv-transfer-config" in given or "kv-offloading-size" in given
