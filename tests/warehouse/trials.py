"""Bundles of a search for a capacity, as a worker would leave them."""

from __future__ import annotations

from pathlib import Path

from lab.study import Arm, Load, Slo, Trial
from lab.study.trial import trial_load
from tests.warehouse.runs import DRAFT_ARM, circumstances, request, write_run

SEARCH = Load(label="most at once", find="concurrency", max_concurrency=40, num_prompts=80)
SLO = Slo(e2e_ms=1000)
#: What each arm carries at once.
CARRIED = {"no draft": 8, DRAFT_ARM.name: 16}
_TRIED = (4, 6, 7, 8, 9, 10, 12, 14, 16, 17, 18, 24)


def write_search(
    bundles: Path, repeats: int = 3, tried: tuple[int, ...] = _TRIED, *, moves_in_repeat: int | None = None
) -> None:
    """Write the trials of two arms: all requests of a trial meet the SLO up to what the arm carries, and none beyond.

    Each trial lasts as many seconds as requests one after the other would take at its concurrency. The draft arm's
    last trial of the repeat `moves_in_repeat` is on another host.
    """
    for arm in (Arm(name="no draft"), DRAFT_ARM):
        for repeat in range(repeats):
            for number, load in enumerate(tried):
                moves = arm == DRAFT_ARM and repeat == moves_in_repeat and load == tried[-1]
                _write_trial(bundles, arm, repeat, number, load, host="another" if moves else "host")


def _write_trial(bundles: Path, arm: Arm, repeat: int, number: int, load: int, *, host: str) -> None:
    takes_s = 0.5 if load <= CARRIED[arm.name] else 1.5
    requests = tuple(
        request(
            index=index,
            prompt_id=f"p{index}",
            requested_output_tokens=4,
            intended_send_s=index // load * takes_s,
            sent_s=index // load * takes_s,
            first_token_s=index // load * takes_s + 0.1,
            chunk_s=(index // load * takes_s + 0.1, (index // load + 1) * takes_s),
            chunk_tokens=(1, 3),
            end_s=(index // load + 1) * takes_s,
        )
        for index in range(SEARCH.num_prompts)
    )
    write_run(
        bundles,
        requests,
        run_id=f"{arm.name}-{repeat}-{number}".replace(" ", "-"),
        job_id="job-search",
        study_name="capacity",
        arm=arm,
        is_baseline=arm.name == "no draft",
        load=trial_load(SEARCH, number, load),
        trial=Trial(search=SEARCH, number=number, arrivals_seed=number),
        slo=SLO,
        repeat=repeat,
        launch_index=2 * repeat + (arm.name != "no draft"),
        duration_s=requests[-1].end_s,
        circumstances=circumstances(host=host),
    )
