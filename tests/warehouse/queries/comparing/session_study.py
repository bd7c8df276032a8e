"""A study of sessions of two turns: a baseline and a draft at two concurrencies, three repeats."""

from __future__ import annotations

from typing import Any

from host.settings import Settings
from lab.metrics.records import RequestRecord
from lab.study import Load, Sessions, Workload
from tests.warehouse.runs import BASELINE_ARM, DRAFT_ARM, request, write_run
from warehouse.ingest.service import ingest_all

WORKLOAD = Workload(category="code", output_tokens=16, sessions=Sessions())
#: Seconds of three tokens after the first, by concurrency and turn: the draft pays alone, and later in a session.
BASE_S = {1: (0.30, 0.30), 16: (0.60, 0.60)}
DRAFT_S = {1: (0.20, 0.15), 16: (0.90, 0.50)}


def turn(number: int, took_s: float, **changes: Any) -> RequestRecord:
    ended_s = 0.2 + took_s
    return request(
        index=number - 1,
        prompt_id=f"s.{number}",
        session_id="s",
        turn=number,
        prompt_tokens=(100, 900)[number - 1],
        chunk_s=(0.2, ended_s),
        chunk_tokens=(1, 3),
        requested_output_tokens=4,
        end_s=ended_s,
        **changes,
    )


def ingest_sessions(settings: Settings, *drafts: str) -> None:
    """Repeats differ by a per cent or two. `drafts` are the names of further arms that do as the draft does."""
    told = {"spec_drafts": 2, "spec_draft_tokens": 6, "spec_accepted_tokens": 1}
    later = {"spec_drafts": 1, "spec_draft_tokens": 3, "spec_accepted_tokens": 2}
    for repeat in range(3):
        noise = 1 + 0.01 * repeat
        for concurrency in (1, 16):
            about = {
                "load": Load(max_concurrency=concurrency, num_prompts=16),
                "workload": WORKLOAD,
                "repeat": repeat,
                "launch_index": repeat,
            }
            base = [turn(n + 1, took_s) for n, took_s in enumerate(BASE_S[concurrency])]
            write_run(
                settings.bundles,
                tuple(base),
                run_id=f"b{repeat}{concurrency}",
                arm=BASELINE_ARM,
                is_baseline=True,
                **about,
            )
            first, second = DRAFT_S[concurrency]
            draft = (turn(1, first * noise, **told), turn(2, second * noise, **later))
            for name in (DRAFT_ARM.name, *drafts):
                arm = DRAFT_ARM.model_copy(update={"name": name})
                write_run(settings.bundles, draft, run_id=f"{name}{repeat}{concurrency}", arm=arm, **about)
    ingest_all(settings)
