"""Hypothesis strategies for whole studies: every field that a user may set, with hostile names."""

from __future__ import annotations

from hypothesis import strategies as st

from lab.study import Arm, Load, Sampling, Slo, Speculation, Study, Workload

names = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=30).filter(
    str.strip
)
positive = st.floats(min_value=0.01, max_value=1e6, allow_nan=False)
arrivals = st.one_of(
    st.fixed_dictionaries({"request_rate_rps": st.none() | positive}),
    st.fixed_dictionaries({"request_rate_rps": positive, "burstiness": positive}),
    st.fixed_dictionaries({"request_rate_rps": positive, "arrivals": st.sampled_from(["constant", "trace"])}),
    st.fixed_dictionaries({"request_rate_rps": positive, "ramp_to_rps": positive, "arrivals": st.just("ramp")}),
)
ends = st.fixed_dictionaries(
    {"duration_s": st.none() | st.floats(1, 600), "stop_on_error_share": st.none() | st.floats(0.01, 0.99)}
)
loads = st.builds(
    lambda concurrency, more, arriving, ending: Load(
        max_concurrency=concurrency, num_prompts=concurrency + more, **arriving, **ending
    ),
    st.integers(1, 512),
    st.integers(0, 1000),
    arrivals,
    ends,
)
settings = st.dictionaries(
    names,
    st.recursive(
        st.booleans() | st.integers(-5, 5) | names,
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=2),
    ),
    max_size=2,
)
speculations = st.builds(
    Speculation,
    method=st.sampled_from(["draft_model", "eagle3"]),
    model=names,
    num_speculative_tokens=st.integers(1, 9),
    options=settings,
)
flags = st.dictionaries(names, st.booleans() | st.integers(-5, 5) | names, max_size=3)
studies = st.builds(
    lambda name, target, arm, others, workloads, loads, **rest: Study(
        name=name, target=target, arms=(arm, *others), workloads=workloads, loads=loads, **rest
    ),
    names,
    names,
    st.builds(Arm, name=names.map(lambda name: f"baseline {name}"), baseline=st.just(value=True), flags=flags),
    st.lists(
        st.builds(
            Arm,
            name=names,
            speculation=speculations,
            config=settings,
            environment=st.dictionaries(names, names, max_size=2),
        ),
        max_size=3,
        unique_by=lambda arm: arm.name,
    ),
    st.lists(st.builds(Workload, category=st.none() | names), min_size=1, max_size=2, unique_by=lambda w: w.name),
    st.lists(loads, min_size=1, max_size=3, unique_by=lambda load: load.name),
    repeats=st.integers(1, 5),
    order=st.sampled_from(["interleaved", "fewest_launches"]),
    sampling=st.builds(Sampling, temperature=st.floats(0, 2)),
    slo=st.builds(Slo, ttft_ms=st.none() | positive),
    price_usd_per_hour=st.none() | positive,
)
