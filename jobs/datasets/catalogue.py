"""Every dataset with a name of its own. Others are custom files, registered under a name or given by their path."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from jobs.datasets import benchmarks, common_forms, formats, synthetic, traces
from jobs.datasets.formats import RowReader
from jobs.datasets.prompt import Prompt
from jobs.datasets.tokenizer import TargetTokenizer
from lab.errors import INSTALL_COMMAND
from lab.study import Workload
from lab.study.workload import RANDOM_LENGTHS, WITH_GRAMMAR

#: (workload, number of prompts, seed, tokenizer) -> prompts; a smaller number gives the first of a larger one.
Maker = Callable[[Workload, int, int, TargetTokenizer], tuple[Prompt, ...]]
#: The files that ship with Drafthouse.
SHIPPED = Path(__file__).parents[2] / "datasets"


@dataclass(frozen=True)
class Dataset:
    """One dataset: its source, its licence, and how it becomes prompts.

    Prompts are either generated (`make`) or read row by row from a file (`read_row`): the `shipped` file, the
    file that the user registered under the name or, for the reference prompts, the files of the prepared models.
    `synthetic`: prompts are random tokens, so acceptance means little. `fits(prompt_tokens, output_tokens)`: whether a
    row has a usable length.
    """

    name: str
    what: str
    source: str
    licence: str
    how_to_get: str
    columns: str
    make: Maker | None = None
    read_row: RowReader | None = None
    shipped: str | None = None
    synthetic: bool = False
    fits: Callable[[int, int], bool] | None = None

    @property
    def is_registered(self) -> bool:
        """Return whether the user must register its file before it can be used."""
        return self.read_row is not None and self.shipped is None and self.name != "reference"


_HERE = "datasets/ of this repository"
_NO_DOWNLOAD = "ships with Drafthouse"
_CC0 = "CC0-1.0: written or made up for this project"
_HUB = "https://huggingface.co/datasets/"

REFERENCE = Dataset(
    "reference",
    "the kinds of text that the reference pair was trained on: code, prose, repeat",
    source="models/prompts of this repository, from Python's standard library and its documentation",
    licence="Python Software Foundation License 2",
    how_to_get=f"`{INSTALL_COMMAND}`",
    columns="JSONL: prompt, category",
    read_row=formats.custom_row,
)
#: Any file of the user's own, by path or under a name.
CUSTOM = Dataset(
    "custom",
    "prompts of your own, or a file in a common form: name it, or register it under any name that is free",
    source="you",
    licence="yours",
    how_to_get="write one JSON object a line, then `drafthouse datasets add NAME FILE`",
    columns="JSONL: prompt, or messages [{role, content}], each perhaps with wait_s; perhaps category, output_tokens, "
    "arrival_s; or the rows of OpenAI batch files, Alpaca, Dolly, FastChat (turns), ShareGPT and LMSYS",
    read_row=common_forms.own_row,
)
_SHAREGPT = Dataset(
    "sharegpt",
    "what people asked ChatGPT: the first human turn, answered at the length of the reply",
    source=_HUB + "anon8231489123/ShareGPT_Vicuna_unfiltered",
    licence="Apache-2.0 by its card; the texts are its users' own",
    how_to_get="download ShareGPT_V3_unfiltered_cleaned_split.json from there",
    columns="JSON list: conversations (or items) [{from, value}]. Conversations without a reply are left out; used are "
    "prompts of 4 to 1024 tokens that with the reply have 2048 at most",
    read_row=formats.sharegpt_row,
    fits=formats.fits_sharegpt,
)
_SPEC_BENCH = Dataset(
    "spec_bench",
    "six kinds of tasks: multi_turn, translation, summarization, qa, math_reasoning, rag; the first turn of each",
    source="https://github.com/hemingkx/Spec-Bench",
    licence="Apache-2.0 by its repository; parts of MT-bench, WMT14, CNN/Daily Mail, Natural Questions and GSM8K",
    how_to_get="download data/spec_bench/question.jsonl from there (its raw form)",
    columns="JSONL: category, turns. MT-bench's eight categories are together multi_turn",
    read_row=formats.spec_bench_row,
)
_MT_BENCH = Dataset(
    "mt_bench",
    "80 questions of two turns in eight categories; the first turn, or both as a session",
    source="https://github.com/lm-sys/FastChat (fastchat/llm_judge/data/mt_bench/question.jsonl)",
    licence="Apache-2.0 by its repository",
    how_to_get="download question.jsonl from there (its raw form)",
    columns="JSONL: category, turns",
    read_row=formats.mt_bench_row,
)
_MOONCAKE = Dataset(
    "mooncake",
    "traces of AIPerf and Mooncake: sessions with messages, or lengths and hashes alone: their load, not their text",
    source="https://github.com/kvcache-ai/Mooncake (FAST25-release/traces), or a trace of your own in AIPerf's format",
    licence="Apache-2.0 by its repository",
    how_to_get="download a trace from there, like conversation_trace.jsonl",
    columns="JSONL: timestamp (ms), output_length, and messages, text_input or input_length with perhaps hash_ids (of "
    "blocks of 512 tokens); session_id, delay (ms) and message_mode as AIPerf has them",
    read_row=traces.mooncake_row,
)
_OTEL = Dataset(
    "otel",
    "your own traffic as OpenTelemetry recorded it: GenAI spans with their messages, replayed as sessions",
    source="you: the file exporter of an OpenTelemetry collector, with content capture enabled",
    licence="yours",
    how_to_get="export the spans as OTLP JSON, one request or one span a line",
    columns="JSONL: resourceSpans, or one span with attributes gen_ai.input.messages, gen_ai.output.messages, "
    "gen_ai.conversation.id and startTimeUnixNano, endTimeUnixNano",
    read_row=traces.otel_rows,
)
_BURSTGPT = Dataset(
    "burstgpt",
    "lengths and arrival times of requests to a real service; its texts were not published, so tokens are random",
    source="https://github.com/HPMLL/BurstGPT",
    licence="CC-BY-4.0 by its repository",
    how_to_get="download BurstGPT_1.csv from its releases",
    columns="CSV: Timestamp (s), Model (the category: GPT-4 is what `vllm bench serve` uses), Request tokens, Response "
    "tokens. Failed requests are left out. Requests stay in the order of time, from one that the seed picks",
    read_row=formats.burstgpt_row,
    synthetic=True,
)
_AZURE = Dataset(
    "azure_llm",
    "lengths and arrival times of requests to Azure's LLM services; its texts were not published, so tokens are random",
    source="https://github.com/Azure/AzurePublicDataset",
    licence="CC-BY-4.0 by its repository",
    how_to_get="download AzureLLMInferenceTrace_conv.csv or _code.csv (of 2023 or 2024) from there",
    columns="CSV: TIMESTAMP (date and time), ContextTokens, GeneratedTokens. Requests without tokens on one side are "
    "left out. Requests stay in the order of time, from one that the seed picks",
    read_row=formats.azure_row,
    synthetic=True,
)
_SWE_BENCH = Dataset(
    "swe_bench",
    "issues of Python projects, asking for a patch; the category is the repository",
    source=_HUB + "princeton-nlp/SWE-bench_Lite (or SWE-bench, SWE-bench_Lite_oracle: any with these columns)",
    licence="MIT by the project; the issues are their authors' own",
    how_to_get="download the Parquet file of the test split from there",
    columns="Parquet or JSONL: repo, problem_statement or text (the whole prompt), perhaps patch",
    read_row=formats.swe_bench_row,
)
_MLPERF = Dataset(
    "mlperf_summarisation",
    "MLPerf inference's summarisation task: news articles, answered at the length of their highlights",
    source="https://github.com/mlcommons/inference (language/gpt-j, language/llama3.1-8b)",
    licence="Apache-2.0 by the dataset's card; the articles are their publishers' own",
    how_to_get="make cnn_eval.json with its download_cnndm.py, or download a Parquet file of "
    + _HUB
    + "abisee/cnn_dailymail (3.0.0)",
    columns="JSON list: instruction, input, output; or Parquet: article, highlights",
    read_row=formats.mlperf_row,
)
_SPEED_BENCH = Dataset(
    "speed_bench",
    "what engines and their tools report acceptance on: prompts in eleven categories, or of 1k to 32k tokens",
    source=_HUB + "nvidia/SPEED-Bench",
    licence="the NVIDIA Evaluation Dataset License; the prompts belong to the datasets that they come from",
    how_to_get="prepare a split with SPEED-Bench's own script: its public files hold placeholders, which are refused",
    columns="JSONL or Parquet: category, turns",
    read_row=benchmarks.speed_bench_row,
)
_HUMANEVAL = Dataset(
    "humaneval",
    "164 Python functions to complete",
    source="https://github.com/openai/human-eval",
    licence="MIT by its repository",
    how_to_get="download data/HumanEval.jsonl.gz from there",
    columns="JSONL or Parquet: task_id, prompt, perhaps canonical_solution",
    read_row=benchmarks.humaneval_row,
)
_MBPP = Dataset(
    "mbpp",
    "974 small Python tasks, or the 427 sanitized ones",
    source="https://github.com/google-research/google-research/tree/master/mbpp",
    licence="CC-BY-4.0 by its card",
    how_to_get="download mbpp.jsonl or sanitized-mbpp.json from there",
    columns="JSONL, JSON list or Parquet: text or prompt, test_list, perhaps code",
    read_row=benchmarks.mbpp_row,
)
_GSM8K = Dataset(
    "gsm8k",
    "1319 problems of school mathematics",
    source="https://github.com/openai/grade-school-math",
    licence="MIT by its repository",
    how_to_get="download grade_school_math/data/test.jsonl from there",
    columns="JSONL or Parquet: question, answer",
    read_row=benchmarks.gsm8k_row,
)
_MATH_500 = Dataset(
    "math_500",
    "500 problems of competition mathematics; the subject is the category",
    source=_HUB + "HuggingFaceH4/MATH-500",
    licence="MIT by the repository of MATH",
    how_to_get="download test.jsonl from there",
    columns="JSONL: problem, solution, subject",
    read_row=benchmarks.math_row,
)
_CNN = Dataset(
    "cnn_dailymail",
    "news articles to be summarised, answered at the length of their highlights",
    source=_HUB + "abisee/cnn_dailymail (3.0.0)",
    licence="Apache-2.0 by its card; the articles are their publishers' own",
    how_to_get="download the Parquet file of the test split from there",
    columns="Parquet or JSONL: article, highlights",
    read_row=formats.mlperf_row,
)
_BFCL = Dataset(
    "bfcl",
    "calls of functions: the Berkeley Function Calling Leaderboard; the kind of task is the category",
    source="https://github.com/ShishirPatil/gorilla (berkeley-function-call-leaderboard/bfcl_eval/data)",
    licence="Apache-2.0 by its repository",
    how_to_get="download a file of a kind from there, like BFCL_v4_multiple.json",
    columns="JSONL: id, question (turns of messages), function. Rows without functions are left out",
    read_row=benchmarks.bfcl_row,
)
_JSON_SCHEMA = Dataset(
    WITH_GRAMMAR,
    "structured output: answers that the engine holds to a JSON schema",
    source=_HUB + "NousResearch/json-mode-eval, or rows of your own",
    licence="Apache-2.0 by its card",
    how_to_get="download its Parquet file and rename prompt to messages, or write rows of your own",
    columns="JSONL or Parquet: prompt or messages, schema (an object or JSON text), perhaps completion, category",
    read_row=benchmarks.json_schema_row,
)
_READ = (_SHAREGPT, _SPEC_BENCH, _MT_BENCH, _BURSTGPT, _SWE_BENCH, _MLPERF, _GSM8K)
#: Datasets in the same formats, but without a shipped sample.
_READ_ALONE = (
    *(_SPEED_BENCH, _HUMANEVAL, _MBPP, _MATH_500, _CNN, _BFCL, _JSON_SCHEMA),
    *(_MOONCAKE, _OTEL, _AZURE),
)
_SAMPLES = {
    "sharegpt": "sharegpt_sample.json",
    "spec_bench": "spec_bench_sample.jsonl",
    "mt_bench": "mt_bench_sample.jsonl",
    "burstgpt": "burstgpt_sample.csv",
    "swe_bench": "swe_bench_sample.jsonl",
    "mlperf_summarisation": "mlperf_summarisation_sample.json",
    "gsm8k": "gsm8k_sample.jsonl",
}


def _synthetic(name: str, description: str) -> Dataset:
    return Dataset(
        name,
        description,
        source="random token ids of the target's vocabulary, drawn evenly (`vllm bench serve` takes them in a row)",
        licence="none needed",
        how_to_get="nothing to get",
        columns="of exact length as token ids for the completions endpoint; as text for the chat endpoint, where the "
        "server counts them differently",
        make=synthetic.random_prompts,
        synthetic=True,
    )


def _shipped(name: str, description: str, file: str) -> Dataset:
    return Dataset(
        name,
        description,
        source=f"{_HERE}: {file}",
        licence=_CC0,
        how_to_get=_NO_DOWNLOAD,
        columns=CUSTOM.columns,
        read_row=formats.custom_row,
        shipped=file,
    )


def _sample(dataset: Dataset) -> Dataset:
    """Declare a shipped sample: a few made-up rows in the same format, to try the loader without a download."""
    file = _SAMPLES[dataset.name]
    description = f"a few made-up rows in the format of {dataset.name}, to try it with; no figure of it can be compared"
    return replace(
        dataset,
        name=f"{dataset.name}_sample",
        what=description,
        source=f"{_HERE}: {file}",
        licence=_CC0,
        how_to_get=_NO_DOWNLOAD,
        shipped=file,
    )


_ALL = (
    REFERENCE,
    _synthetic("random", "random tokens of the lengths that the workload sets: input_tokens, output_tokens"),
    *(
        _synthetic(n, f"random tokens, {i} input and {o} output tokens a request")
        for n, (i, o) in RANDOM_LENGTHS.items()
    ),
    replace(
        _synthetic(
            "prefix_repetition",
            "random tokens with shared beginnings: num_prefixes (10) of prefix_tokens (256) each, with input_tokens "
            "(256) of its own behind",
        ),
        make=synthetic.prefix_prompts,
    ),
    _shipped("story", "1000-word stories on a given subject", "story.jsonl"),
    _shipped("summarisation", "a summary of 3 to 4 paragraphs of an article of about 500 words", "summarisation.jsonl"),
    _shipped(
        "summarisation_sample",
        "a summary of a single paragraph, short enough for the reference pair",
        "summarisation_sample.jsonl",
    ),
    *_READ,
    *map(_sample, _READ),
    *_READ_ALONE,
)
#: By name, in the order in which they are listed.
DATASETS: dict[str, Dataset] = {dataset.name: dataset for dataset in _ALL}
