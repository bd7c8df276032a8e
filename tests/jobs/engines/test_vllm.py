"""vLLM's command line and log, as text."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from jobs.engines.kinds.vllm import effective_config, other_model
from lab.errors import UserError
from tests.jobs.engines.commands import words_of
from tests.lab.studies import study
from workers.engine_runtime.start_failure import error_excerpt

LOG = """\
INFO 11-21 04:28:00 [utils.py:233] non-default args: {'model_tag': '/m', 'port': 1, 'max_model_len': 512}
(EngineCore pid=18823) INFO 11-21 04:28:01 [core.py:134] Initializing a V1 LLM engine (v0.32.0) with config: \
model='/m, odd', speculative_config=SpeculativeConfig(method='ngram', model=None), dtype=torch.bfloat16, \
compilation_config={'mode': <CompilationMode.NONE: 0>, 'sizes': [1, 2]}
(APIServer pid=1) INFO 11-21 04:28:02 [api.py:1] Application startup complete.
"""
FAILED = """\
(EngineCore pid=12) ERROR 11-21 04:00:00 [core.py:1] EngineCore failed to start.
(EngineCore pid=12) ERROR 11-21 04:00:00 [core.py:1] Traceback (most recent call last):
(EngineCore pid=12) ERROR 11-21 04:00:00 [core.py:1]   File "core.py", line 1, in run
(EngineCore pid=12) ERROR 11-21 04:00:00 [core.py:1]     raise ValueError
(EngineCore pid=12) ERROR 11-21 04:00:00 [core.py:1] torch.OutOfMemoryError: CUDA out of memory.
(EngineCore pid=12) torch.OutOfMemoryError: CUDA out of memory.
Traceback (most recent call last):
  File "api.py", line 9, in main
pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig
  Value error, User-specified max_model_len (999999) is greater than the derived max_model_len
    For further information visit https://errors.pydantic.dev/2.14/v/value_error
RuntimeError: Engine core initialization failed. See root cause above.
"""


of_arm = partial(words_of, "vllm")


def test_a_key_of_a_flags_table_is_spelled_as_it_is_written(tmp_path: Path) -> None:
    flags = {"default_chat_template_kwargs.enable_thinking": "false", "max_model_len": 8}
    words = of_arm(tmp_path, {"flags": flags})
    assert {"--default-chat-template-kwargs.enable_thinking=false", "--max-model-len=8"} <= set(words)


def test_flags_become_options_and_an_arm_overrides_its_study(tmp_path: Path) -> None:
    words = of_arm(
        tmp_path,
        {"flags": {"max_model_len": 512, "enforce-eager": False}},
        engine_flags={"max_model_len": 1024, "enforce_eager": True, "enable_prefix_caching": False, "dtype": "float32"},
    )
    assert " ".join(words[words.index("--served-model-name=reference") :]).count("--max-model-len") == 1
    assert {"--max-model-len=512", "--dtype=float32"} <= set(words)
    assert "--no-enable-prefix-caching" in words
    assert "--no-enforce-eager" in words
    assert "--enforce-eager" not in words


def test_reference_names_become_folders_and_stay_the_served_names(tmp_path: Path) -> None:
    draft = {"method": "draft_model", "model": "reference-draft", "num_speculative_tokens": 3}
    words = of_arm(tmp_path, {"speculation": draft})
    assert words[0] == str(tmp_path / "models" / "target")
    assert "--served-model-name=reference" in words
    assert f'"model": "{tmp_path / "models" / "draft"}"' in words[words.index("--speculative-config") + 1]


def test_the_configuration_of_an_arm_is_words_that_flags_win_over(tmp_path: Path) -> None:
    """The one of the second source. What vLLM reads in them: test_vllm_reads."""
    config = {"kv-cache-dtype": "fp8", "async-scheduling": True, "max-num-batched-tokens": 8192, "stream-interval": 20}
    words = of_arm(tmp_path, {"config": config | {"compilation-config": {"mode": 3}}, "flags": {"seed": 1}})
    assert words[1:6] == [
        *("--kv-cache-dtype=fp8", "--async-scheduling", "--max-num-batched-tokens=8192", "--stream-interval=20"),
        '--compilation-config={"mode": 3}',
    ]
    assert words.index("--seed=1") > 6


def test_a_part_of_a_flags_table_takes_no_word_behind_it(tmp_path: Path) -> None:
    """vLLM takes the next word for the value of a flag with a dot, whatever that word is."""
    words = of_arm(tmp_path, {"flags": {"compilation-config.a": True, "compilation-config.b": False, "seed": 1}})
    assert words[-3:] == ["--compilation-config.a=true", "--compilation-config.b=false", "--seed=1"]


def test_an_item_of_a_list_cannot_be_a_flag(tmp_path: Path) -> None:
    sizes = {"cudagraph_capture_sizes": [1, 2]}
    words = of_arm(tmp_path, {"config": sizes})
    assert words[1:4] == ["--cudagraph-capture-sizes", "1", "2"]
    with pytest.raises(UserError, match="cudagraph-capture-sizes has '--enable-lora' in its list"):
        of_arm(tmp_path, {"config": {"cudagraph_capture_sizes": [1, "--enable-lora"]}})
    assert of_arm(tmp_path, {"config": {"cudagraph_capture_sizes": []}}) == of_arm(tmp_path, {})


@pytest.mark.parametrize(
    "options",
    [
        {"rejection_sample_method": "synthetic", "synthetic_acceptance_rates": [0.8, 0.5, 0.2]},
        {"num_speculative_tokens_per_batch_size": [[1, 4, 3], [5, 512, 0]]},
    ],
)
def test_options_are_further_keys_of_the_speculative_configuration(tmp_path: Path, options: dict[str, object]) -> None:
    draft = {"method": "draft_model", "model": "owner/draft", "num_speculative_tokens": 3, "options": options}
    words = of_arm(tmp_path, {"speculation": draft})
    speculative = json.loads(words[words.index("--speculative-config") + 1])
    assert speculative == {"method": "draft_model", "model": "owner/draft", "num_speculative_tokens": 3} | options


def test_without_speculation_nothing_is_said_about_it(tmp_path: Path) -> None:
    assert not [word for word in of_arm(tmp_path, {}) if word.startswith("--") and "spec" in word]


def test_the_configuration_is_the_one_that_the_engine_logged(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(LOG)
    assert effective_config(tmp_path / "log") == {
        "non_default_args": "{'model_tag': '/m', 'port': 1, 'max_model_len': 512}",
        "model": "'/m, odd'",
        "speculative_config": "SpeculativeConfig(method='ngram', model=None)",
        "dtype": "torch.bfloat16",
        "compilation_config": "{'mode': <CompilationMode.NONE: 0>, 'sizes': [1, 2]}",
    }


@pytest.mark.parametrize(
    ("served", "drafting", "asks", "is_other"),
    [
        ("/models/others", "SpeculativeConfig(method='eagle3', model='/m', num_spec_tokens=3)", False, True),
        ("/models/others", "SpeculativeConfig(method='eagle3', model='/m', num_spec_tokens=2)", True, True),
        ("owner/others", "SpeculativeConfig(method='eagle3', model='/cache/m', num_spec_tokens=3)", False, True),
        ("/m", "SpeculativeConfig(method='mtp', model='/m', num_spec_tokens=1)", True, False),
        ("/m", "SpeculativeConfig(method='ngram', model=None, num_spec_tokens=3)", True, False),
        ("/m", "None", False, False),
    ],
)
def test_a_target_that_makes_vllm_serve_another_model_is_noticed(
    served: str, drafting: str, *, asks: bool, is_other: bool
) -> None:
    speculation = {"method": "ngram", "num_speculative_tokens": 3} if asks else None
    arm = study(arms=[{"name": "a", "speculation": speculation, "baseline": True}]).arms[0]
    why = other_model("/m", arm, {"model": repr(served), "speculative_config": drafting})
    assert (why or "").startswith(f"vLLM serves {served!r} with SpeculativeConfig") is is_other


def test_the_telling_lines_are_the_errors_each_once_with_what_explains_them(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(FAILED)
    assert error_excerpt(tmp_path / "log").splitlines() == [
        "torch.OutOfMemoryError: CUDA out of memory.",
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig",
        "  Value error, User-specified max_model_len (999999) is greater than the derived max_model_len",
        "RuntimeError: Engine core initialization failed. See root cause above.",
    ]


@pytest.mark.parametrize(("lines", "lines_left"), [(3, 3), (100, 15)])
def test_a_log_without_an_error_is_told_by_its_last_lines(tmp_path: Path, lines: int, lines_left: int) -> None:
    (tmp_path / "log").write_text("".join(f"INFO line {number}\n" for number in range(lines)))
    excerpt = error_excerpt(tmp_path / "log").splitlines()
    assert (len(excerpt), excerpt[-1]) == (lines_left, f"INFO line {lines - 1}")


def test_what_a_request_omits_is_not_taken_from_generation_config(tmp_path: Path) -> None:
    assert " ".join(of_arm(tmp_path, {})).count("--generation-config=vllm") == 1
    sampling = of_arm(tmp_path, {"flags": {"generation_config": "auto"}})
    assert "--generation-config=auto" in sampling
    assert " ".join(of_arm(tmp_path, {"config": {"generation_config": "auto"}})).count("--generation-config=auto") == 1
