"""The result of a tuning, ready to deploy: a setting for each load, the best single one, the engine's own schedule."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from lab.study.load import MOST_AT_ONCE
from lab.tuning.setting import NONE, Setting, Space
from lab.tuning.standing import Standing


@dataclass(frozen=True)
class Choice:
    """The outcome of a race. `ranges` are those of the deployed draft, as (first, last, tokens) of requests at once.

    `assumed` are the loads at which a chosen number of tokens rests on what a round usually costs, `left_off` those
    that are inconclusive and at which drafting was not shown to pay: no speculation is chosen there.
    """

    best: Mapping[int, Setting]  # by load, of all drafts
    single: Setting
    draft: str | None  # to deploy with a schedule; None if no speculation is best everywhere
    tokens: Mapping[int, int]  # of that draft, by load
    ranges: tuple[tuple[int, int, int], ...]
    assumed: tuple[int, ...] = ()
    left_off: tuple[int, ...] = ()

    @property
    def caveats(self) -> str:
        """Return sentences on what is uncertain, and at which loads; empty if nothing is."""
        return " ".join(filter(None, (_assumption(self.assumed), _left_off(self.left_off))))


def choice(space: Space, standing_at: Mapping[int, Standing]) -> Choice:
    """Return the choice. `standing_at` has at least one load."""
    draft = deployed_draft(space, standing_at)
    tokens = {load: at.deployable(settings_of(at, draft)).k for load, at in standing_at.items()}
    best = {load: at.deployable() for load, at in standing_at.items()}
    assumed = tuple(
        load for load, at in standing_at.items() if {best[load], Setting(draft or "", tokens[load])} & at.assumed
    )
    left_off = tuple(
        load
        for load, at in standing_at.items()
        if any(at.deployable(among) != at.chosen(among) for among in (at.settings, settings_of(at, draft)))
    )
    deployed = draft if any(tokens.values()) else None
    return Choice(best, best_single(standing_at), deployed, tokens, tuple(schedule(tokens)), assumed, left_off)


def _assumption(loads: tuple[int, ...]) -> str:
    if not loads:
        return ""
    return (
        f"At {_requests_at_once(loads)} the number of drafted tokens rests on what a round usually costs, because only "
        "one number was measured there. A larger budget measures two."
    )


def _left_off(loads: tuple[int, ...]) -> str:
    if not loads:
        return ""
    return (
        f"Inconclusive at {_requests_at_once(loads)}: left off, because drafting was not shown to be faster there than "
        "no speculation."
    )


def _requests_at_once(loads: tuple[int, ...]) -> str:
    """Format loads as `1, 2 and 4 requests at once`."""
    named = " and ".join([", ".join(map(str, loads[:-1]))] * (len(loads) > 1) + [str(loads[-1])])
    return f"{named} request{'s' * (loads != (1,))} at once"


def settings_of(at: Standing, draft: str | None) -> list[Setting]:
    """Return no speculation and the settings of one draft."""
    return [setting for setting in at.settings if setting == NONE or setting.draft == draft]


def deployed_draft(space: Space, standing_at: Mapping[int, Standing]) -> str | None:
    """Return the draft whose best k at each load (or no speculation) is fastest on average over loads.

    An engine loads one draft, and its schedule applies to that draft. None if no speculation is best everywhere.
    """
    worth = {
        draft: math.fsum(at.gain(at.chosen(settings_of(at, draft))) for at in standing_at.values())
        for draft in space.drafts
    }
    best = max(worth, key=lambda draft: worth[draft], default=None)
    return best if best is not None and worth[best] > 0 else None


def best_single(standing_at: Mapping[int, Standing]) -> Setting:
    """Return the setting that is fastest on average over loads, if one has to do for all."""
    everywhere = [
        setting
        for setting in next(iter(standing_at.values())).settings
        if all(setting in at.settings for at in standing_at.values())
    ]
    return max(everywhere, key=lambda setting: math.fsum(at.gain(setting) for at in standing_at.values()))


def schedule(tokens: Mapping[int, int]) -> list[tuple[int, int, int]]:
    """Return ranges (first, last, drafted tokens) of requests at once, from the tokens that are best at each load.

    Neighbouring loads with the same number are one range. A range ends halfway to the next load on a logarithmic
    scale, as loads are usually spaced; the last one has no end but that of the largest load a study may have.
    """
    ranges: list[tuple[int, int, int]] = []
    loads = sorted(tokens)
    first = 1
    for load, following in zip(loads, [*loads[1:], None], strict=True):
        if following is not None and tokens[following] == tokens[load]:
            continue
        last = MOST_AT_ONCE if following is None else math.isqrt(load * following)
        ranges.append((first, last, tokens[load]))
        first = last + 1
    return ranges
