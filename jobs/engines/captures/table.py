"""The table of docs/engines.md: which releases were tried, with which method, and what their runs leave unknown."""

from __future__ import annotations

import json

from jobs.engines.captures import ANY_ARM, BASELINE, SPECULATING, Capture, captures
from lab.study.methods import METHODS


def versions_table() -> str:
    """Return the table, with a row for releases that did the same, and below it the errors of what was refused."""
    tried = list(captures().values())[::-1]
    methods = list(dict.fromkeys(name for capture in tried for name in capture.arms))
    head = ["version", "tried", *("no speculation" if name == BASELINE else f"`{name}`" for name in methods)]
    head += ["also lists", "acceptance", "unknown"]
    rows = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    versions: dict[tuple[str, ...], list[str]] = {}
    for capture in tried:
        arms = [capture.arms[name].state if name in capture.arms else "not tried" for name in methods]
        cells = (str(capture.tried_on), *arms, _listed(capture), _acceptance(capture), _unknown(capture))
        versions.setdefault((capture.kind, *cells), []).append(capture.version)
    for (kind, *shared), names in versions.items():
        rows.append(f"| {kind} {', '.join(names)} | {' | '.join(shared)} |")
    return "\n".join((*rows, "", *_refusals(tried), *_besides(tried)))


def _ranges(versions: list[str], tried: list[Capture]) -> str:
    """Join versions, newest first; three or more that were tried one after another become a range."""
    order = [capture.version for capture in tried]
    runs: list[list[str]] = []
    for version in versions:
        if runs and order.index(version) == order.index(runs[-1][-1]) + 1:
            runs[-1].append(version)
        else:
            runs.append([version])
    return ", ".join(f"{run[-1]} to {run[0]}" if len(run) > 2 else ", ".join(run) for run in runs)


def _listed(capture: Capture) -> str:
    names = [f"`{name}`" for name in METHODS if name in capture.reported.methods and name not in capture.arms]
    return ", ".join(names) or "-"


def _acceptance(capture: Capture) -> str:
    """Return the figures of acceptance that every speculating run had."""
    arms = [arm for name, arm in capture.arms.items() if name != BASELINE and arm.state == "measured"]
    if not arms:
        return "not tried"
    seen = [name for name in SPECULATING if all(arm.known[name] for arm in arms)]
    return ", ".join(name.removeprefix("acceptance ") for name in seen) or "none"


def _unknown(capture: Capture) -> str:
    """Return what a measured run of any arm lacked."""
    lacking = [
        name for name in (*SPECULATING, *ANY_ARM) if any(arm.known.get(name) is False for arm in capture.arms.values())
    ]
    return ", ".join(lacking) or "-"


def _besides(tried: list[Capture]) -> list[str]:
    """Return how the releases that were tried with them handle tool calls, several ranks and sleep."""
    lines: dict[str, list[str]] = {}
    for capture in tried:
        found = []
        if (stream := capture.streams.get("tool call")) is not None:
            found.append("a tool call streams" if '"tool_calls": [{' in json.dumps(stream) else "no tool call came")
        if (ranks := capture.answers.get("two ranks")) is not None:
            found.append("two ranks start" if ranks.status else f"two ranks do not start: {ranks.text}")
        if (asleep := capture.answers.get("/is_sleeping")) is not None:
            found.append(f"asleep it answers {asleep.text}")
        elif (refused := capture.answers.get("sleep")) is not None:
            found.append(f"sleep mode is refused: {refused.text}")
        for sentence in found:
            lines.setdefault(sentence, []).append(capture.version)
    return [f"- {_ranges(names, tried)}: {sentence}" for sentence, names in lines.items()]


def _refusals(tried: list[Capture]) -> list[str]:
    lines: dict[str, dict[str, list[str]]] = {}
    for capture in tried:
        for name, arm in capture.arms.items():
            if arm.why is not None:
                lines.setdefault(arm.why, {}).setdefault(f"`{name}`", []).append(capture.version)
    return [f"- {_by_versions(methods, tried)}: {why}" for why, methods in lines.items()]


def _by_versions(methods: dict[str, list[str]], tried: list[Capture]) -> str:
    """Name the versions that refused each method; methods refused by the same versions share them."""
    alike: dict[str, list[str]] = {}
    for method, versions in methods.items():
        alike.setdefault(_ranges(versions, tried), []).append(method)
    return "; ".join(f"{versions} {', '.join(names)}" for versions, names in alike.items())
