"""A small study of a running server of each other maker, by what is known of its answers."""

from __future__ import annotations

import pytest

from tests.warehouse.runs import records
from tests.workers.engine_runtime.stand_in_other_server import ACCEPTED, DRAFTED, SERVERS
from tests.workers.engine_runtime.stand_ins import ONE_LOAD, bundles, grown, worked
from tests.workers.homes import Home, program

TOKENS, REQUESTS = 8, 3
ROUNDS = TOKENS // (1 + ACCEPTED)
#: Of the run: rounds, accepted tokens; of each request: drafted and accepted tokens. None is unknown.
KNOWN = {
    "lm-studio": ((None, None), (ROUNDS * DRAFTED, ROUNDS)),
    "ollama": ((None, None), (None, None)),
    "tensorrt-llm": ((ROUNDS * REQUESTS, ROUNDS * REQUESTS), (None, None)),
    "sglang": ((ROUNDS * REQUESTS, None), (None, None)),
}


@pytest.mark.parametrize("name", SERVERS)
def test_what_a_server_says_of_its_speculation_is_read_and_the_rest_unknown(home: Home, name: str) -> None:
    with program("tests.workers.engine_runtime.stand_in_other_server", name) as port:
        server = {"base_url": f"http://127.0.0.1:{port}"}
        speculation = {"method": "draft_model", "model": "small", "num_speculative_tokens": DRAFTED}
        arm = {"name": name, "engine": "endpoint", "server": server, "speculation": speculation, "baseline": True}
        kind = {"endpoint": "chat"} if name == "lm-studio" else {}
        workloads = [{"output_tokens": TOKENS, "ignore_eos": name in ("tensorrt-llm", "sglang")} | home.prompts]
        job = worked(home, arms=[arm], loads=ONE_LOAD, workloads=workloads, **kind)
    assert (job.state, job.error) == ("done", None)
    (bundle,) = bundles(home, name)
    assert bundle.run.error is None
    requests = records(bundle.requests)
    assert [(each.completion_tokens, each.error) for each in requests] == [(TOKENS, None)] * REQUESTS
    of_run, of_request = KNOWN[name]
    assert {(each.spec_draft_tokens, each.spec_accepted_tokens) for each in requests} == {of_request}
    before, after = bundle.run.counters_before, bundle.run.counters_after
    assert before is not None
    assert after is not None
    rounds, accepted = of_run
    assert (after.num_drafts, after.num_accepted_tokens).count(None) == of_run.count(None)
    assert rounds is None or grown(bundle.run, "num_drafts") == rounds
    assert accepted is None or grown(bundle.run, "num_accepted_tokens") == accepted
