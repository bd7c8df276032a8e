"""Turns a workload into its prompts, the same in the same order for every arm, host and repeat, and checks that there
are enough.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from host.settings import Settings
from jobs.datasets import synthetic
from jobs.datasets.catalogue import Dataset
from jobs.datasets.files import Stock
from jobs.datasets.formats import Row
from jobs.datasets.prompt import Prompt, id_of_messages, id_of_text, numbered, text_of, turn_id
from jobs.datasets.registry import resolve
from jobs.datasets.sessions import replayed, without_text
from jobs.datasets.tokenizer import TargetTokenizer, check_tokenizer, target_tokenizer
from lab.errors import UserError
from lab.quality.code_answers import UNIT_TESTS
from lab.quality.scores import COMPARED
from lab.study import Workload
from lab.study.session_length import SessionLength, session_length

#: Rows whose tokens are counted at once while looking for usable lengths.
_BATCH = 256


@dataclass(frozen=True, slots=True)
class _Pick:
    row: Row
    arrival_s: float | None = None


def load_prompts(
    settings: Settings, workload: Workload, count: int, seed: int, *, target: str | None = None
) -> tuple[Prompt, ...]:
    """Return the first `count` prompts of the workload in the order of `seed`; a smaller count gives the first of a
    larger one, and each repetition of a prompt has its number.

    `target` is the model whose tokenizer counts; only datasets whose lengths are counted need it. Raises UserError if
    the dataset cannot be read or holds fewer prompts, or if there is no tokenizer.
    """
    return numbered(_loaded(settings, workload, count, seed, target))


def _loaded(settings: Settings, workload: Workload, count: int, seed: int, target: str | None) -> Iterable[Prompt]:
    resolved = resolve(settings, workload.dataset)
    check_fields(resolved.dataset, workload)
    tokenizer = functools.partial(_tokenizer, settings.models_dir, target)
    if resolved.dataset.make is not None:
        return resolved.dataset.make(workload, count, seed, tokenizer())
    file = resolved.read()
    check_stock(workload, file.stock, count)
    rows = [row for row in file.rows if workload.category in (None, row.category)]
    if workload.sessions is not None:
        rows = [row for row in rows if row.turns]
    in_order = _in_order(rows, seed)
    if workload.sessions is not None or any(row.turns and row.input_tokens is not None for row in rows):
        return _sessions(settings, list(itertools.islice(in_order, count)), workload, seed, target)
    if file.stock.has_lengths_only:
        return _of_lengths(list(itertools.islice(in_order, count)), workload, seed, tokenizer())
    if resolved.dataset.fits is not None or (workload.own_output_lengths and file.stock.has_replies):
        picked = list(itertools.islice(_counted(in_order, workload, resolved.dataset, tokenizer()), count))
        if len(picked) < count:
            raise UserError(too_few(workload, len(picked), count))
        return picked
    return (_prompt(pick, workload, pick.row.output_tokens) for pick in itertools.islice(in_order, count))


def _tokenizer(models_dir: Path, target: str | None) -> TargetTokenizer:
    if target is None:
        raise ValueError("this dataset's lengths are counted in tokens: name the target whose tokenizer counts them")
    return target_tokenizer(models_dir, target)


def _in_order(rows: Sequence[Row], seed: int) -> Iterator[_Pick]:
    """Order rows by the seed; rows of a trace stay in order of time, to arrive as recorded."""
    if all(row.time_s is not None for row in rows):
        return _in_time(sorted(rows, key=lambda row: row.time_s or 0.0), seed)
    return (_Pick(rows[index]) for index in np.random.default_rng(seed).permutation(len(rows)))


def _in_time(rows: Sequence[Row], seed: int) -> Iterator[_Pick]:
    """Start at a row that the seed picks, and wrap around at the end of the trace after a mean gap."""
    times_s = [row.time_s or 0.0 for row in rows]
    start = int(np.random.default_rng(seed).integers(len(rows)))
    length_s = (times_s[-1] - times_s[0]) * len(rows) / max(1, len(rows) - 1)
    for index in range(start, start + len(rows)):
        turn, at = divmod(index, len(rows))
        yield _Pick(rows[at], times_s[at] - times_s[start] + turn * length_s)


def _sessions(
    settings: Settings, picks: Sequence[_Pick], workload: Workload, seed: int, target: str | None
) -> tuple[Prompt, ...]:
    """Return sessions with all their turns, as random tokens for a trace without texts."""
    own = workload.own_output_lengths
    has_replies = own and any(turn.reply is not None for pick in picks for turn in pick.row.turns)
    lengths_only = any(pick.row.input_tokens is not None for pick in picks)
    tokenizer = _tokenizer(settings.models_dir, target) if lengths_only or has_replies else None
    return tuple(_session(pick, index, workload, seed, tokenizer) for index, pick in enumerate(picks))


def _session(pick: _Pick, index: int, workload: Workload, seed: int, tokenizer: TargetTokenizer | None) -> Prompt:
    row, sessions, own = pick.row, workload.sessions, workload.own_output_lengths
    waits = int(np.random.default_rng((seed, index)).integers(2**31))
    if row.input_tokens is not None and tokenizer is not None:
        return without_text(row.turns, sessions, waits, tokenizer, own_lengths=own, arrival_s=pick.arrival_s)
    if sessions is None:
        return _prompt(pick, workload, row.output_tokens)
    lengths = _lengths(row, tokenizer) if own else [None] * len(row.turns)
    first, later = row.turns[0], replayed(row.turns, sessions, lengths, waits)
    is_whole = len(later) + 1 == len(row.turns)
    if later and is_whole:
        later = (*later[:-1], replace(later[-1], expected=row.expected))
    session_id = id_of_messages([message for turn in row.turns for message in turn.messages])
    return Prompt(
        prompt_id=turn_id(session_id, 1),
        category=row.category,
        text=text_of(first.messages),
        messages=first.messages,
        output_tokens=lengths[0],
        arrival_s=pick.arrival_s,
        session_id=session_id,
        expected=row.expected if is_whole and not later else None,
        turn=1,
        later=later,
    )


def _lengths(row: Row, tokenizer: TargetTokenizer | None) -> list[int | None]:
    """Return the recorded length of each turn's answer, counted if the file has the answer; None if unknown."""
    counted = [0] * len(row.turns) if tokenizer is None else tokenizer.count([turn.reply or "" for turn in row.turns])
    return [turn.output_tokens or (tokens or None) for turn, tokens in zip(row.turns, counted, strict=True)]


def _of_lengths(
    picks: Sequence[_Pick], workload: Workload, seed: int, tokenizer: TargetTokenizer
) -> tuple[Prompt, ...]:
    prompts = synthetic.of_lengths([pick.row.input_tokens or 0 for pick in picks], seed, tokenizer)
    return tuple(
        replace(
            prompt,
            category=pick.row.category,
            output_tokens=pick.row.output_tokens if workload.own_output_lengths else None,
            arrival_s=pick.arrival_s,
        )
        for prompt, pick in zip(prompts, picks, strict=True)
    )


def _counted(
    picks: Iterator[_Pick], workload: Workload, dataset: Dataset, tokenizer: TargetTokenizer
) -> Iterator[Prompt]:
    """Yield the rows of usable recorded lengths, whatever the workload's own output length."""
    while batch := list(itertools.islice(picks, _BATCH)):
        prompt_tokens = tokenizer.count([pick.row.text for pick in batch])
        reply_tokens = tokenizer.count([pick.row.reply or "" for pick in batch])
        for pick, input_tokens, replied in zip(batch, prompt_tokens, reply_tokens, strict=True):
            output_tokens = pick.row.output_tokens or max(1, replied)
            if dataset.fits is None or dataset.fits(input_tokens, output_tokens):
                yield _prompt(pick, workload, output_tokens, input_tokens)


def _prompt(pick: _Pick, workload: Workload, output_tokens: int | None, text_tokens: int | None = None) -> Prompt:
    row = pick.row
    return Prompt(
        prompt_id=id_of_messages(row.messages) if row.messages else id_of_text(row.text),
        category=row.category,
        text=row.text,
        messages=row.messages,
        output_tokens=output_tokens if workload.own_output_lengths else None,
        arrival_s=pick.arrival_s,
        text_tokens=text_tokens,
        expected=row.expected,
        json_schema=row.json_schema,
    )


_SYNTHETIC_FIELDS = ("input_tokens", "prefix_tokens", "num_prefixes")


def check_workload(
    settings: Settings, workload: Workload, count: int, *, target: str | None = None, trace: bool = False
) -> None:
    """Raise UserError unless `load_prompts` can return `count` prompts, with arrival times for a `trace`.

    `target` is the model whose tokenizer will count. The file of a registered dataset is not read for this.
    """
    resolved = resolve(settings, workload.dataset)
    check_fields(resolved.dataset, workload)
    stock = None if resolved.dataset.make is not None else resolved.stock()
    if stock is not None:
        check_stock(workload, stock, count)
    if trace and (stock is None or not stock.has_times):
        raise UserError(f"dataset {workload.dataset} records no arrival times to replay: try burstgpt")
    counts = stock is None or stock.has_lengths_only or resolved.dataset.fits is not None
    if target is not None and (counts or (workload.own_output_lengths and stock is not None and stock.has_replies)):
        check_tokenizer(settings.models_dir, target)


def known_session_length(settings: Settings, workload: Workload) -> SessionLength:
    """Return the length of the workload's sessions from its dataset, or an assumption if the dataset is not here."""
    if workload.sessions is None:
        return SessionLength()
    try:
        resolved = resolve(settings, workload.dataset)
        stock = None if resolved.dataset.make is not None else resolved.stock()
    except UserError:
        stock = None
    if stock is None:
        return session_length(workload)
    chosen = [turns for category, turns in stock.turns.items() if workload.category in (None, category)]
    added: Counter[int] = Counter()
    for turns in chosen:
        added.update(turns)
    return session_length(workload, added, stock.wait_s)


def check_fields(dataset: Dataset, workload: Workload) -> None:
    """Raise UserError for a field that does not apply to this dataset, and for a missing one that it needs."""
    if workload.sessions is not None and dataset.make is not None:
        raise UserError(f"dataset {dataset.name} has no conversations to replay: leave sessions out")
    if dataset.make is None:
        if wrong := [name for name in _SYNTHETIC_FIELDS if getattr(workload, name) is not None]:
            raise UserError(f"{' and '.join(wrong)} only apply to random and prefix_repetition, not {workload.dataset}")
        return
    if workload.category not in (None, synthetic.CATEGORY):
        raise UserError(f"dataset {dataset.name} has no categories: leave category out")
    if workload.own_output_lengths:
        raise UserError(f"dataset {dataset.name} records no output lengths: leave own_output_lengths out")
    if dataset.make is synthetic.random_prompts:
        if workload.input_tokens is None:
            raise UserError(f"dataset {dataset.name} needs input_tokens, the length of each prompt")
        if workload.prefix_tokens is not None or workload.num_prefixes is not None:
            raise UserError("prefix_tokens and num_prefixes belong to dataset prefix_repetition")


def check_stock(workload: Workload, stock: Stock, count: int) -> None:
    """Raise UserError if a file does not hold what the workload needs."""
    if workload.category is not None and workload.category not in stock.categories:
        names = ", ".join(stock.categories)
        hint = f"its categories are {names}" if names else "its prompts have no category: leave category out"
        raise UserError(f"dataset {workload.dataset} has no category {workload.category!r}; {hint}")
    if workload.own_output_lengths and not stock.has_output_lengths:
        raise UserError(
            f"dataset {workload.dataset} does not record an output length for each prompt: leave own_output_lengths out"
        )
    if workload.score == UNIT_TESTS and not stock.has_tests:
        raise UserError(
            f"dataset {workload.dataset} has no tests to score by {UNIT_TESTS}: give its rows `expected` with Python "
            "that asserts, or leave score out"
        )
    if workload.score in COMPARED and not stock.has_expected:
        raise UserError(
            f"dataset {workload.dataset} has no expected answers to score by {workload.score}: give its rows "
            "`expected`, or leave score out"
        )
    if workload.sessions is not None and not stock.sessions:
        raise UserError(
            f"dataset {workload.dataset} has no conversation of several turns: leave sessions out, or use one like "
            "mt_bench, sharegpt, or messages of your own"
        )
    if workload.sessions is not None and workload.sessions.answers == "recorded" and not _replays(stock):
        raise UserError(f'dataset {workload.dataset} records no answers to replay: use sessions with answers = "own"')
    prompts = stock.rows if workload.category is None else stock.categories[workload.category]
    if count > prompts:
        raise UserError(too_few(workload, prompts, count))


def _replays(stock: Stock) -> bool:
    """Return whether recorded answers can be replayed; a trace without texts replays random tokens instead."""
    return stock.has_recorded_answers or stock.has_lengths_only


def too_few(workload: Workload, available: int, count: int) -> str:
    dataset = f"dataset {workload.dataset}" + (f", category {workload.category}," if workload.category else "")
    return f"{dataset} has {available} prompts, but num_prompts asks for {count}: ask for {available} at most"
