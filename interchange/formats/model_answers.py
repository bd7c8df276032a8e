"""Answer files of EAGLE, Medusa and Spec-Bench (data/*/model_answer/*.jsonl): one question a line, and for each of its
turns the tokens, the rounds and the time. They measure one answer at a time, inside the process of the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import Field

from interchange.build import build_run
from interchange.fields import Format, Taken, has_keys
from interchange.json_reader import Document
from interchange.typed_json import Count, Name, Number, Part, Record, Text, whole
from warehouse.bundles.imported_run import ImportedRequest, ImportedRequests, ImportedRun

_OWNER = "an answer of EAGLE, Medusa or Spec-Bench"
_NOTES = {
    "choices.*.turns": "the requests, one per turn, and their output_text",
    "choices.*.new_tokens": "completion_tokens, unless all are 0",
    "choices.*.wall_time": "e2e, from seconds; their sum is duration_s",
    "choices.*.decoding_steps": "num_drafts (rounds), of Spec-Bench",
    "choices.*.idxs": "num_drafts - 1, of EAGLE and Medusa, which number rounds from 0",
    "new_tokens - rounds": "num_accepted_tokens; acceptance_length is new_tokens / rounds. A file with as many "
    "tokens as rounds has no speculation",
    "model_id": "a label arm: it names the method, not the target",
    "category": "a label; each category is a run",
    "choices.*.accept_lengths": "left out (by round, without a mark where a turn ends)",
}


class _Choice(Record):
    turns: Annotated[list[Text], Field(fail_fast=True)]
    new_tokens: Annotated[list[Count], Field(fail_fast=True)]
    wall_time: Annotated[list[Number], Field(fail_fast=True)]
    idxs: Annotated[list[Count], Field(fail_fast=True)] | None = None
    decoding_steps: Annotated[list[Count], Field(fail_fast=True)] | None = None

    @property
    def rounds(self) -> list[int] | None:
        return self.decoding_steps or (None if self.idxs is None else [last + 1 for last in self.idxs])


class _Answer(Record):
    model_id: Name = None
    category: Name = None
    choices: list[_Choice]


def _is_answer(value: object) -> bool:
    choices = value.get("choices") if isinstance(value, dict) and "question_id" in value else None
    return isinstance(choices, list) and bool(choices) and has_keys(choices[0], "turns", "new_tokens", "wall_time")


def _read(documents: Sequence[Document]) -> list[ImportedRun]:
    """Return a run per category and model of one file."""
    groups: dict[tuple[str | None, str | None], list[tuple[Part, _Answer]]] = {}
    for part in map(whole, documents):
        answer = part.parse(_Answer, _OWNER)
        groups.setdefault((answer.model_id, answer.category), []).append((part, answer))
    return [_run(model, category, group) for (model, category), group in groups.items()]


def _run(model: str | None, category: str | None, group: Sequence[tuple[Part, _Answer]]) -> ImportedRun:
    counts_tokens = any(any(choice.new_tokens) for _, answer in group for choice in answer.choices)
    turns = [turn for part, answer in group for turn in _turns(part, answer, counts_tokens=counts_tokens)]
    speculates = any(rounds is not None and tokens > rounds for tokens, rounds, _, _ in turns)
    requests = [
        ImportedRequest(
            index,
            e2e_ms=wall_s * 1000,
            completion_tokens=tokens if counts_tokens else None,
            output_text=text,
            spec_drafts=rounds if speculates else None,
            spec_accepted_tokens=tokens - rounds if speculates and rounds is not None else None,
        )
        for index, (tokens, rounds, wall_s, text) in enumerate(turns)
    ]
    taken = Taken(columns={"concurrency": 1}, metrics={"duration_s": sum(wall_s for _, _, wall_s, _ in turns)})
    taken.leave_out("choices.*.accept_lengths", "by round, with no mark at the end of a turn")
    if not counts_tokens:
        taken.leave_out("choices.*.new_tokens", "0 for every answer: they were not counted")
    first = group[0][0]
    return build_run(
        FORMAT.name,
        first.document,
        [part.content for part, _ in group],
        taken,
        requests=ImportedRequests.of(requests),
        place=f"category {category}" if category else "",
        labels={name: label for name, label in (("arm", model), ("category", category)) if label},
    )


def _turns(part: Part, answer: _Answer, *, counts_tokens: bool) -> Iterator[tuple[int, int | None, float, str]]:
    """Yield tokens, rounds, seconds and text of each turn."""
    for number, choice in enumerate(answer.choices):
        counts = [len(choice.turns), len(choice.new_tokens), len(choice.wall_time)]
        rounds = choice.rounds
        if len({*counts, *([] if rounds is None else [len(rounds)])}) > 1:
            raise part.document.error(
                ("choices", number), "its turns, new_tokens, wall_time and rounds differ in number"
            )
        for index, (text, tokens, wall_s) in enumerate(
            zip(choice.turns, choice.new_tokens, choice.wall_time, strict=True)
        ):
            of_turn = None if rounds is None else rounds[index]
            if counts_tokens and of_turn is not None and of_turn > tokens:
                raise part.document.error(
                    ("choices", number), f"{of_turn} rounds are more than {tokens} tokens, but each yields one"
                )
            yield tokens, of_turn, wall_s, text


FORMAT = Format(
    "model-answers",
    "answer files of EAGLE, Medusa and Spec-Bench",
    "EAGLE and Medusa of 2023, and of Spec-Bench, made by its source",
    _is_answer,
    _read,
    (),
    _NOTES,
)
