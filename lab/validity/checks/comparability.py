"""Checks that the arms of a study differ from their baseline in speculation alone.

What is unknown for one of the two runs is not compared.
"""

from __future__ import annotations

import math
import re
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from lab.metrics.records import RunRecord
from lab.validity.check import Answers, Fired, StudyCheck
from lab.validity.evidence import Lengths, StudyRun, number
from lab.validity.words import listed, percent

#: Parts of an effective configuration that always differ between arms, or that only concern observation.
NOT_COMPARED = re.compile(
    r"spec|draft|non_default_args|model_tag|served_model_name|\bport\b|_port\b|observability|log|metric|cache_dir|"
    r"debug_dump|random_seed|dist_init|nccl|watchdog",
    re.IGNORECASE,
)
#: `'key': value` or `key=value` inside a setting; enough to say which part of a long one differs.
_PART = re.compile(r"'?(?P<name>\w+)'?(?:: |=)(?P<value>\[[^\[\]]*\]|<[^<>]*>|[^,{}()]*)")
_SHOWN_CHARS = 40
#: How much prompt tokens of the same prompts may differ between arms: per prompt, and as a share for a warning and for
#: an invalid finding. A begin-of-text token that one engine does not count is one.
TEMPLATE_TOKENS, PROMPTS_WARNING, PROMPTS_INVALID = 2, 0.01, 0.1
#: How much text a token may differ between arms, beyond this many standard errors over this many prompts.
TEXT_APART, ERRORS, LEAST_PROMPTS = 0.1, 4.0, 16


def conditions(baseline: RunRecord, other: RunRecord) -> Iterator[str]:
    """Yield differences in hardware, target, sampling, endpoint and prompts."""
    expected, actual = baseline.circumstances, other.circumstances
    pairs = {
        "hardware": (expected.hardware, actual.hardware),
        "GPUs": (_kinds(expected.gpus), _kinds(actual.gpus)),
        "target": (expected.target_digest or expected.target_revision, actual.target_digest or actual.target_revision),
        "sampling": (str(baseline.sampling), str(other.sampling)),
        "endpoint": (baseline.endpoint, other.endpoint),
        "seed": (baseline.prompts_seed, other.prompts_seed),
        "prompts": (_workload(baseline), _workload(other)),
    }
    yield from _differing(pairs)


def engines(baseline: RunRecord, other: RunRecord) -> Iterator[str]:
    """Yield differences in engine, version and driver."""
    expected, actual = baseline.circumstances, other.circumstances
    yield from _differing(
        {
            "engine": (expected.engine, actual.engine),
            "version": (expected.engine_version, actual.engine_version),
            "driver": (expected.driver_version, actual.driver_version),
        }
    )


def changed_settings(baseline: RunRecord, other: RunRecord) -> Iterator[str]:
    """Yield differences in effective configuration and environment, within one engine."""
    expected, actual = baseline.circumstances, other.circumstances
    if expected.engine != actual.engine:
        return
    for name in ("effective_config", "environment"):
        ours, theirs = getattr(expected, name), getattr(actual, name)
        if ours and theirs:
            yield from _settings(ours, theirs)


def _settings(ours: Mapping[str, str], theirs: Mapping[str, str]) -> Iterator[str]:
    for name in sorted({*ours, *theirs}):
        our_value, their_value = ours.get(name, "not set"), theirs.get(name, "not set")
        if our_value == their_value or NOT_COMPARED.search(name):
            continue
        inner = _parts(our_value), _parts(their_value)
        if all(inner):
            yield from (f"{name}.{part}" for part in _settings(*inner))
        else:
            yield f"{name} {_short(our_value)} -> {_short(their_value)}"


def _parts(value: str) -> Mapping[str, str]:
    """Return the settings within a setting; none without braces."""
    return {match["name"]: match["value"].strip() for match in _PART.finditer(value)} if "{" in value else {}


def _differing(pairs: Mapping[str, tuple[object, object]]) -> Iterator[str]:
    for name, (ours, theirs) in pairs.items():
        if ours != theirs and ours not in (None, ()) and theirs not in (None, ()):
            yield f"{name} {_short(str(ours))} -> {_short(str(theirs))}"


def _kinds(gpus: tuple[str, ...]) -> tuple[str, ...]:
    """Return the model names of the GPUs; which device of a model it was does not matter."""
    return tuple(sorted(gpu.partition(" (")[0] for gpu in gpus))


def _workload(run: RunRecord) -> str | None:
    return None if run.identity is None else run.identity.workload_id


def _short(value: str) -> str:
    return value if len(value) <= _SHOWN_CHARS else value[: _SHOWN_CHARS - 1] + "…"


def _fired(
    runs: Sequence[StudyRun], differences: Callable[[RunRecord, RunRecord], Iterator[str]], difference: str
) -> Answers:
    """Report each set of differences once, however many pairs of runs share it."""
    runs_of: dict[tuple[str, ...], list[RunRecord]] = defaultdict(list)
    for pair in pairs(runs):
        baseline, candidate = (study_run.run for study_run in pair)
        if named := tuple(differences(baseline, candidate)):
            runs_of[named] += [baseline, candidate]
    return [
        Fired(
            f"Arms {listed(arms_of(pair))} {difference} than the baseline: {listed(list(named), 5)}.",
            run_ids=ids_of(pair),
        )
        for named, pair in runs_of.items()
    ]


def by_workload_and_load(runs: Iterable[StudyRun]) -> list[list[StudyRun]]:
    """Group runs by study, workload and load."""
    grouped: dict[tuple[str, ...], list[StudyRun]] = defaultdict(list)
    for study_run in runs:
        run = study_run.run
        grouped[run.study_id, run.workload.name, run.load.name].append(study_run)
    return list(grouped.values())


def pairs(runs: Sequence[StudyRun]) -> Iterator[tuple[StudyRun, StudyRun]]:
    """Pair each candidate's run with the baseline's run of the same cell and, if there is one, the same repeat."""
    for cell in by_workload_and_load(runs):
        baselines = [study_run for study_run in cell if study_run.run.is_baseline]
        for study_run in cell:
            if baselines and not study_run.run.is_baseline:
                yield min(baselines, key=lambda other: abs(other.run.repeat - study_run.run.repeat)), study_run


def arms_of(runs: Sequence[RunRecord]) -> list[str]:
    return list(dict.fromkeys(repr(run.arm.name) for run in runs if not run.is_baseline))


def ids_of(runs: Sequence[RunRecord]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(run.run_id for run in runs))


#: A prompt's lengths in the baseline's run and in the arm's.
_Both = tuple[Lengths, Lengths]


def _shared(runs: Sequence[StudyRun]) -> Iterator[tuple[str, list[StudyRun], list[_Both]]]:
    """Yield each arm with its runs and the baseline's, and the lengths of prompts that both answered in a pair."""
    runs_of: dict[str, list[StudyRun]] = defaultdict(list)
    lengths_of: dict[str, list[_Both]] = defaultdict(list)
    for baseline, candidate in pairs(runs):
        ours, theirs = baseline.lengths or {}, candidate.lengths or {}
        arm = candidate.run.arm.name
        runs_of[arm] += [baseline, candidate]
        lengths_of[arm] += [(ours[prompt], theirs[prompt]) for prompt in ours if prompt in theirs]
    for arm, both in lengths_of.items():
        yield arm, runs_of[arm], both


def _prompt_tokens(runs: Sequence[StudyRun]) -> Answers:
    for arm, of_arm, both in _shared(runs):
        counted = [
            (ours.prompt_tokens, theirs.prompt_tokens)
            for ours, theirs in both
            if ours.prompt_tokens is not None and theirs.prompt_tokens is not None
        ]
        apart = [theirs - ours for ours, theirs in counted if ours != theirs]
        expected = sum(ours for ours, _ in counted)
        share = abs(sum(apart)) / max(1, expected)
        if not apart or share <= PROMPTS_WARNING or abs(statistics.median(apart)) <= TEMPLATE_TOKENS:
            continue
        yield Fired(
            f"Arm {arm!r} read {expected + sum(apart)} prompt tokens where the baseline read {expected}, for the "
            f"same prompts ({len(apart)} of {len(counted)} differ, by {statistics.median(apart):+g} in the "
            "median): prompts are cut, or come in another template or tokenizer.",
            "invalid" if share > PROMPTS_INVALID else "warning",
            ids_of([study_run.run for study_run in of_arm]),
        )


def _text_a_token(runs: Sequence[StudyRun]) -> Answers:
    for arm, of_arm, both in _shared(runs):
        ratios = [
            math.log(theirs.output_chars / theirs.output_tokens / (ours.output_chars / ours.output_tokens))
            for ours, theirs in both
            if ours.output_tokens and theirs.output_tokens and ours.output_chars and theirs.output_chars
        ]
        if len(ratios) < LEAST_PROMPTS:
            continue
        mean, error = statistics.fmean(ratios), statistics.stdev(ratios) / math.sqrt(len(ratios))
        if abs(mean) <= math.log1p(TEXT_APART) + ERRORS * error:
            continue
        yield Fired(
            f"A token of arm {arm!r} holds {math.exp(mean):.3g} times the text of one of the baseline (geometric "
            f"mean over {len(ratios)} answers to the same prompts): they count other tokens. Tokens a second do "
            f"not compare; multiplied by {math.exp(mean):.3g}, their ratio is that of characters a second.",
            run_ids=ids_of([study_run.run for study_run in of_arm]),
        )


def _not_answered(runs: Sequence[StudyRun]) -> Answers:
    left: dict[str, list[Lengths]] = defaultdict(list)
    others: dict[str, list[Lengths]] = defaultdict(list)
    runs_of: dict[str, list[RunRecord]] = defaultdict(list)
    for baseline, candidate in pairs(runs):
        ours, theirs, arm = baseline.lengths or {}, candidate.lengths or {}, candidate.run.arm.name
        if not ours or not theirs or baseline.run.load.arrivals == "trace":
            continue
        failed = number(candidate.metrics, "requests_failed")
        left_here = [lengths for prompt, lengths in ours.items() if prompt not in theirs] if failed else []
        left[arm] += left_here
        others[arm] += [lengths for prompt, lengths in ours.items() if prompt in theirs]
        runs_of[arm] += [baseline.run, candidate.run] if left_here else []
    return [
        Fired(
            f"Arm {arm!r} failed {len(lengths)} of {len(lengths) + len(others[arm])} requests that the baseline "
            f"answered{_how_long(lengths, others[arm])}: its figures are those of the other prompts, the baseline's "
            "of all.",
            run_ids=ids_of(runs_of[arm]),
        )
        for arm, lengths in left.items()
        if lengths
    ]


def _how_long(left: Sequence[Lengths], others: Sequence[Lengths]) -> str:
    medians = [
        statistics.median(tokens)
        for lengths in (left, others)
        if (tokens := [each.prompt_tokens for each in lengths if each.prompt_tokens is not None])
    ]
    if len(medians) < 2:
        return ""
    return f", with {medians[0]:g} prompt tokens in the median against {medians[1]:g} of the others"


_SAME = "Measure both arms in one study on one machine, at the same revision of everything but speculation."
CHECKS = (
    StudyCheck(
        name="baseline_of_other_conditions",
        traps=(5, 22),
        severity="invalid",
        looks_at=("circumstances", "sampling", "endpoint", "prompts_seed", "identity"),
        threshold="any difference in hardware, target, sampling, endpoint, prompts or seed between a run and its "
        "baseline",
        why="The ratio then mixes the effect of speculation with another one.",
        advice=_SAME,
        rule=lambda runs: _fired(runs, conditions, "were measured under other conditions"),
    ),
    StudyCheck(
        name="baseline_of_other_engine",
        traps=(22,),
        severity="warning",
        looks_at=("circumstances.engine", "circumstances.engine_version", "circumstances.driver_version"),
        threshold="any difference in engine, engine version or driver version",
        why="If that is not intended: the speed-up then combines engine and speculation.",
        advice="Add an arm without speculation on the same engine as the baseline.",
        rule=lambda runs: _fired(runs, engines, "ran on another engine"),
    ),
    StudyCheck(
        name="settings_differ",
        traps=(15, 22),
        severity="warning",
        looks_at=("circumstances.effective_config", "arm.flags", "circumstances.environment"),
        threshold="any part of the effective configuration that differs, except speculation, names, ports and "
        "observability",
        why="Turning on speculation changes other settings, such as the token budget or the captured graphs.",
        advice="Set what is named to the same value for both arms, or state that it is part of the comparison.",
        rule=lambda runs: _fired(runs, changed_settings, "have other settings, apart from speculation,"),
    ),
    StudyCheck(
        name="prompt_tokens_differ",
        traps=(5, 19, 22),
        severity="invalid",
        looks_at=("prompt_tokens", "prompt_id", "is_baseline"),
        threshold="for the same prompts (each run's first requests) the arms read different numbers of tokens, by "
        f"more than {TEMPLATE_TOKENS} in the median of those that differ: a warning above {percent(PROMPTS_WARNING)} "
        f"of all prompt tokens, invalid above {percent(PROMPTS_INVALID)}",
        why="A server that cut all prompts to 64 tokens was 1.54 times as fast.",
        advice="Use the same max_model_len, chat template and tokenizer in both arms, or one engine.",
        rule=_prompt_tokens,
    ),
    StudyCheck(
        name="text_per_token_differs",
        traps=(8,),
        severity="invalid",
        looks_at=("output_text", "completion_tokens", "prompt_id", "is_baseline"),
        threshold="characters per output token differ between arm and baseline, over the same prompts, by more than "
        f"{percent(TEXT_APART)} and {ERRORS:g} standard errors ({LEAST_PROMPTS} prompts or more)",
        why="Another tokenizer, or a usage that counts something else, can make an arm look twice as fast.",
        advice="Serve the same tokenizer in both arms. Until then compare characters per second, or E2E of equal "
        "texts.",
        rule=_text_a_token,
    ),
    StudyCheck(
        name="prompts_not_answered",
        traps=(11,),
        severity="warning",
        looks_at=("prompt_tokens", "prompt_id", "error", "is_baseline"),
        threshold="any prompt that the baseline answered and the arm failed (each run's first requests)",
        why="A server that refuses the longest prompts does less work.",
        advice="Leave prompts out of the dataset that one arm failed, and measure again.",
        rule=_not_answered,
    ),
)
