"""The table of docs/engines.md: which releases were tried, with which method, and what their runs leave unknown."""

from __future__ import annotations

import json

from jobs.engines.captures import ANY_ARM, BASELINE, SPECULATING, Capture, captures
from lab.study.methods import METHODS


def versions_table() -> str:
    """Return the table, and below it in whose words what was refused."""
    tried = list(captures().values())[::-1]
    methods = list(dict.fromkeys(name for capture in tried for name in capture.arms))
    head = ["version", "tried", *("no speculation" if name == BASELINE else f"`{name}`" for name in methods)]
    head += ["lists besides", "acceptance", "unknown"]
    rows = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for capture in tried:
        arms = [capture.arms[name].state if name in capture.arms else "not tried" for name in methods]
        cells = [f"{capture.kind} {capture.version}", str(capture.tried_on), *arms]
        cells += [_listed(capture), _acceptance(capture), _unknown(capture)]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join((*rows, "", *_refusals(tried), *_besides(tried)))


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
    """Return what was seen of tool calls, several ranks and sleep, of the releases that were asked."""
    lines = []
    for capture in tried:
        found = []
        if (stream := capture.streams.get("tool call")) is not None:
            found.append("a tool call streams" if '"tool_calls": [{' in json.dumps(stream) else "no tool call came")
        if (ranks := capture.answers.get("two ranks")) is not None:
            found.append(f"tokens by rank {ranks.text}" if ranks.status else f"two ranks do not start: {ranks.text}")
        if (asleep := capture.answers.get("/is_sleeping")) is not None:
            found.append(f"asleep it answers {asleep.text}")
        elif (refused := capture.answers.get("sleep")) is not None:
            found.append(f"sleep mode is refused: {refused.text}")
        lines += [f"- {capture.version} besides: {'; '.join(found)}"] if found else []
    return lines


def _refusals(tried: list[Capture]) -> list[str]:
    lines: dict[str, list[str]] = {}
    for capture in tried:
        for name, arm in capture.arms.items():
            if arm.why is not None:
                lines.setdefault(arm.why, []).append(f"{capture.version} `{name}`")
    return [f"- {', '.join(names)}: {why}" for why, names in lines.items()]
