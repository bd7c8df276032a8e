"""A synthetic warehouse of any size: its tables come from the migrations, its rows from SQL over `range` and seeded
hashes.

Every job has 4 arms at 5 concurrencies, 5 repeats each. Rows are copies of one real record with the varying values
replaced, so no column is missing. A request is short (two chunks and a text of 20 letters: a hundred bytes) or
realistic (128 chunk times, 500 letters, 128 token ids: as many bytes as a real one). Rows lie in groups as the ingester
leaves them.
"""

# ruff: noqa: S608 - no user's text is in this SQL
from __future__ import annotations

import functools
import math
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb

from benchmarks.processes import own_home
from host.settings import Settings
from lab.metrics.histogram import GROWTH
from lab.metrics.measure import measure
from lab.metrics.records import Circumstances, RequestRecord, RunRecord, ServerCounters, TelemetrySample
from lab.metrics.request_table import RequestTable
from lab.study import Arm, Load, Study, Workload
from lab.study.cell_ids import Contents, identity
from warehouse.ingest.row_groups import RUNS_A_GROUP, merge_groups
from warehouse.migrate import migrate
from warehouse.schema.column import rows
from warehouse.schema.request_columns import TELEMETRY_COLUMNS, request_rows
from warehouse.schema.run_columns import RUN_COLUMNS
from warehouse.schema.tables import METRIC_COLUMNS

ARMS, CONCURRENCIES, REPEATS = 4, (1, 4, 16, 64, 256), 5
RUNS_A_JOB = ARMS * len(CONCURRENCIES) * REPEATS
_SAMPLES = 60  # of telemetry, a run
_TOKENS = 128
_SYLLABLES = ("ba", "con", "de", "fi", "gor", "ha", "li", "mon", "ne", "po", "ra", "ser", "ti", "ul", "ve", "zo")
_WORDS = [one + other for one in _SYLLABLES for other in _SYLLABLES]
_VOCABULARY = 151_936
#: Words in an output: with the spaces between them 500 letters.
_TEXT_WORDS = 91


@dataclass(frozen=True)
class Size:
    """The size of the warehouse: `jobs` of 100 runs, and the requests of each run."""

    jobs: int = 50
    requests_per_run: int = 2000
    seed: int = 0
    realistic: bool = False  # whether requests have as many chunks, letters and token ids as in a real study

    @property
    def runs(self) -> int:
        return self.jobs * RUNS_A_JOB

    @property
    def requests(self) -> int:
        return self.runs * self.requests_per_run


def fill(settings: Settings, size: Size) -> None:
    """Create both databases of the home, and fill the warehouse that is published there."""
    migrate(settings)
    with duckdb.connect(settings.warehouse_file, config={"max_vacuum_tasks": 0}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        _register(connection)
        connection.execute(_PLAN.format(jobs=size.jobs, seed=size.seed))
        connection.execute(_JOBS)
        connection.execute(_JUDGED)
        connection.execute(_PROMPT_LISTS.format(requests=size.requests_per_run))
        wide = (_REALISTIC if size.realistic else _SHORT).format(seed=size.seed)
        for part in range(math.ceil(size.runs / RUNS_A_GROUP)):
            for sql in (_RUNS, _REQUESTS, _LISTS, _METRICS, _HISTOGRAMS, _TELEMETRY, _VERDICTS, _FINDINGS):
                connection.execute(sql.format(part=part, requests=size.requests_per_run, seed=size.seed, wide=wide))
            connection.execute("CHECKPOINT")
            if merge_groups(connection):
                connection.execute("CHECKPOINT")
    settings.master_file.unlink(missing_ok=True)  # the ingester copies what is published


@contextmanager
def filled_home(settings: Settings, size: Size) -> Iterator[Settings]:
    """Create a temporary home with such a warehouse. Homes of one size are copies, because ten million realistic
    requests take minutes.
    """
    with own_home(settings) as own:
        command = ["cp", "-a", "--reflink=auto", f"{_filled(size).name}/.", str(own.home)]
        subprocess.run(command, check=True)
        yield own


@functools.cache
def _filled(size: Size) -> tempfile.TemporaryDirectory[str]:
    """Fill a home once per process and size; its folder is removed when the process ends."""
    folder = tempfile.TemporaryDirectory(prefix="drafthouse-filled-")
    print(f"filling a warehouse with {size.requests:,} requests", file=sys.stderr)
    fill(Settings(home=Path(folder.name)), size)
    return folder


def made_run(run_id: str) -> RunRecord:
    """Return a run of a study that is not in the synthetic warehouse."""
    study = _study()
    named = {"run_id": run_id, "cell_key": run_id, "job_id": "added", "study_id": "added", "study_name": "added"}
    return _run(study).model_copy(update=named | {"duration_s": 30.0})


def made_requests(count: int, seed: str) -> list[RequestRecord]:
    """Return realistic requests."""
    draw = random.Random(seed)  # noqa: S311 - made data
    base = _request()
    return [
        replace(
            base,
            index=number,
            prompt_id=f"prompt {number}",
            prompt=f"What is {number} times 97?",
            sent_s=number / 100,
            intended_send_s=number / 100,
            first_token_s=number / 100 + 0.1,
            end_s=number / 100 + 0.1 + _TOKENS / 100,
            chunk_s=tuple(number / 100 + 0.1 + (place + draw.random()) / 100 for place in range(_TOKENS)),
            chunk_tokens=(1,) * _TOKENS,
            output_text=" ".join(draw.choices(_WORDS, k=_TEXT_WORDS)),
            output_token_ids=tuple(draw.randrange(_VOCABULARY) for _ in range(_TOKENS)),
        )
        for number in range(count)
    ]


def _study() -> Study:
    return Study(
        name="made",
        target="made",
        arms=(Arm(name="arm 0"),),
        workloads=(Workload(output_tokens=_TOKENS),),
        loads=(Load(max_concurrency=1, num_prompts=1),),
    )


def _register(connection: duckdb.DuckDBPyConnection) -> None:
    """Insert one row into each table, of a run as the worker records it."""
    run, requests = _run(_study()), RequestTable.of([_request()])
    sample = TelemetrySample(1.0, loop_lag_ms=0.5, requests_in_flight=1, requests_done=1, chunks_received=2)
    templates = {
        "a_run": rows(RUN_COLUMNS, [run]),
        "a_request": request_rows(requests),
        "a_sample": rows(TELEMETRY_COLUMNS, [sample]),
        "a_measured": rows(METRIC_COLUMNS, [measure(run, requests, [sample])]),
    }
    for name, table in templates.items():
        connection.register("incoming", table)
        connection.execute(f"CREATE TEMP TABLE {name} AS SELECT * FROM incoming")
        connection.unregister("incoming")


def _run(study: Study) -> RunRecord:
    arm, workload, load = study.arms[0], study.workloads[0], study.loads[0]
    around = Circumstances(
        hardware="made", host="made", cpu_count=1, memory_bytes=1, os="Linux", python_version="3", target_path="made",
        drafthouse_revision=None, engine="vllm", engine_version="0", command=("serve",), start_s=30.0,
    )  # fmt: skip
    positions = ServerCounters(num_drafts=0.0, num_accepted_tokens_per_position=(0.0, 0.0, 0.0))
    return RunRecord(
        run_id="", cell_key="", job_id="", study_id="", study_name="", target="made", arm=arm, is_baseline=False,
        workload=workload, load=load, sampling=study.sampling, slo=study.slo, endpoint="completions", repeat=0,
        launch_index=0, attempt=0, status="completed", started_at="2026-01-01T00:00:00+00:00", duration_s=1.0,
        warmup_requests=4, warmup_s=1.0, prompts_seed=0, identity=identity(study, arm, workload, load, Contents()),
        counters_before=positions, counters_after=positions, circumstances=around,
    )  # fmt: skip


def _request() -> RequestRecord:
    return RequestRecord(
        index=0, prompt_id="", category="code", prompt="", requested_output_tokens=_TOKENS, intended_send_s=0.0,
        sent_s=0.0, first_token_s=0.1, end_s=1.0, chunk_s=(0.1, 1.0), chunk_tokens=(1, _TOKENS - 1), prompt_tokens=200,
        completion_tokens=_TOKENS, finish_reason="length", error=None, output_text="",
    )  # fmt: skip


#: Values that differ between runs. `place` is the run's number, `draw` is between 0 and 1.
_PLAN = f"""
    CREATE TEMP TABLE plan AS
    SELECT place, place // {RUNS_A_JOB} AS job, place // {RUNS_A_GROUP} AS part, place % {ARMS} AS arm,
        {list(CONCURRENCIES)}[1 + place // {ARMS} % {len(CONCURRENCIES)}] AS concurrency,
        place // {ARMS * len(CONCURRENCIES)} % {REPEATS} AS repeat,
        format('20260101-{{{{:05d}}}}', job) AS job_id, format('{{{{}}}}-{{{{:07d}}}}', job_id, place) AS run_id,
        hash(place, {{seed}}) % 1000003 / 1000003 AS draw
    FROM (SELECT range AS place FROM range({{jobs}} * {RUNS_A_JOB}))
"""
_RUNS = """
    INSERT INTO runs BY NAME
    SELECT a_run.* REPLACE (
        p.run_id AS run_id, p.run_id AS cell_key, p.job_id AS job_id, p.job_id AS study_id,
        'made ' || p.job AS study_name, 'arm ' || p.arm AS arm, p.arm = 0 AS is_baseline,
        CASE p.arm WHEN 0 THEN 'none' ELSE 'ngram' END AS method, nullif(p.arm, 0) AS num_speculative_tokens,
        format('{{}}-{{}}-{{}}', p.job % 10, p.arm, p.concurrency) AS cell_id, p.concurrency AS concurrency,
        'c' || p.concurrency AS pattern, p.repeat AS repeat,
        p.repeat AS launch_index, a_run.started_at + to_minutes(p.place) AS started_at,
        CASE WHEN p.place % 50 = 49 THEN 'failed' ELSE 'completed' END AS status,
        CASE WHEN p.place % 50 = 49 THEN 'the engine died' END AS error, 30 + p.draw AS window_s
    ) FROM plan AS p, a_run WHERE p.part = {part} ORDER BY p.place
"""
_JOBS = """
    INSERT INTO jobs BY NAME
    SELECT job_id, job_id AS study_id, 'made' AS name, 'done' AS state, 0 AS priority, 0 AS tries,
        TIMESTAMPTZ '2026-01-01 00:00:00+00' + to_hours(job) AS submitted_at
    FROM plan GROUP BY job, job_id ORDER BY job
"""
_JUDGED = """
    INSERT INTO study_validity BY NAME
    SELECT job_id, count(*) AS runs_judged, []::TEXT[] AS unjudged_checks FROM plan GROUP BY job_id ORDER BY job_id
"""
#: Latencies that grow with concurrency, shrink with speculation, and differ by prompt and by chance.
_REQUESTS = f"""
    INSERT INTO recent_requests BY NAME
    WITH drawn AS (
        SELECT p.*, n, 0.5 + hash(n, 1, {{seed}}) % 1000003 / 1000003 AS prompt_share,
            0.8 + 0.4 * (hash(p.place, n, 2, {{seed}}) % 1000003 / 1000003) AS chance,
            (20 + 2 * p.concurrency) * prompt_share * chance * (0.95 + 0.1 * p.draw) AS ttft,
            (8 + 0.1 * p.concurrency) * (1 - 0.1 * p.arm) * chance * (0.95 + 0.1 * p.draw) AS tpot,
            ttft + {_TOKENS - 1} * tpot AS e2e,
            CASE WHEN p.arm > 0 THEN round({_TOKENS - 1} / (1 + 0.6 * p.arm * chance))::INTEGER END AS drafts,
            (n // p.concurrency) * (20 + 2 * p.concurrency + {_TOKENS - 1} * (8 + 0.1 * p.concurrency)) / 1000 AS at_s
        FROM plan AS p, (SELECT range AS n FROM range({{requests}})) WHERE p.part = {{part}} ORDER BY p.place, n
    )
    SELECT d.run_id, a_request.* REPLACE (
        d.n AS "index", 'prompt ' || d.n AS prompt_id, ['code', 'prose', 'chat', 'maths'][1 + d.n % 4] AS category,
        'What is ' || d.n || ' times 97?' AS prompt,
        d.drafts AS spec_drafts, d.drafts * d.arm AS spec_draft_tokens,
        {_TOKENS - 1} - d.drafts AS spec_accepted_tokens,
        d.at_s AS intended_send_s, d.at_s AS sent_s, d.at_s + d.ttft / 1000 AS first_token_s,
        d.at_s + d.e2e / 1000 AS end_s, {{wide}},
        d.ttft AS ttft_ms, d.ttft AS ttft_from_intended_ms, d.tpot AS tpot_ms, d.e2e AS e2e_ms
    ), a_run.started_at + to_minutes(d.place) AS run_started_at
    FROM drawn AS d, a_request, a_run
"""
_SHORT = """
        'It is ' || d.n * 97 AS output_text, [d.at_s + d.ttft / 1000, d.at_s + d.e2e / 1000] AS chunk_s
"""
#: As incompressible as real data: each chunk has its own jitter, each word and token is random.
_REALISTIC = f"""
        list_transform(range({_TOKENS}), lambda i: (hash(d.place, d.n, i, {{seed}}) % {_VOCABULARY})::INTEGER)
            AS output_token_ids,
        array_to_string(list_select({_WORDS}, list_transform(range({_TEXT_WORDS}),
            lambda i: (hash(d.place, d.n, i, {{seed}}, 3) % {len(_WORDS)} + 1)::BIGINT)), ' ') AS output_text,
        list_transform(range({_TOKENS}),
            lambda i: d.at_s + (d.ttft + i * d.tpot + hash(d.place, d.n, i, 4) % 1000003 / 1000003) / 1000) AS chunk_s,
        list_transform(range({_TOKENS}), lambda i: 1) AS chunk_tokens
"""
_LATENCIES = ("ttft", "tpot", "e2e")
_PROMPT_LISTS = """
    INSERT INTO prompt_lists
    SELECT sha256(array_to_string(listed, chr(10))), listed
    FROM (SELECT list('prompt ' || range ORDER BY range) AS listed FROM range({requests}))
"""
_LISTS = f"""
    INSERT INTO prompt_latencies BY NAME
    SELECT run_id, (SELECT prompts_id FROM prompt_lists) AS prompts_id,
        {", ".join(f'list({name}_ms ORDER BY "index") AS {name}_ms' for name in _LATENCIES)}
    FROM request_records WHERE run_id IN (SELECT run_id FROM plan WHERE part = {{part}}) GROUP BY run_id ORDER BY run_id
"""
_QUANTILES = ", ".join(
    f"f.{name}_q[{place}] AS {name}_p{q}_ms" for name in _LATENCIES for place, q in enumerate((50, 90, 95, 99), 1)
)
_METRICS = f"""
    INSERT INTO run_metrics BY NAME
    WITH found AS (
        SELECT run_id, count(*) AS requests, sum(completion_tokens) AS tokens, max(end_s) AS length_s,
            {", ".join(f"avg({name}_ms) AS {name}_mean" for name in _LATENCIES)},
            {", ".join(f"quantile_cont({name}_ms, [0.5, 0.9, 0.95, 0.99]) AS {name}_q" for name in _LATENCIES)}
        FROM request_records WHERE run_id IN (SELECT run_id FROM plan WHERE part = {{part}}) GROUP BY run_id
    )
    SELECT f.run_id, a_measured.* REPLACE (
        f.requests AS requests_completed, 0 AS requests_failed, f.length_s AS duration_s,
        f.tokens AS completion_tokens, f.tokens / f.length_s AS output_tok_per_s,
        f.requests / f.length_s AS request_per_s, 100 AS num_drafts, [0.8, 0.6, 0.3] AS acceptance_per_position,
        {", ".join(f"f.{name}_mean AS {name}_mean_ms" for name in _LATENCIES)},
        {_QUANTILES}
    ) FROM found AS f, a_measured ORDER BY f.run_id
"""
#: As lab.metrics.histogram counts; ITL and ICL are as many rows as the others and are taken to be those of TPOT.
_HISTOGRAMS = f"""
    INSERT INTO histograms BY NAME
    SELECT run_id, metric, ceil(ln(ms) / ln({GROWTH!r}))::INTEGER AS bucket, count(*) AS count
    FROM (
        SELECT run_id, unnest(['ttft', 'tpot', 'itl', 'icl', 'e2e']) AS metric,
            unnest([ttft_ms, tpot_ms, tpot_ms, tpot_ms, e2e_ms]) AS ms
        FROM request_records WHERE run_id IN (SELECT run_id FROM plan WHERE part = {{part}})
    ) GROUP BY ALL ORDER BY run_id, metric, bucket
"""
_TELEMETRY = f"""
    INSERT INTO telemetry BY NAME
    SELECT p.run_id, a_sample.* REPLACE (n AS t_s)
    FROM plan AS p, (SELECT range + 1 AS n FROM range({_SAMPLES})), a_sample WHERE p.part = {{part}}
    ORDER BY p.place, n
"""
_VERDICTS = """
    INSERT INTO run_validity
    SELECT run_id, place % 40 <> 7, CASE WHEN place % 40 = 7 THEN ['made so'] ELSE [] END, [] FROM plan
    WHERE part = {part}
"""
_FINDINGS = """
    INSERT INTO findings
    SELECT run_id, name, CASE WHEN place % 40 = 7 THEN 'invalid' ELSE 'note' END, 'made so', 'leave it'
    FROM plan, (SELECT unnest(['few_requests', 'long_tail']) AS name) WHERE part = {part}
"""
