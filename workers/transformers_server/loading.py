"""Loads the models that the options name, ready to generate."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from errors import StartError
from options import Options
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, PreTrainedTokenizerBase
from transformers.utils.logging import disable_progress_bar

_LOG = logging.getLogger("transformers_server")


@dataclass(frozen=True)
class Models:
    target: Any  # a PreTrainedModel; transformers' types lack `generate`
    draft: Any | None
    tokenizer: PreTrainedTokenizerBase
    context_tokens: int  # prompt and answer together
    vocabulary: int  # token ids are below this
    eos_ids: tuple[int, ...]


def load(options: Options) -> Models:
    """Load the models. Raises StartError if they cannot be loaded or do not belong together."""
    quiet: Any = disable_progress_bar
    quiet()
    device = _device(options.device)
    target = _model(options.model, device, options.dtype)
    draft = None if options.assistant_model is None else _model(options.assistant_model, device, options.dtype)
    if draft is not None:
        _check_pair(target, draft)
    tokenizer = _tokenizer(options.model)
    models = Models(
        target=target,
        draft=draft,
        tokenizer=tokenizer,
        context_tokens=_context_tokens(options, target, draft),
        vocabulary=target.get_input_embeddings().num_embeddings,
        eos_ids=_eos_ids(target, tokenizer),
    )
    _neutralise(models, options.num_speculative_tokens)
    _LOG.info("effective configuration: %s", effective_configuration(options, models))
    return models


def effective_configuration(options: Options, models: Models) -> dict[str, str | int]:
    """Return the effective configuration, including defaults of unset options."""
    return {
        "transformers": transformers.__version__,
        "torch": torch.__version__,
        "device": str(models.target.device),
        "dtype": str(models.target.dtype).removeprefix("torch."),
        "attention": str(models.target.config._attn_implementation),  # noqa: SLF001 - there is no public attribute
        "threads": torch.get_num_threads(),
        "context_tokens": models.context_tokens,
        "method": options.method,
        "num_speculative_tokens": options.num_speculative_tokens,
    }


def _device(name: str) -> str:
    if name != "auto":
        return name
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _model(name: str, device: str, dtype: str) -> Any:
    read: Any = AutoModelForCausalLM.from_pretrained
    try:
        model, report = read(name, dtype=dtype, output_loading_info=True)
        if report["missing_keys"]:  # transformers would only warn and fill them with random numbers
            raise StartError(
                f"{name} lacks weights, for example {min(report['missing_keys'])}: it is not a complete model"
            )
        return model.to(device).eval()
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        raise StartError(f"the model {name} cannot be loaded on {device}: {error}") from error


def _tokenizer(name: str) -> PreTrainedTokenizerBase:
    try:
        return AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise StartError(f"the tokenizer of {name} cannot be loaded: {error}") from error


def _check_pair(target: Any, draft: Any) -> None:
    ours, theirs = (model.config.get_text_config().vocab_size for model in (target, draft))
    if ours != theirs:
        raise StartError(
            f"the draft model has {theirs} tokens in its vocabulary and the target has {ours}: "
            "choose a draft model with the target's tokenizer"
        )


def _context_tokens(options: Options, *models: Any) -> int:
    """Return the smallest of the models' context lengths and the requested one."""
    own = [getattr(model.config.get_text_config(), "max_position_embeddings", None) for model in models if model]
    limits = [tokens for tokens in (options.max_model_len, *own) if tokens]
    if not limits:
        raise StartError("the model's config has no context length: set --max-model-len TOKENS")
    if options.max_model_len is not None and options.max_model_len > min(limits):
        raise StartError(f"--max-model-len {options.max_model_len} is more than the models' context of {min(limits)}")
    return min(limits)


def _eos_ids(target: Any, tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
    """Return the tokenizer's end token and those of the model's generation config, as vLLM does."""
    configured = target.generation_config.eos_token_id
    ids = {*(configured if isinstance(configured, list) else [configured]), tokenizer.eos_token_id}
    return tuple(sorted(token for token in ids if token is not None))


def _neutralise(models: Models, num_speculative_tokens: int) -> None:
    """Replace the models' own generation configs, which would fill in what a request leaves out.

    Transformers reads the number of tokens to draft from the draft model's config: here constant, and never cut short
    by a low confidence, so that K means K.
    """
    new: Any = GenerationConfig
    models.target.generation_config = new()
    if models.draft is not None:
        models.draft.generation_config = new(
            num_assistant_tokens=num_speculative_tokens,
            num_assistant_tokens_schedule="constant",
            assistant_confidence_threshold=0.0,
        )
