"""Scale a study down to the reference pair, so that it runs in minutes on a machine without a GPU.

It shows that a study runs from end to end and what its results look like; its figures are those of the reference pair.
"""

from __future__ import annotations

import itertools
from collections.abc import Container

from lab.study import Arm, FlagValue, Load, Sessions, Speculation, Study, Workload, tune
from lab.study.methods import method_of, spoken_name
from lab.study.workload import RANDOM_LENGTHS

TARGET = "reference"
#: The reference pair's drafts by method: a separate model, and a head on the target's hidden states.
DRAFTS = {"draft_model": "reference-draft", "eagle3": "reference-eagle3"}
_MODEL, _HEAD = DRAFTS.items()
#: Flags an engine needs on a CPU. Greedy outputs with and without a draft are equal only in float32.
FLAGS: dict[str, dict[str, FlagValue]] = {
    "vllm": {
        "max-model-len": 1024,
        "max-num-seqs": 32,
        "enforce-eager": True,
        "dtype": "float32",
        "enable-prefix-caching": False,
    },
    "transformers": {"dtype": "float32"},
}
#: Keys of an engine's YAML file that mean the same on a CPU.
_CONFIG_KEYS = ("async-scheduling", "max-num-batched-tokens", "no-enable-prefix-caching", "stream-interval")
#: Datasets whose file must be fetched or is too long; a small sample ships under another name.
SAMPLED = (
    *("sharegpt", "spec_bench", "mt_bench", "burstgpt", "swe_bench", "mlperf_summarisation", "gsm8k"),
    "summarisation",
)
_SHORTER, _MIN_OUTPUT_TOKENS, _MAX_OUTPUT_TOKENS, _MIN_INPUT_TOKENS = 64, 8, 32, 8
_ROOT, _MAX_STREAMS, _SEARCH_PROMPTS = 0.4, 8, 40


def reference_version(study: Study) -> Study:
    """Return the study with the arms, workloads and loads that the reference pair can serve on a CPU.

    Engines that need a GPU become transformers, and draft models those of the reference pair; arms that become equal
    are measured once. Sampling becomes greedy: vLLM's build for CPUs samples wrong with speculation
    (docs/reading_results.md, Distributions). A study of the reference model is returned as it is.
    """
    if study.target == TARGET:
        return study
    loads = tuple({load.name: load for load in map(_load, study.loads)}.values())
    if study.tune is not None:
        loads = tuple({load.max_concurrency: load for load in loads}.values())
    return Study(
        name=f"{study.name} (reference)",
        target=TARGET,
        arms=_arms(study),
        workloads=tuple({workload.name: workload for workload in map(_workload, study.workloads)}.values()),
        loads=loads,
        order=study.order,
        fresh_starts=study.fresh_starts,
        seed=study.seed,
        endpoint=study.endpoint,
        sampling=study.sampling.model_copy(update={"temperature": 0.0}),
        slo=study.slo,
        price_usd_per_hour=study.price_usd_per_hour,
        tune=study.tune and study.tune.model_copy(update={"beside": ()}),
    )


def _arms(study: Study) -> tuple[Arm, ...]:
    """Return the arms that still differ, renamed after what they are now; the baseline among them is marked."""
    arms = _arms_to_scale(study)
    drafts = list(dict.fromkeys(arm.speculation.model for arm in arms if arm.speculation))
    heads = tuple(model for model in drafts if model is not None)[:1]
    small = {arm.name: _arm(arm, heads) for arm in arms}
    marked = small[study.baseline.name]
    different = list({arm.digest(): arm for arm in small.values()}.values())
    several = len({arm.engine for arm in different}) > 1
    named: dict[str, Arm] = {}
    for arm in different:
        name = _name(arm, several_engines=several, taken=named)
        named[name] = arm.model_copy(update={"name": name, "baseline": arm == marked})
    return tuple(named.values())


def _arms_to_scale(study: Study) -> tuple[Arm, ...]:
    """Return the arms to scale; a tuned arm gets one number of tokens, so that drafts that become equal merge."""
    if study.tune is None:
        return study.arms
    tuned = tune.drafts(study.arms, study.tune)
    return (study.baseline, *(draft.with_tokens(study.tune.drafted_tokens[-1]) for draft in tuned))


def _arm(arm: Arm, heads: tuple[str, ...]) -> Arm:
    """Return the scaled-down arm under a fixed name, so that arms that become the same compare equal."""
    engine = arm.engine if arm.engine in FLAGS else ("vllm" if arm.server else "transformers")
    return Arm(
        name="any",
        engine=engine,
        speculation=_speculation(arm.speculation, engine, heads) if arm.speculation else None,
        flags=FLAGS[engine],
        config={key: value for key, value in arm.config.items() if key in _CONFIG_KEYS} if engine == "vllm" else {},
    )


def _name(arm: Arm, *, several_engines: bool, taken: Container[str]) -> str:
    drafts = arm.speculation
    name = spoken_name(None, None) if drafts is None else spoken_name(drafts.method, drafts.num_speculative_tokens)
    name = f"{arm.engine}, {name}" if several_engines else name
    others = (f"{name} ({number})" for number in itertools.count(2))
    return next(free_name for free_name in itertools.chain((name,), others) if free_name not in taken)


def _speculation(speculation: Speculation, engine: str, heads: tuple[str, ...]) -> Speculation:
    """Scale a draft down: a study's first becomes the head, if the engine supports heads, every other the model."""
    tokens = speculation.num_speculative_tokens
    if (drafts_by := method_of(speculation.method)).draft_model == "refused":
        longest = speculation.prompt_lookup_max if drafts_by.looks_up else None
        shortest = speculation.prompt_lookup_min if longest and engine == "vllm" else None
        return Speculation(
            method="ngram", num_speculative_tokens=tokens, prompt_lookup_min=shortest, prompt_lookup_max=longest
        )
    with_head = engine == "vllm" and speculation.method != "draft_model" and speculation.model in (None, *heads)
    method, model = _HEAD if with_head else _MODEL
    return Speculation(method=method, model=model, num_speculative_tokens=tokens)


def _workload(workload: Workload) -> Workload:
    """Shrink lengths by a fixed factor, so that longer stays longer; categories stay whole."""
    is_random = workload.dataset in RANDOM_LENGTHS
    dataset = f"{workload.dataset}_sample" if workload.dataset in SAMPLED else workload.dataset
    output_tokens = min(max(workload.output_tokens // _SHORTER, _MIN_OUTPUT_TOKENS), _MAX_OUTPUT_TOKENS)
    return Workload(
        dataset="random" if is_random else dataset,
        category=workload.category,
        input_tokens=_shorter(workload.input_tokens),
        prefix_tokens=_shorter(workload.prefix_tokens),
        num_prefixes=workload.num_prefixes,
        output_tokens=output_tokens,
        own_output_lengths=workload.own_output_lengths,
        ignore_eos=workload.ignore_eos,
        score=workload.score,
        sessions=workload.sessions and _sessions(workload.sessions),
    )


def _sessions(sessions: Sessions) -> Sessions:
    """Return the same turns without think time, which the machine would spend idle."""
    return sessions.model_copy(update={"think": "none", "think_s": None})


def _shorter(tokens: int | None) -> int | None:
    return None if tokens is None else max(tokens // _SHORTER, _MIN_INPUT_TOKENS)


def _load(load: Load) -> Load:
    """Scale a load down; a sweep stays a sweep: 1, 2, 4, 5, 6, 8 for 1, 5, 25, 50, 100, 200.

    Each stream answers once, with at least two prompts in all. A search has enough for a share of them to be judged.
    """
    streams = min(round(load.max_concurrency**_ROOT), _MAX_STREAMS)
    swept = f" c{load.max_concurrency}"
    label = load.label
    if label is not None and label.endswith(swept):
        label = f"{label.removesuffix(swept)} c{streams}"
    prompts = max(streams, 2) if load.find is None else min(load.num_prompts, _SEARCH_PROMPTS)
    changes = {"label": label, "max_concurrency": streams, "num_prompts": prompts, "find_from": None}
    return load.model_copy(update=changes)
