"""A release of vLLM as it was captured: a real process with its parser, its pages, its counters and its streams.

`python -m tests.engine_matrix.stand_in RELEASE serve MODEL ...` as the engine's command, and
`... RELEASE -I vllm_answers.py` as its Python, which is asked for what it has.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from jobs.engines.captures import BASELINE, Answer, Capture, TriedArm, captures
from tests.workers import stand_in_server
from tests.workers.stand_in_server import Json, Server, Talk

_ACCEPTED, _DRAFTED = 1, 3
#: Slow enough for a window of 16 rounds to be longer than the second after which gauges are read.
_ROUND_S = 0.08
_TYPES = {"integer": int, "number": float}
_NOTHING = Answer(status=404, text="")
#: Where the engine counts what it does; every other metric of the capture is 0.
_COUNTED: dict[str, Callable[[Talk], int]] = {
    "vllm:prompt_tokens_total": lambda talk: talk.prompt_tokens,
    "vllm:generation_tokens_total": lambda talk: talk.generated,
    "vllm:spec_decode_num_drafts_total": lambda talk: talk.rounds,
    "vllm:spec_decode_num_draft_tokens_total": lambda talk: talk.rounds * _DRAFTED,
    "vllm:spec_decode_num_accepted_tokens_total": lambda talk: talk.accepted,
}
_BY_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos_total"


def parsed(capture: Capture, words: list[str]) -> argparse.Namespace:
    """Read the command line as this release's parser does: its flags, with what each takes."""
    program = capture.answers["unknown flag"].text.partition(": error:")[0]
    parser = argparse.ArgumentParser(prog=program, allow_abbrev=False, add_help=False)
    parser.add_argument("model_tag", nargs="?")
    for flag in capture.reported.flags:
        takes = capture.reported.types.get(flag)
        more: dict[str, Any]
        if takes == "switch":
            more = {"action": "store_true"}
        elif isinstance(takes, tuple):
            more = {"choices": takes}
        elif takes is None:
            more = {"nargs": "*"}
        else:
            more = {"type": _TYPES.get(takes, str)}
        parser.add_argument(f"--{flag}", **more)
    return parser.parse_args(words)


class Handler(stand_in_server.Handler):
    disable_nagle_algorithm = True
    server: Engine

    def _events(self, body: Json) -> Iterator[Json]:
        """Send the captured events for so many tokens as were asked for."""
        talk, tokens = self.server.talk, body["max_tokens"]
        dress = [event for event in self.server.stream_for(body) if isinstance(event, dict)]
        spoken = [event for event in dress if _has_text(event)]
        talk.prompt_tokens += stand_in_server.PROMPT_TOKENS
        yield from (_counted(event, 0) for event in dress[: dress.index(spoken[0])])
        rounds = accepted = done = 0
        while done < tokens:
            time.sleep(_ROUND_S)
            new = min(1 + talk.accepted_each_round, tokens - done)
            template = spoken[0] if done == 0 else spoken[1]
            done, rounds, accepted = done + new, rounds + 1, accepted + new - 1
            yield _counted(_with_text(spoken[-1] if done == tokens else template, new, ends=done == tokens), done)
        talk.generated += tokens
        talk.rounds += rounds if talk.accepted_each_round else 0
        talk.accepted += accepted
        for event in dress[dress.index(spoken[-1]) + 1 :]:
            yield _with_speculation(_counted(event, tokens), rounds, accepted)


class Engine(Server):
    def __init__(self, capture: Capture, arm: TriedArm, given: argparse.Namespace) -> None:
        speculates = given.speculative_config is not None
        self.capture, self.arm, self.model = capture, arm, given.served_model_name[0]
        talk = Talk(
            {
                "/metrics": self._metrics,
                **{path: self._page(name) for path, name in _PAGES.items()},
            },
            refuses=self._refusal,
            accepted_each_round=_ACCEPTED if speculates else 0,
        )
        super().__init__(given.host, given.port, talk, Handler)

    def _page(self, name: str) -> Any:
        answer = self.capture.answers.get(name, _NOTHING)
        return lambda: answer.text if answer.status == 200 else None

    def _refusal(self, body: Json) -> tuple[int, str] | None:
        name = (
            "unknown model" if body["model"] != self.model else "wrong temperature" if body["temperature"] < 0 else ""
        )
        answer = self.capture.answers.get(name)
        return None if answer is None else (answer.status, answer.text)

    def stream_for(self, body: Json) -> tuple[Any, ...]:
        options = body.get("stream_options")
        if "messages" in body:
            return self.capture.streams["chat"]
        if options is None:
            return self.capture.streams["no usage"]
        return self.arm.events if options.get("continuous_usage_stats") else self.capture.streams["usage at the end"]

    def _metrics(self) -> str:
        names = self.capture.arms[BASELINE].metrics | self.arm.metrics
        return "".join(self._line(name, labels) for name, labels in names.items())

    def _line(self, name: str, labels: tuple[str, ...]) -> str:
        if name == _BY_POSITION:
            values = [
                ("position", str(place), self.talk.accepted if place < _ACCEPTED else 0) for place in range(_DRAFTED)
            ]
        else:
            counted = _COUNTED.get(name)
            values = [("", "", 0 if counted is None else counted(self.talk))]
        lines = []
        for own, value, count in values:
            pairs = ",".join(f'{label}="{value if label == own else label}"' for label in labels)
            lines.append(f"{name}{{{pairs}}} {count}\n")
        return "".join(lines)


_PAGES = {
    "/health": "health",
    "/version": "version",
    "/reset_prefix_cache": "reset",
    "/reset_prefix_cache?reset_external=true": "reset of all tiers",
}


def _has_text(event: Json) -> bool:
    return any(choice.get("text") or (choice.get("delta") or {}).get("content") for choice in event["choices"])


def _with_text(event: Json, tokens: int, *, ends: bool) -> Json:
    event = copy.deepcopy(event)
    for choice in event["choices"]:
        holder, key = (choice["delta"], "content") if "delta" in choice else (choice, "text")
        holder[key] = " word" * tokens
        choice["finish_reason"] = "length" if ends else None
        if choice.get("token_ids"):
            choice["token_ids"] = [7] * tokens
    return event


def _counted(event: Json, tokens: int) -> Json:
    if not event.get("usage"):
        return event
    counts = {"prompt_tokens": stand_in_server.PROMPT_TOKENS, "completion_tokens": tokens}
    return event | {"usage": event["usage"] | counts | {"total_tokens": sum(counts.values())}}


def _with_speculation(event: Json, rounds: int, accepted: int) -> Json:
    """Replace what this release said of the request's speculation by that of this request, under its own names."""
    said = (event.get("metrics") or {}).get("speculative_decoding")
    if not said:
        return event
    steps = [_ACCEPTED] * accepted + [0] * (rounds - accepted)
    ours = {
        "num_spec_steps": rounds,
        "num_draft_tokens": rounds * _DRAFTED,
        "num_accepted_draft_tokens": accepted,
        "per_step_drafted": [_DRAFTED] * rounds,
        "per_step_accepted": steps,
    }
    known = {name: ours[name] for name in said if name in ours}
    return event | {"metrics": {"speculative_decoding": known}}


def main() -> None:
    release, *words = sys.argv[1:]
    capture = captures()["vllm", release]
    if words[0] == "-I":
        print(json.dumps(capture.reported.model_dump()))
        return
    given = parsed(capture, words[1:])
    speculation = json.loads(given.speculative_config or "null")
    arm = capture.arms[BASELINE if speculation is None else speculation["method"]]
    if not arm.by_configuration:
        print(f"INFO Initializing a V1 LLM engine (v{release}) with config: model='m', seed=0", flush=True)
    if arm.state == "refused":
        sys.exit(arm.why)
    Engine(capture, arm, given).serve_forever()


if __name__ == "__main__":
    main()
